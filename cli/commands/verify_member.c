#include "cli/commands/verify_member.h"

#include "base/bytes.h"
#include "image/formats/ppm.h"
#include "shards/dataset/class_number.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int set_bad_member(const struct verify_member *member, uint64_t offset_in_member,
                          const char *what, struct err *err)
{
    err_set(err, -EBADMSG, "%s in %.160s.%s", what, member->key, member->extension);
    err_at(err, member->path, (int64_t)(member->offset + offset_in_member));
    return -EBADMSG;
}

/* Compares the picture columns of the index with the image's header. */
static int check_against_index(const struct verify_member *member, struct err *err)
{
    struct ppm ppm;
    struct pixels_info info;
    struct err detail;
    const struct shard_raw_image *picture = &member->picture;
    if (picture->width == 0)
        return 0;
    if (ppm_begin(&ppm, member->data, member->size_bytes, NULL, &info, &detail) == 0 &&
        ppm.width == picture->width && ppm.header_bytes == picture->pixels_offset)
        return 0;
    set_bad_member(member, 0, "image does not match the index", err);
    err_expected(err, "a PPM of width %" PRIu32 " with a header of %" PRIu32 " bytes",
                 picture->width, picture->pixels_offset);
    return -EBADMSG;
}

int verify_member_image(struct image_checker *checker, const struct verify_member *member,
                        bool decodes_fully, struct err *err)
{
    char what[64];
    struct err detail = {0};
    struct pixels_info info;
    int status =
        decodes_fully
            ? image_check(checker, member->data, member->size_bytes, NULL, &detail)
            : image_check_headers(checker, member->data, member->size_bytes, NULL, &info, &detail);
    if (status == 0)
        return check_against_index(member, err);
    if (status != -EBADMSG) {
        *err = detail;
        return status;
    }
    snprintf(what, sizeof what, "undecodable %s",
             image_kind_name(image_kind_of(member->data, member->size_bytes)));
    set_bad_member(member, detail.offset > 0 ? (uint64_t)detail.offset : 0, what, err);
    err_found(err, "%.120s%s%.120s", detail.what, detail.found[0] ? ": " : "", detail.found);
    return -EBADMSG;
}

static int check_class(const struct dataset *dataset, const struct verify_member *member,
                       struct err *err)
{
    int32_t number;
    uint64_t count = dataset ? dataset->classes_count : 0;
    if (class_number_parse(member->data, member->size_bytes, count, &number) == 0)
        return 0;
    set_bad_member(member, 0, "invalid class number", err);
    if (count)
        err_expected(err, "a decimal number below %" PRIu64, count);
    else
        err_expected(err, "a decimal number");
    err_found(err, "\"%.*s\"", (int)bytes_min(member->size_bytes, CLASS_NUMBER_BYTES_MAX),
              (const char *)member->data);
    return -EBADMSG;
}

static int check_tokens(const struct dataset *dataset, const struct verify_member *member,
                        struct err *err)
{
    struct npy npy;
    struct err detail = {0};
    enum dtype expected_dtype =
        strcmp(dataset->text.element, "uint32") == 0 ? DTYPE_U32 : DTYPE_U16;
    int status = npy_decode_header(member->data, member->size_bytes, member->size_bytes,
                                   member->path, &npy, &detail);
    if (!status && npy.dtype == expected_dtype && npy.header_bytes == dataset->text.header_bytes)
        return 0;
    set_bad_member(member, 0, "invalid tokens", err);
    err_expected(err, "a .npy of %s after a header of %" PRIu32 " bytes", dataset->text.element,
                 dataset->text.header_bytes);
    if (status)
        err_found(err, "%.200s", detail.what);
    else
        err_found(err, "%s after %" PRIu32 " bytes", dtype_name(npy.dtype), npy.header_bytes);
    return -EBADMSG;
}

bool verify_member_is_alternative(const char *a, const char *b)
{
    const char *end_a = strrchr(a, '.'), *end_b = strrchr(b, '.');
    size_t bytes_a = end_a ? (size_t)(end_a - a) : 0, bytes_b = end_b ? (size_t)(end_b - b) : 0;
    return is_image_extension(a) && is_image_extension(b) && bytes_a == bytes_b &&
           memcmp(a, b, bytes_a) == 0;
}

int verify_member_content(const struct dataset *dataset, const struct verify_member *member,
                          enum verify_kind *ret_kind, struct err *err)
{
    if (dataset && dataset->text.element[0] && strcmp(member->extension, "npy") == 0) {
        *ret_kind = VERIFY_TOKENS;
        return check_tokens(dataset, member, err);
    }
    if (strcmp(member->extension, "cls") == 0) {
        *ret_kind = VERIFY_LABEL;
        return check_class(dataset, member, err);
    }
    return 0;
}

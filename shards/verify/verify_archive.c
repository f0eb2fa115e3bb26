/*
 * verify_archive — see verification.h. Checks an archive's members against the index.
 */
#include "shards/verify/verification.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "shards/format/member_name.h"
#include "shards/format/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Checks the CRCs of each block and of the whole field. *ret_matches: all match. */
static int check_checksums(struct verification *v, const char *key, const struct shard_field *field,
                           bool *ret_matches)
{
    uint32_t crc = 0;
    bool keep = field->size_bytes <= VERIFY_MEMBER_BYTES_MAX;
    uint64_t problems = v->result->problems_count;
    uint8_t block[SHARD_BLOCK_BYTES];
    str_clear(&v->member);
    if (keep && str_reserve(&v->member, field->size_bytes))
        return err_set(v->err, -ENOMEM, "out of memory for a member of %" PRIu64 " bytes",
                       field->size_bytes);
    for (uint64_t at = 0; at < field->size_bytes; at += SHARD_BLOCK_BYTES) {
        uint64_t bytes = bytes_min(SHARD_BLOCK_BYTES, field->size_bytes - at);
        int status = verification_read(v, field->data_offset + at, block, bytes);
        if (status)
            return status;
        uint32_t block_crc = crc32c(0, block, bytes);
        crc = crc32c(crc, block, bytes);
        if (keep)
            str_add(&v->member, block, bytes);
        if (!field->block_crc32c)
            continue;
        uint32_t expected = bytes_get_u32(field->block_crc32c + at / SHARD_BLOCK_BYTES * 4);
        if (block_crc != expected)
            verification_report_checksum_mismatch(v, key, field->data_offset + at,
                                                  "CRC32C of a block does not match", 8, expected,
                                                  block_crc);
    }
    if (field->has_crc && crc != field->crc32c)
        verification_report_checksum_mismatch(
            v, key, field->data_offset, "CRC32C of a member does not match", 8, field->crc32c, crc);
    *ret_matches = v->result->problems_count == problems;
    return 0;
}

static void pass_to_caller(struct verification *v, const char *key, const struct shard_field *field)
{
    enum verify_kind kind = VERIFY_FIELDS;
    struct err err = {.offset = ERR_NO_OFFSET};
    struct verify_member member = {
        .path = v->path,
        .key = key,
        .extension = shard_index_extension(v->stream.shard->index, v->field),
        .offset = field->data_offset,
        .data = str_text(&v->member),
        .size_bytes = field->size_bytes,
        .picture = field->picture,
    };
    if (v->options->check_member && field->size_bytes <= VERIFY_MEMBER_BYTES_MAX &&
        v->options->check_member(v->options->context, &member, &kind, &err))
        verification_report(v, kind, key, &err);
}

static int check_member(struct verification *v, const struct tar_member *member)
{
    char key[SHARD_KEY_BYTES_MAX], name[SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX];
    struct shard_field field;
    if (!verification_next_field(v, &field)) {
        verification_report_mismatch(v, "", member->header_offset,
                                     "archive has members that are not in the index", 0,
                                     member->data_offset);
        return 0;
    }
    verification_key(v, key);
    snprintf(name, sizeof name, "%s.%s", key,
             shard_index_extension(v->stream.shard->index, v->field));
    if (member->kind != TAR_FILE || strcmp(name, member->name) != 0) {
        struct err err;
        err_set(&err, -EBADMSG, "archive and index name different members");
        err_at(&err, v->path, (int64_t)member->header_offset);
        err_expected(&err, "%s", name);
        err_found(&err, "%s", member->name);
        verification_report(v, VERIFY_ARCHIVE, key, &err);
    } else if (member->data_offset != field.data_offset || member->size_bytes != field.size_bytes) {
        verification_report_mismatch(v, key, member->header_offset,
                                     "archive and index disagree on where a member is",
                                     field.data_offset, member->data_offset);
    } else {
        bool matches = false;
        int status = check_checksums(v, key, &field, &matches);
        if (!status && matches)
            pass_to_caller(v, key, &field);
        uint64_t end = field.data_offset + field.size_bytes;
        if (!status)
            status = verification_check_zeros(v, key, end, bytes_round_up(end, TAR_BLOCK_BYTES));
        if (status)
            return status;
    }
    v->result->members_count++;
    v->field++;
    return 0;
}

/* Reports the fields of a plain tar's sample that are not in the archive. */
static void finish_sample(struct verification *v)
{
    const struct shard_index *index = v->stream.shard->index;
    if (v->seen_fields == 0)
        return;
    for (uint32_t f = 0; f < shard_index_fields(index); f++) {
        struct shard_field field;
        shard_index_field(index, v->sample, f, &field);
        if (field.present && !(v->seen_fields >> f & 1)) {
            char key[SHARD_KEY_BYTES_MAX];
            verification_key(v, key);
            verification_report_mismatch(v, key, field.data_offset,
                                         "index names a member that is not in the archive",
                                         field.data_offset, 0);
        }
    }
    v->sample++;
    v->seen_fields = 0;
}

/* Fields of a sample may come in any order. */
static bool find_plain_field(struct verification *v, const struct tar_member *member,
                             const struct member_name *name, struct shard_field *ret_field)
{
    const struct shard_index *index = v->stream.shard->index;
    char key[SHARD_KEY_BYTES_MAX] = "";
    if (v->seen_fields) {
        verification_key(v, key);
        if (strcmp(key, name->key) != 0)
            finish_sample(v);
    }
    int number = shard_index_find(index, name->extension);
    if (v->sample == shard_index_samples(index) || number < 0)
        return false;
    verification_key(v, key);
    v->field = (uint32_t)number;
    shard_index_field(index, v->sample, v->field, ret_field);
    bool matches = strcmp(key, name->key) == 0 && ret_field->present &&
                   !(v->seen_fields >> number & 1) &&
                   ret_field->data_offset == member->data_offset &&
                   ret_field->size_bytes == member->size_bytes;
    if (matches)
        v->seen_fields |= UINT64_C(1) << number;
    return matches;
}

/* Does not check padding. */
static int check_plain_tar_member(struct verification *v, const struct tar_member *member)
{
    struct member_name name;
    struct shard_field field;
    struct err err;
    bool is_field = false, matches = false;
    if (member->kind != TAR_FILE && member->kind != TAR_SPARSE)
        return 0;
    if (member_name_split(member->name, &name, &is_field, &err)) {
        err_at(&err, v->path, (int64_t)member->header_offset);
        verification_report(v, VERIFY_ARCHIVE, "", &err);
    }
    if (!is_field)
        return 0;
    if (member->kind == TAR_SPARSE) {
        verification_note(v, name.key, member->header_offset,
                          "field is a sparse file, which is not read as part of its sample",
                          "create the tar again without --sparse");
        return 0;
    }
    v->result->members_count++;
    if (!find_plain_field(v, member, &name, &field)) {
        err_set(&err, -EBADMSG,
                "archive has a member at a place that its stored index does not list");
        err_at(&err, v->path, (int64_t)member->header_offset);
        err_found(&err, "\"%.200s\"", member->name);
        err_advise(&err, "rebuild the index with `millrace index %s`", v->path);
        verification_report(v, VERIFY_ARCHIVE, name.key, &err);
        return 0;
    }
    int status = check_checksums(v, name.key, &field, &matches);
    if (!status && matches)
        pass_to_caller(v, name.key, &field);
    return status;
}

static int scanner_read(void *context, uint64_t offset, void *data, size_t bytes)
{
    return verification_read(context, offset, data, bytes);
}

/* A bad header ends the walk, because nothing after it can be located. */
int verify_archive(struct verification *v)
{
    const struct shard_trailer *trailer = &v->stream.shard->trailer;
    struct tar_scanner scanner = {.read = scanner_read, .context = v, .path = v->path};
    scanner.file_bytes = v->stream.file_bytes;
    struct tar_member member;
    struct err err;
    struct shard_field field;
    int status = 0;
    for (;;) {
        status = tar_scan(&scanner, &member, &err);
        if (status == -EBADMSG) {
            verification_report(v, VERIFY_ARCHIVE, "", &err);
            status = 0;
            goto out;
        }
        if (!status && member.kind != TAR_END)
            status = v->stream.shard->is_plain_tar ? check_plain_tar_member(v, &member)
                                                   : check_member(v, &member);
        if (status || member.kind == TAR_END)
            break;
    }
    if (!status && member.data_offset != trailer->archive_end)
        verification_report_mismatch(v, "", member.data_offset,
                                     "the end of the archive differs from the trailer",
                                     trailer->archive_end, member.data_offset);
    if (!status && v->stream.shard->is_plain_tar) {
        if (trailer->archive_end == v->stream.file_bytes)
            verification_note(v, "", trailer->archive_end,
                              "archive has no end marker: it may be truncated between two members",
                              "compare its size with the original");
        finish_sample(v);
        v->field = 0;
    }
    if (!status && verification_next_field(v, &field))
        verification_report_mismatch(v, "", trailer->archive_end,
                                     "index names members that are not in the archive",
                                     field.data_offset, 0);
    if (!status && !v->stream.shard->is_plain_tar)
        status = verification_check_zeros(v, "", trailer->archive_end, trailer->index_offset);
out:
    tar_scanner_deinit(&scanner);
    return status;
}

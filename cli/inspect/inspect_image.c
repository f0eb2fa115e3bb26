/*
 * inspect_image — describes a PNG, WebP or PPM file. Reads the whole file: decoding
 * needs it, and a WebP's EXIF may be at the end.
 */
#include "cli/inspect/inspect.h"
#include "image/formats/png.h"
#include "image/formats/webp.h"
#include "image/pipeline/check.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { READ_BYTES_MAX = 1 << 30 };

static int read_file(struct inspection *in, const char *path, struct io_head *ret_head)
{
    int status = io_read_head(in->io, path, READ_BYTES_MAX, ret_head, in->err);
    if (status || ret_head->file_bytes <= READ_BYTES_MAX)
        return status;
    free(ret_head->data);
    err_set(in->err, -EFBIG, "the image file is too large");
    err_at(in->err, path, ERR_NO_OFFSET);
    err_expected(in->err, "at most %d bytes", READ_BYTES_MAX);
    err_found(in->err, "%" PRIu64, ret_head->file_bytes);
    return -EFBIG;
}

static void write_png(struct jsonx_writer *json, const struct io_head *head)
{
    struct png_traits traits;
    if (png_probe(head->data, head->bytes, &traits))
        return;
    jsonx_write_string(json, "color", traits.color);
    jsonx_write_u64(json, "precision_bits", traits.depth_bits);
    jsonx_write_bool(json, "interlaced", traits.interlaced);
}

static void write_webp(struct jsonx_writer *json, const struct io_head *head)
{
    struct webp_traits traits;
    struct pixels_info info;
    if (webp_probe(head->data, head->bytes, NULL, &info, &traits, NULL))
        return;
    jsonx_write_bool(json, "lossless", traits.lossless);
    jsonx_write_bool(json, "alpha", traits.has_alpha);
    jsonx_write_bool(json, "animation", traits.has_animation);
}

/* Returns zeros if the headers cannot be read. */
static struct pixels_info read_headers(const struct io_head *head, enum image_kind kind,
                                       struct err *err)
{
    struct pixels_decoder *decoder = NULL;
    struct pixels_info info = {0};
    if (pixels_decoder_open(&decoder, err) == 0 &&
        pixels_begin(decoder, kind, head->data, head->bytes, NULL, &info, err))
        info = (struct pixels_info){0};
    pixels_decoder_close(decoder);
    return info;
}

static int write_verdict(struct jsonx_writer *json, const struct io_head *head, struct err *err)
{
    struct image_checker *checker;
    int status = image_checker_open(&checker, err);
    if (status)
        return status;
    struct err detail = {0};
    status = image_check(checker, head->data, head->bytes, NULL, &detail);
    image_checker_close(checker);
    jsonx_write_bool(json, "decodable", status == 0);
    if (status) {
        char reason[2 * ERR_TEXT_BYTES_MAX + 4];
        snprintf(reason, sizeof reason, "%s: %s", detail.what, detail.found);
        jsonx_write_string(json, "because", reason);
    }
    return 0;
}

int inspect_image(struct inspection *in, const char *path)
{
    struct jsonx_writer *json = in->json;
    struct io_head head;
    struct err detail = {0};
    int status = read_file(in, path, &head);
    if (status)
        return status;
    enum image_kind kind = image_kind_of(head.data, head.bytes);
    struct pixels_info info = read_headers(&head, kind, &detail);
    jsonx_write_string(json, "path", path);
    jsonx_write_u64(json, "file_bytes", head.file_bytes);
    jsonx_write_u64(json, "width_pixels", info.width);
    jsonx_write_u64(json, "height_pixels", info.height);
    jsonx_write_u64(json, "orientation", info.orientation);
    if (kind == IMAGE_PNG)
        write_png(json, &head);
    if (kind == IMAGE_WEBP)
        write_webp(json, &head);
    status = write_verdict(json, &head, in->err);
    free(head.data);
    return status;
}

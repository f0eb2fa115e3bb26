/*
 * inspect_jpeg — describes a JPEG file, from its headers.
 */
#include "base/bytes.h"
#include "cli/inspect/inspect.h"
#include "image/jpeg/jpeg_cut.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Profiles, previews and maker notes take up to 64 KiB per segment. */
enum { READ_FIRST_BYTES = 64 << 10, READ_BYTES_MAX = 64 << 20, READ_GROWTH = 8 };

static int read_headers(struct inspection *in, const char *path, struct io_head *ret_head,
                        struct jpeg_headers *ret_headers)
{
    for (size_t bytes_max = READ_FIRST_BYTES;;
         bytes_max = bytes_min(bytes_max * READ_GROWTH, READ_BYTES_MAX)) {
        struct io_head head;
        int status = io_read_head(in->io, path, bytes_max, &head, in->err);
        if (status)
            return status;
        status =
            jpeg_read_headers(head.data, head.bytes, head.file_bytes, path, ret_headers, in->err);
        if (status == 0) {
            *ret_head = head;
            return 0;
        }
        free(head.data);
        if (status != -ENODATA)
            return status;
        if (bytes_max >= READ_BYTES_MAX) {
            err_set(in->err, -EBADMSG, "the headers of the JPEG file are too long");
            err_at(in->err, path, (int64_t)bytes_max);
            err_expected(in->err, "a scan before it");
            return -EBADMSG;
        }
    }
}

static void write_sampling(struct jsonx_writer *json, const struct jpeg_headers *headers)
{
    const char *name = jpeg_subsampling_name(headers);
    if (name)
        jsonx_write_string(json, "subsampling", name);
    else
        jsonx_write_null(json, "subsampling");
    jsonx_begin_array(json, "sampling_factors");
    for (uint32_t i = 0; i < headers->components; i++) {
        char factors[16];
        snprintf(factors, sizeof factors, "%" PRIu32 "x%" PRIu32, headers->h_samp[i],
                 headers->v_samp[i]);
        jsonx_write_string(json, NULL, factors);
    }
    jsonx_end_array(json);
}

static void write_markers(struct jsonx_writer *json, const struct jpeg_headers *headers)
{
    struct jpeg_cut_grid grid;
    bool cuttable = jpeg_cut_grid_of(headers, &grid);
    jsonx_write_u64(json, "restart_interval", headers->restart_interval);
    jsonx_write_bool(json, "cuttable", cuttable);
    if (cuttable) {
        jsonx_write_u64(json, "segment_width_pixels", grid.segment_width);
        jsonx_write_u64(json, "segment_height_pixels", grid.segment_height);
    }
    jsonx_write_bool(json, "exif", headers->has_exif);
    jsonx_write_u64(json, "orientation", headers->orientation);
    if (headers->has_jfif) {
        char version[16];
        snprintf(version, sizeof version, "%" PRIu32 ".%02" PRIu32, headers->jfif_major,
                 headers->jfif_minor);
        jsonx_write_string(json, "jfif", version);
    } else {
        jsonx_write_null(json, "jfif");
    }
    if (headers->has_adobe)
        jsonx_write_u64(json, "adobe_transform", headers->adobe_transform);
    else
        jsonx_write_null(json, "adobe_transform");
    jsonx_write_u64(json, "icc_bytes", headers->icc_bytes);
    jsonx_write_u64(json, "icc_chunks_count", headers->icc_chunks);
    jsonx_write_u64(json, "icc_chunks_missing_count",
                    headers->icc_chunks_expected > headers->icc_chunks
                        ? headers->icc_chunks_expected - headers->icc_chunks
                        : 0);
}

static void write_verdict(struct jsonx_writer *json, const struct io_head *head, const char *path)
{
    static const char *const colors[] = {[JPEG_GRAY] = "gray",
                                         [JPEG_YCBCR] = "YCbCr",
                                         [JPEG_RGB] = "RGB",
                                         [JPEG_CMYK] = "CMYK",
                                         [JPEG_YCCK] = "YCCK"};
    struct jpeg_info info;
    struct err err = {0};
    if (jpeg_probe(head->data, head->bytes, path, &info, &err) == 0) {
        jsonx_write_string(json, "color", colors[info.color]);
        jsonx_write_bool(json, "decodable", true);
    } else {
        char reason[2 * ERR_TEXT_BYTES_MAX + 4];
        snprintf(reason, sizeof reason, "%s: %s", err.what, err.found);
        jsonx_write_null(json, "color");
        jsonx_write_bool(json, "decodable", false);
        jsonx_write_string(json, "because", reason);
    }
}

int inspect_jpeg(struct inspection *in, const char *path)
{
    struct jsonx_writer *json = in->json;
    struct jpeg_headers headers;
    struct io_head head;
    int status = read_headers(in, path, &head, &headers);
    if (status)
        return status;
    jsonx_write_string(json, "path", path);
    jsonx_write_u64(json, "file_bytes", head.file_bytes);
    jsonx_write_u64(json, "header_bytes", headers.header_bytes);
    jsonx_write_u64(json, "stray_bytes", headers.stray_bytes);
    jsonx_write_u64(json, "width_pixels", headers.width);
    jsonx_write_u64(json, "height_pixels", headers.height);
    jsonx_write_string(json, "process", jpeg_process_name(headers.process));
    jsonx_write_string(json, "coding", headers.arithmetic ? "arithmetic" : "Huffman");
    jsonx_write_bool(json, "hierarchical", headers.hierarchical);
    jsonx_write_u64(json, "precision_bits", headers.precision_bits);
    jsonx_write_u64(json, "components_count", headers.components);
    write_sampling(json, &headers);
    write_markers(json, &headers);
    write_verdict(json, &head, path);
    free(head.data);
    return 0;
}

/*
 * inspect_npy — describes a NumPy array file, from its header.
 */
#include "base/str.h"
#include "cli/inspect/inspect.h"
#include "io/file_util.h"
#include "shards/format/npy_header.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int check_size(const struct inspection *in, const struct npy_header *header,
                      const char *path, uint64_t file_bytes)
{
    uint64_t available_bytes = file_bytes - header->header_bytes;
    if (header->data_bytes <= available_bytes)
        return 0;
    err_set(in->err, -EBADMSG, "the .npy file is shorter than its header says");
    err_at(in->err, path, (int64_t)header->header_bytes);
    err_expected(in->err, "%" PRIu64 " bytes of data", header->data_bytes);
    err_found(in->err, "%" PRIu64, available_bytes);
    err_advise(in->err, "copy or save the file again");
    return -EBADMSG;
}

static void write_header(struct jsonx_writer *json, const struct npy_header *header,
                         uint64_t file_bytes)
{
    char version[16];
    struct str dtype = {0};
    snprintf(version, sizeof version, "%d.%d", header->major, header->minor);
    str_add(&dtype, header->dtype, header->dtype_bytes);
    jsonx_write_string(json, "version", version);
    jsonx_write_string(json, "dtype", str_text(&dtype));
    jsonx_write_u64(json, "element_bytes", header->element_bytes);
    jsonx_write_u64_array(json, "shape", header->shape, header->rank);
    jsonx_write_string(json, "order", header->is_fortran ? "Fortran" : "C");
    jsonx_write_u64(json, "elements_count", header->elements_count);
    jsonx_write_u64(json, "data_offset", header->header_bytes);
    jsonx_write_u64(json, "data_bytes", header->data_bytes);
    jsonx_write_u64(json, "trailing_bytes", file_bytes - header->header_bytes - header->data_bytes);
    str_deinit(&dtype);
}

int inspect_npy(struct inspection *in, const char *path)
{
    struct io_head head;
    struct npy_header header;
    int status = io_read_head(in->io, path, NPY_HEADER_BYTES_MAX, &head, in->err);
    if (status)
        return status;
    status = npy_read_header((const uint8_t *)head.data, head.bytes, path, &header, in->err);
    if (!status)
        status = check_size(in, &header, path, head.file_bytes);
    if (!status) {
        jsonx_write_string(in->json, "path", path);
        jsonx_write_u64(in->json, "file_bytes", head.file_bytes);
        write_header(in->json, &header, head.file_bytes);
    }
    free(head.data);
    return status;
}

/*
 * inspect_checkpoint — describes a checkpoint (from its manifest) or a safetensors file.
 */
#include "base/clock.h"
#include "base/json/jsonx_format.h"
#include "ckpt/ckpt.h"
#include "ckpt/format/manifest.h"
#include "ckpt/format/safetensors.h"
#include "ckpt/load/reader.h"
#include "ckpt/save/consolidated.h"
#include "cli/inspect/inspect.h"
#include "trainer/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void write_tensor(struct jsonx_writer *json, const char *name, enum dtype dtype,
                         uint32_t rank, const uint64_t *shape, uint64_t bytes)
{
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "name", name);
    jsonx_write_string(json, "dtype", dtype_name(dtype));
    jsonx_write_u64_array(json, "shape", shape, rank);
    jsonx_write_u64(json, "size_bytes", bytes);
    jsonx_end_object(json);
}

static uint64_t count_elements(uint32_t rank, const uint64_t *shape)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++)
        elements *= shape[i];
    return elements;
}

static void write_manifest(struct jsonx_writer *json, const struct manifest *manifest)
{
    uint64_t parameters = 0, bytes = 0;
    for (uint64_t i = 0; i < manifest->tensors_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (strncmp(tensor->name, CKPT_OPTIMIZER_PREFIX, strlen(CKPT_OPTIMIZER_PREFIX)) != 0)
            parameters += count_elements(tensor->rank, tensor->shape);
    }
    for (uint64_t i = 0; i < manifest->files_count; i++)
        bytes += manifest->files[i].size_bytes;
    char time[CLOCK_ISO_BYTES];
    jsonx_write_u64(json, "step", manifest->step);
    jsonx_write_string(json, "written", clock_format_iso(manifest->wall_ns, time));
    jsonx_write_u64(json, "ranks_count", manifest->ranks);
    jsonx_write_string(json, "layout", consolidated_find_file(manifest) ? "full" : "sharded");
    jsonx_write_string(json, "numerics_id", manifest->numerics_id);
    jsonx_write_u64(json, "files_count", manifest->files_count);
    jsonx_write_u64(json, "files_bytes", bytes);
    jsonx_write_u64(json, "parameters_count", parameters);
    static const char *const parts[] = {"loader", "metrics"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (jsonx_get(manifest->state, parts[i]))
            jsonx_copy(json, parts[i], jsonx_get(manifest->state, parts[i]));
    jsonx_write_u64(json, "tensors_count", manifest->tensors_count);
    jsonx_begin_array(json, "tensors");
    for (uint64_t i = 0; i < manifest->tensors_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        write_tensor(json, tensor->name, tensor->dtype, tensor->rank, tensor->shape,
                     count_elements(tensor->rank, tensor->shape) * dtype_bytes(tensor->dtype));
    }
    jsonx_end_array(json);
}

int inspect_checkpoint(struct inspection *in, const char *path)
{
    struct ckpt_reader *reader = NULL;
    int status = reader_open_path(in->io, path, &reader, in->log, in->err);
    if (!status) {
        jsonx_write_string(in->json, "path", reader->path);
        write_manifest(in->json, ckpt_reader_manifest(reader));
    }
    ckpt_reader_close(reader);
    return status;
}

int inspect_config(struct inspection *in, const char *path, bool as_json, struct str *out)
{
    struct ckpt_reader *reader = NULL;
    struct train_config *config = malloc(sizeof *config);
    int status = config ? 0 : err_set(in->err, -ENOMEM, "out of memory for a configuration");
    if (!status)
        status = reader_open_path(in->io, path, &reader, in->log, in->err);
    const struct json_t *saved_config =
        status ? NULL : jsonx_get(ckpt_reader_state(reader), "config");
    if (!status && !saved_config) {
        status = err_set(in->err, -ENODATA, "the checkpoint has no configuration");
        err_at(in->err, reader->path, ERR_NO_OFFSET);
        err_advise(in->err, "give a checkpoint saved by `millrace train`");
    }
    if (!status)
        status = config_restore(saved_config, reader->path, config, in->err);
    if (!status && as_json)
        config_print_json(config, out);
    else if (!status)
        config_print(config, out);
    if (!status && str_status(out))
        status = err_set(in->err, -ENOMEM, "out of memory for a configuration");
    ckpt_reader_close(reader);
    free(config);
    return status;
}

int inspect_safetensors(struct inspection *in, const char *path)
{
    struct jsonx_writer *json = in->json;
    struct safetensors file;
    int status = safetensors_read(in->io, path, &file, in->err);
    if (status)
        return status;
    jsonx_write_string(json, "path", path);
    jsonx_write_u64(json, "file_bytes", file.file_bytes);
    jsonx_write_u64(json, "data_offset", file.data_offset);
    if (jsonx_get(file.root, "__metadata__"))
        jsonx_copy(json, "metadata", jsonx_get(file.root, "__metadata__"));
    jsonx_write_u64(json, "tensors_count", file.count);
    jsonx_begin_array(json, "tensors");
    for (uint64_t i = 0; i < file.count; i++) {
        const struct safetensors_entry *entry = &file.entries[i];
        write_tensor(json, entry->name, entry->dtype, entry->rank, entry->shape, entry->size_bytes);
    }
    jsonx_end_array(json);
    safetensors_deinit(&file);
    return 0;
}

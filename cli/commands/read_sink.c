#include "cli/commands/read_sink.h"

#include "base/display.h"
#include "base/json/jsonx_writer.h"
#include "io/file_util.h"
#include "shards/dataset/class_number.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sets sink->name to "key" or "key#window". */
static int set_sample_name(struct read_sink *sink, const struct batch_item *item, struct err *err)
{
    str_clear(&sink->name);
    str_add(&sink->name, item->key, item->key_bytes);
    if (item->window >= 0)
        str_add_format(&sink->name, "#%" PRId64, item->window);
    return str_status(&sink->name) ? err_set(err, -ENOMEM, "out of memory for a key") : 0;
}

/* The label of an undecoded sample; -1 if it has no valid one. */
static int32_t stored_label(const struct batch_item *item)
{
    int32_t label = -1;
    for (uint32_t f = 0; f < item->fields_count; f++)
        if (strcmp(item->fields[f].extension, "cls") == 0 &&
            class_number_parse(item->fields[f].data, item->fields[f].bytes, 0, &label))
            return -1;
    return label;
}

/* With mixup or CutMix, also writes the partner's label and the weight. */
static void write_labels(struct jsonx_writer *json, const struct batch *batch, uint32_t n)
{
    const struct batch_field *labels = batch_field_named(batch, "label"),
                             *partner_labels = batch_field_named(batch, "partner_label"),
                             *weights = batch_field_named(batch, "label_weight");
    int32_t label = labels ? ((const int32_t *)labels->data)[n] : stored_label(&batch->items[n]);
    if (label >= 0 || weights)
        jsonx_write_i64(json, "label", label);
    if (!partner_labels || !weights)
        return;
    jsonx_write_i64(json, "partner_label", ((const int32_t *)partner_labels->data)[n]);
    jsonx_write_f64(json, "label_weight", (double)((const float *)weights->data)[n]);
}

static int print_item(struct read_sink *sink, const struct batch *batch, uint32_t n,
                      struct err *err)
{
    const struct batch_item *item = &batch->items[n];
    if (sink->print == READ_PRINT_KEYS) {
        str_clear(&sink->line);
        if (sink->is_terminal)
            display_add(&sink->line, str_text(&sink->name));
        printf("%" PRIu64 "\t%s\n", item->position,
               str_text(sink->is_terminal ? &sink->line : &sink->name));
        return 0;
    }
    struct jsonx_writer json = {.out = &sink->line};
    str_clear(&sink->line);
    jsonx_begin_object(&json, NULL);
    jsonx_write_u64(&json, "position", item->position);
    jsonx_write_u64(&json, "dataset", item->ref.dataset);
    jsonx_write_u64(&json, "epoch", item->ref.epoch);
    jsonx_write_u64(&json, "sample", item->ref.sample);
    jsonx_write_string(&json, "key", str_text(&sink->name));
    write_labels(&json, batch, n);
    if (sink->fields->count > 0) {
        jsonx_begin_object(&json, "fields");
        read_fields_write_json(sink->fields, batch, n, &json);
        jsonx_end_object(&json);
    }
    jsonx_end_object(&json);
    if (str_status(&sink->line))
        return err_set(err, -ENOMEM, "out of memory for a line");
    puts(str_text(&sink->line));
    return 0;
}

/* Whether a key, used as a path, stays inside the output folder. */
static bool stays_inside(const char *name, size_t bytes)
{
    if (bytes == 0 || strlen(name) != bytes || name[0] == '/')
        return false;
    for (const char *at = name; *at;) {
        size_t name_bytes = strcspn(at, "/");
        if ((name_bytes == 1 && at[0] == '.') || (name_bytes == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += name_bytes + (at[name_bytes] == '/');
    }
    return true;
}

static int write_file(struct read_sink *sink, const struct batch_item *item, const char *extension,
                      const void *data, size_t bytes, struct err *err)
{
    char relative[IO_PATH_BYTES_MAX], path[IO_PATH_BYTES_MAX], parent[IO_PATH_BYTES_MAX];
    int prefix_bytes = 0;
    if (sink->is_mix)
        prefix_bytes = snprintf(relative, sizeof relative, "%" PRIu32 "-%" PRIu32 "/",
                                item->ref.dataset, item->ref.epoch);
    size_t capacity = sizeof relative - (size_t)prefix_bytes;
    int used =
        snprintf(relative + prefix_bytes, capacity, "%s.%s", str_text(&sink->name), extension);
    if (used < 0 || (size_t)used >= capacity ||
        !stays_inside(relative + prefix_bytes, sink->name.bytes + 1 + strlen(extension))) {
        err_set(err, -EBADMSG, "the key of a sample cannot be used as a file name");
        err_at(err, sink->folder, ERR_NO_OFFSET);
        err_found(err, "\"%.200s\"", str_text(&sink->name));
        return -EBADMSG;
    }
    int status = io_join_path(sink->folder, relative, path, err);
    if (status)
        return status;
    io_parent_path(path, parent);
    if (strcmp(parent, sink->last_folder) != 0) {
        status = sink->io->names->make_folder(sink->io, parent, err);
        if (status)
            return status;
        memcpy(sink->last_folder, parent, sizeof parent);
    }
    status = io_write_file(sink->io, path, data, bytes, sink->force, err);
    sink->files_count += status == 0;
    return status;
}

static int write_image(struct read_sink *sink, const struct batch *batch, uint32_t n,
                       struct err *err)
{
    const struct batch_field *field = batch_field_named(batch, "image");
    if (!field)
        return err_set(err, -EINVAL, "the batch has no images");
    str_clear(&sink->file);
    read_field_add_ppm(field, n, &sink->file);
    if (str_status(&sink->file))
        return err_set(err, -ENOMEM, "out of memory for an image");
    return write_file(sink, &batch->items[n], "ppm", sink->file.data, sink->file.bytes, err);
}

static int write_tokens(struct read_sink *sink, const struct batch *batch, uint32_t n,
                        struct err *err)
{
    const struct batch_field *field = batch_field_named(batch, "tokens");
    if (!field)
        return err_set(err, -EINVAL, "the batch has no tokens");
    uint8_t header[NPY_HEADER_BYTES];
    npy_encode_header(field->dtype, field->shape[1], header);
    str_clear(&sink->file);
    str_add(&sink->file, header, sizeof header);
    str_add(&sink->file, (const uint8_t *)field->data + (int64_t)n * field->stride_bytes[0],
            field->shape[1] * dtype_bytes(field->dtype));
    if (str_status(&sink->file))
        return err_set(err, -ENOMEM, "out of memory for a window");
    return write_file(sink, &batch->items[n], "npy", sink->file.data, sink->file.bytes, err);
}

/* KEY.NAME has the value, KEY.NAME.npy the array, and KEY.NAME.ppm the image. */
static int write_field(struct read_sink *sink, const struct batch *batch, uint32_t n,
                       const struct loader_field *type, struct err *err)
{
    struct str extension = {0};
    str_clear(&sink->file);
    read_fields_add_file(type, batch, n, &sink->file);
    str_add_format(&extension, "%s%s", type->name, read_field_file_suffix(type));
    int status = str_status(&sink->file) || str_status(&extension)
                     ? err_set(err, -ENOMEM, "out of memory for a field")
                     : write_file(sink, &batch->items[n], str_text(&extension), sink->file.data,
                                  sink->file.bytes, err);
    str_deinit(&extension);
    return status;
}

/* Written as a dense array. */
static const struct loader_field image_field = {.name = "image", .decode = LOADER_FIELD_LABELS};

static int write_item(struct read_sink *sink, const struct batch *batch, uint32_t n,
                      struct err *err)
{
    const struct batch_item *item = &batch->items[n];
    int status = 0;
    switch (sink->decode) {
    case LOADER_IMAGE:
        status = sink->is_normalized ? write_field(sink, batch, n, &image_field, err)
                                     : write_image(sink, batch, n, err);
        break;
    case LOADER_TOKENS:
        return write_tokens(sink, batch, n, err);
    case LOADER_BYTES:
    case LOADER_RECORD:
        break;
    }
    for (uint32_t f = 0; f < sink->fields->count && !status; f++)
        status = write_field(sink, batch, n, &sink->fields->list[f], err);
    for (uint32_t f = 0; f < item->fields_count && !status; f++)
        status = write_file(sink, item, item->fields[f].extension, item->fields[f].data,
                            item->fields[f].bytes, err);
    return status;
}

int read_sink_write(struct read_sink *sink, const struct batch *batch, struct err *err)
{
    int status = 0;
    bool needs_names = sink->print != READ_PRINT_NONE || sink->folder;
    for (uint32_t i = 0; i < batch->items_count && !status; i++) {
        const struct batch_item *item = &batch->items[i];
        if (sink->page && sink->page->count < READ_PAGE_SAMPLES_MAX)
            status = page_items_add(sink->page, batch, i, err);
        if (item->skipped) {
            sink->skipped_count++;
            continue;
        }
        sink->set_digest += digest_set_term(item->ref);
        sink->sequence_digest += digest_sequence_term(batch->epoch, item->position, item->ref);
        sink->samples_count++;
        if (!status && needs_names)
            status = set_sample_name(sink, item, err);
        if (!status && sink->print != READ_PRINT_NONE)
            status = print_item(sink, batch, i, err);
        if (!status && sink->folder)
            status = write_item(sink, batch, i, err);
    }
    return status;
}

void read_sink_deinit(struct read_sink *sink)
{
    str_deinit(&sink->name);
    str_deinit(&sink->line);
    str_deinit(&sink->file);
}

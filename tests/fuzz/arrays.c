/*
 * arrays — fuzz target: sources that store arrays in one file (convert/source/array_table.h), and
 * headers of idx files. The first byte selects the format. A source that opens gives fields for
 * each row or an error.
 */
#include "convert/source/idx.h"
#include "convert/source/source.h"
#include "tests/fuzz/fuzz.h"

enum { ITEMS_MAX = 64 };

static void read_items(const struct source *source, struct io *io)
{
    struct source_reader reader = {0};
    struct source_sample *sample = calloc(1, sizeof *sample);
    struct err err;
    if (!sample || source_reader_open(source, io, &reader, &err))
        abort();
    for (uint64_t i = 0; i < source->items_count && i < ITEMS_MAX; i++) {
        struct source_item item;
        str_clear(&sample->data);
        sample->fields_count = 0;
        source_describe(source, i, &item);
        if (item.bytes > SOURCE_ITEM_BYTES_MAX ||
            (item.class_number != SOURCE_NO_CLASS && item.class_number >= source->classes_count))
            abort();
        if (source->ops->read(&reader, &item, sample, &err))
            continue;
        for (uint32_t f = 0; f < sample->fields_count; f++)
            if (sample->fields[f].at + sample->fields[f].bytes > sample->data.bytes)
                abort();
    }
    source_reader_close(&reader);
    str_deinit(&sample->data);
    free(sample);
}

static void read_idx(const uint8_t *data, size_t bytes)
{
    struct idx idx;
    struct err err;
    if (idx_read_header(data, bytes, bytes, "a", &idx, &err))
        return;
    uint64_t elements = 1;
    for (uint32_t d = 0; d < idx.rank; d++)
        elements *= idx.shape[d];
    if (idx.header_bytes + elements != bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const paths[] = {"a.npy", "a.npz", "a.beton"};
    struct memory_io memory;
    struct source *source;
    struct err err;
    if (bytes == 0)
        return 0;
    if (data[0] == 'i') {
        read_idx(data + 1, bytes - 1);
        return 0;
    }
    memory_io_init(&memory, data + 1, bytes - 1);
    struct convert_options options = {.source = paths[data[0] % (sizeof paths / sizeof paths[0])]};
    const struct source_layout layout = {.file = options.source};
    const struct source_ops *ops = source_find(&layout);
    if (ops->find_splits && ops->find_splits(&memory.io, &options, &err))
        return 0;
    if (source_open(&memory.io, &options, ops, &source, &err) == 0) {
        read_items(source, &memory.io);
        source_close(source);
    }
    return 0;
}

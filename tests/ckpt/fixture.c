/*
 * fixture — see fixture.h.
 */
#include "tests/ckpt/fixture.h"

#include "base/philox.h"
#include "ckpt/format/box.h"

#include <stdlib.h>
#include <string.h>

struct arrays arrays_make(const struct array_spec *specs, uint64_t count)
{
    struct arrays arrays = {.tensors = calloc(count + 1, sizeof *arrays.tensors), .count = count};
    assert_non_null(arrays.tensors);
    for (uint64_t i = 0; i < count; i++) {
        struct ckpt_tensor *tensor = &arrays.tensors[i];
        *tensor = (struct ckpt_tensor){.name = strdup(specs[i].name),
                                       .dtype = specs[i].dtype,
                                       .replicated = true,
                                       .group = specs[i].group};
        for (const char *at = specs[i].shape; *at && *at != '-'; at += *at == 'x')
            tensor->shape[tensor->rank++] = strtoull(at, (char **)(uintptr_t)&at, 10);
        memcpy(tensor->extent, tensor->shape, sizeof tensor->extent);
        tensor->data = calloc(1, array_bytes(tensor) + 1);
        assert_non_null(tensor->data);
        if (specs[i].group >= arrays.groups_count)
            arrays.groups_count = specs[i].group + 1;
    }
    return arrays;
}

struct arrays arrays_odd(void)
{
    static const struct array_spec specs[] = {
        {"scalar", DTYPE_F32, "-", 0},
        {"scalar64", DTYPE_I64, "-", 0},
        {"empty", DTYPE_F32, "0x3", 0},
        {"empty_inside", DTYPE_U8, "4x0x2", 1},
        {"large", DTYPE_F32, "1234x777", 1},
        {"odd", DTYPE_U8, "3x5x7", 2},
        {"bool", DTYPE_BOOL, "13", 0},
        {"i8", DTYPE_I8, "1", 0},
        {"e5m2", DTYPE_F8_E5M2, "3", 1},
        {"e4m3", DTYPE_F8_E4M3, "2x2", 1},
        {"i16", DTYPE_I16, "5", 1},
        {"u16", DTYPE_U16, "7x1", 1},
        {"f16", DTYPE_F16, "1x1x1x1x1x1x1x9", 2},
        {"bf16", DTYPE_BF16, "1023", 2},
        {"i32", DTYPE_I32, "33", 2},
        {"u32", DTYPE_U32, "2x3", 2},
        {"f64", DTYPE_F64, "257x3", 2},
        {"u64", DTYPE_U64, "3", 2},
        {"optimizer.m.large", DTYPE_F32, "1234x777", 1},
        {"optimizer.step", DTYPE_I64, "-", 3},
        {"\xc3\xa9\xe4\xb8\xad \"quoted\"\\", DTYPE_U8, "3", 0},
    };
    return arrays_make(specs, sizeof specs / sizeof specs[0]);
}

struct arrays arrays_like(const struct arrays *other)
{
    struct arrays arrays = *other;
    arrays.tensors = calloc(other->count + 1, sizeof *arrays.tensors);
    assert_non_null(arrays.tensors);
    for (uint64_t i = 0; i < other->count; i++) {
        arrays.tensors[i] = other->tensors[i];
        arrays.tensors[i].name = strdup(other->tensors[i].name);
        arrays.tensors[i].data = calloc(1, array_bytes(&other->tensors[i]) + 1);
        assert_non_null(arrays.tensors[i].data);
    }
    return arrays;
}

void arrays_free(struct arrays *arrays)
{
    for (uint64_t i = 0; i < arrays->count; i++) {
        free((char *)(uintptr_t)arrays->tensors[i].name);
        free(arrays->tensors[i].data);
    }
    free(arrays->tensors);
    *arrays = (struct arrays){0};
}

uint64_t array_bytes(const struct ckpt_tensor *tensor)
{
    uint64_t bytes = 0;
    assert_int_equal(box_shape_bytes(tensor->extent, tensor->rank, tensor->dtype, &bytes), 0);
    return bytes;
}

static void fill(struct ckpt_tensor *tensor, uint64_t index, uint64_t seed)
{
    unsigned char *at = tensor->data;
    uint64_t bytes = array_bytes(tensor);
    for (uint64_t i = 0; i < bytes; i += sizeof(struct philox_block)) {
        struct philox_block block = philox(seed, index, i);
        memcpy(at + i, &block, bytes - i < sizeof block ? bytes - i : sizeof block);
    }
}

void arrays_fill(struct arrays *arrays, uint64_t seed)
{
    for (uint64_t i = 0; i < arrays->count; i++)
        fill(&arrays->tensors[i], i, seed);
}

void arrays_fill_group(struct arrays *arrays, uint32_t group, uint64_t seed)
{
    for (uint64_t i = 0; i < arrays->count; i++)
        if (arrays->tensors[i].group == group)
            fill(&arrays->tensors[i], i, seed);
}

bool arrays_equal(const struct arrays *a, const struct arrays *b)
{
    for (uint64_t i = 0; i < a->count; i++)
        if (memcmp(a->tensors[i].data, b->tensors[i].data, array_bytes(&a->tensors[i])) != 0)
            return false;
    return true;
}

struct ckpt_saver *fixture_open(struct io *io, const char *folder, const struct arrays *arrays)
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .groups_count = arrays->groups_count,
                                         .run_id = "test",
                                         .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, arrays->tensors, arrays->count, &saver, &err), &err);
    return saver;
}

void fixture_save(struct ckpt_saver *saver, uint64_t step)
{
    struct err err = {0};
    assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
}

void fixture_save_step(struct io *io, const char *folder, const struct arrays *arrays,
                       uint64_t step, char *path)
{
    struct ckpt_saver *saver = fixture_open(io, folder, arrays);
    fixture_save(saver, step);
    ckpt_saver_close(saver);
    snprintf(path, FIXTURE_PATH_BYTES, "%s/step-%08llu", folder, (unsigned long long)step);
}

bool fixture_step_equals(struct io *io, const char *step_path, const struct arrays *arrays)
{
    struct arrays loaded = arrays_like(arrays);
    struct ckpt_reader *reader;
    struct err err = {0};
    assert_ok(ckpt_reader_open(io, step_path, &reader, &err), &err);
    assert_ok(ckpt_reader_load(reader, loaded.tensors, loaded.count, NULL, &err), &err);
    ckpt_reader_close(reader);
    bool equal = arrays_equal(arrays, &loaded);
    arrays_free(&loaded);
    return equal;
}

struct step_list {
    int count;
    uint64_t newest;
};

static int count_entry(void *context, const struct ckpt_entry *entry)
{
    struct step_list *listing = context;
    listing->count++;
    listing->newest = entry->step;
    return 0;
}

int fixture_list(struct io *io, const char *folder, uint64_t *ret_newest)
{
    struct step_list listing = {0};
    struct err err = {0};
    assert_ok(ckpt_list(io, folder, count_entry, &listing, NULL, &err), &err);
    if (ret_newest)
        *ret_newest = listing.newest;
    return listing.count;
}

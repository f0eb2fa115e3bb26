/*
 * contract — see contract.h. Memory of MEM_DEVICE is accessed only by copies.
 */
#include "tests/device/contract.h"

#include "tests/support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct device *contract_open(const char *name)
{
    struct err err = {0};
    struct device *device = NULL;
    assert_ok(device_open(name, &device, &err), &err);
    return device;
}

void *contract_allocate(struct device *device, enum mem_kind kind, size_t bytes)
{
    struct err err = {0};
    void *memory = NULL;
    assert_ok(device->ops->mem_alloc(device, kind, bytes, &memory, &err), &err);
    return memory;
}

void contract_memory_and_its_peak_are_counted_by_kind(const char *name)
{
    struct device *device = contract_open(name);
    struct device_mem_info info;
    void *first = contract_allocate(device, MEM_PINNED, 5000);
    void *second = contract_allocate(device, MEM_PINNED, 7000);
    void *third = contract_allocate(device, MEM_DEVICE, 10);
    device->ops->mem_free(device, MEM_PINNED, first, 5000);
    device->ops->mem_info(device, &info);
    assert_int_equal(info.used_bytes[MEM_PINNED], 7000);
    assert_int_equal(info.peak_bytes[MEM_PINNED], 12000);
    assert_int_equal(info.used_bytes[MEM_DEVICE], 10);
    assert_int_equal(info.used_bytes[MEM_PAGEABLE], 0);
    device->ops->mem_free(device, MEM_PINNED, second, 7000);
    device->ops->mem_free(device, MEM_DEVICE, third, 10);
    device->ops->mem_free(device, MEM_PAGEABLE, NULL, 99);
    device->ops->mem_info(device, &info);
    for (int kind = 0; kind < MEM_KIND_COUNT; kind++)
        assert_int_equal(info.used_bytes[kind], 0);
    device_close(device);
}

enum { SIZES = 6 };
static const size_t sizes[SIZES] = {1, 4096, 4097, 2 << 20, (2 << 20) + 1, 5 << 20};

void contract_allocations_are_aligned_and_disjoint(const char *name)
{
    struct device *device = contract_open(name);
    for (int kind = 0; kind < MEM_KIND_COUNT; kind++) {
        size_t align = kind == MEM_DEVICE ? DEVICE_MEM_ALIGN_DEVICE_BYTES : DEVICE_MEM_ALIGN_BYTES;
        char *pieces[SIZES];
        for (size_t s = 0; s < SIZES; s++) {
            pieces[s] = contract_allocate(device, (enum mem_kind)kind, sizes[s]);
            assert_int_equal((uintptr_t)pieces[s] % align, 0);
            for (size_t other = 0; other < s; other++)
                assert_true((uintptr_t)pieces[s] + sizes[s] <= (uintptr_t)pieces[other] ||
                            (uintptr_t)pieces[other] + sizes[other] <= (uintptr_t)pieces[s]);
        }
        for (size_t s = 0; s < SIZES; s++)
            device->ops->mem_free(device, (enum mem_kind)kind, pieces[s], sizes[s]);
    }
    device_close(device);
}

/* Copies from any kind of memory to plain memory, and back. */
static void copy_through_pageable(struct device *device, struct device_stream *stream, void *target,
                                  const void *source, size_t bytes)
{
    struct err err = {0};
    assert_ok(device->ops->copy(device, stream, target, source, bytes, &err), &err);
    assert_ok(device->ops->stream_sync(device, stream, &err), &err);
}

void contract_memory_is_zeroed_and_writable(const char *name)
{
    struct device *device = contract_open(name);
    struct device_stream *stream = NULL;
    struct err err = {0};
    size_t bytes = (3 << 20) + 123;
    unsigned char *seen = malloc(bytes);
    assert_non_null(seen);
    assert_ok(device->ops->stream_open(device, &stream, &err), &err);
    for (int kind = 0; kind < MEM_KIND_COUNT; kind++)
        for (int round = 0; round < 2; round++) {
            unsigned char *memory = contract_allocate(device, (enum mem_kind)kind, bytes);
            memset(seen, 1, bytes);
            copy_through_pageable(device, stream, seen, memory, bytes);
            for (size_t at = 0; at < bytes; at++)
                if (seen[at])
                    fail_msg("byte %zu of kind %d is not zero", at, kind);
            assert_ok(device->ops->fill(device, stream, memory, 0xee, bytes, &err), &err);
            copy_through_pageable(device, stream, seen, memory, bytes);
            for (size_t at = 0; at < bytes; at++)
                if (seen[at] != 0xee)
                    fail_msg("byte %zu of kind %d has the wrong value", at, kind);
            device->ops->mem_free(device, (enum mem_kind)kind, memory, bytes);
        }
    device->ops->stream_close(device, stream);
    free(seen);
    device_close(device);
}

void contract_refused_allocations_are_not_counted(const char *name)
{
    struct device *device = contract_open(name);
    struct err err = {0};
    struct device_mem_info info;
    void *memory = NULL;
    assert_int_equal(device->ops->mem_alloc(device, MEM_PAGEABLE, SIZE_MAX - 5, &memory, &err),
                     -ENOMEM);
    assert_int_equal(device->ops->mem_alloc(device, MEM_HUGE, SIZE_MAX / 2, &memory, &err),
                     -ENOMEM);
    assert_int_equal(device->ops->mem_alloc(device, MEM_DEVICE, SIZE_MAX / 2, &memory, &err),
                     -ENOMEM);
    assert_null(memory);
    device->ops->mem_info(device, &info);
    assert_int_equal(info.peak_bytes[MEM_PAGEABLE], 0);
    device_close(device);
}

void contract_copies_are_complete_after_their_event(const char *name)
{
    enum { BYTES = 10000 };
    struct device *device = contract_open(name);
    struct device_stream *stream = NULL, *other = NULL;
    struct device_event *event = NULL;
    struct err err = {0};
    assert_ok(device->ops->stream_open(device, &stream, &err), &err);
    assert_ok(device->ops->stream_open(device, &other, &err), &err);
    assert_ok(device->ops->event_open(device, &event, &err), &err);
    char *source = contract_allocate(device, MEM_PINNED, BYTES),
         *middle = contract_allocate(device, MEM_DEVICE, BYTES),
         *target = contract_allocate(device, MEM_PINNED, BYTES);
    assert_ok(device->ops->fill(device, stream, source, 0x5a, BYTES, &err), &err);
    assert_ok(device->ops->stream_sync(device, stream, &err), &err);
    source[BYTES - 1] = 7;
    assert_ok(device->ops->copy(device, stream, middle, source, BYTES, &err), &err);
    assert_ok(device->ops->copy(device, stream, middle, NULL, 0, &err), &err);
    assert_ok(device->ops->event_record(device, event, stream, &err), &err);
    assert_ok(device->ops->stream_wait_event(device, other, event, &err), &err);
    assert_ok(device->ops->copy(device, other, target, middle, BYTES, &err), &err);
    assert_ok(device->ops->event_record(device, event, other, &err), &err);
    assert_ok(device->ops->event_wait(device, event, &err), &err);
    bool done = false;
    assert_ok(device->ops->event_done(device, event, &done, &err), &err);
    assert_true(done);
    assert_memory_equal(source, target, BYTES);
    assert_int_equal(target[0], 0x5a);
    device->ops->mem_free(device, MEM_PINNED, source, BYTES);
    device->ops->mem_free(device, MEM_DEVICE, middle, BYTES);
    device->ops->mem_free(device, MEM_PINNED, target, BYTES);
    device->ops->event_close(device, event);
    device->ops->stream_close(device, stream);
    device->ops->stream_close(device, other);
    device_close(device);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *allocate_and_free(void *argument)
{
    struct device *device = argument;
    for (int round = 0; round < ROUNDS; round++) {
        void *memory;
        if (device->ops->mem_alloc(device, MEM_PAGEABLE, 4096, &memory, NULL))
            abort();
        device->ops->mem_free(device, MEM_PAGEABLE, memory, 4096);
    }
    return NULL;
}

void contract_threads_share_a_device(const char *name)
{
    struct device *device = contract_open(name);
    struct device_mem_info info;
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, allocate_and_free, device), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    device->ops->mem_info(device, &info);
    assert_int_equal(info.used_bytes[MEM_PAGEABLE], 0);
    assert_in_range(info.peak_bytes[MEM_PAGEABLE], 4096, THREADS * 4096);
    device_close(device);
}

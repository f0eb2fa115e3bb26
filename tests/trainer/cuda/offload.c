/*
 * offload — tests that offloaded data returns unchanged and in time for its use, in every order of
 * the streams.
 */
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/test.h"

#include "trainer/models/offload.h"

#include <string.h>

enum { ITEMS_MAX = 7, PASSES = 3, ITEM_BYTES = 4096, OVERWRITTEN = 0xee };

struct fixture {
    struct device *device;
    struct ops *ops;
    char *ring;              /* [OFFLOAD_SLOTS] on the device */
    unsigned char *received; /* [PASSES * ITEMS_MAX] pinned; what the backward passes have read */
};

static void open_fixture(struct fixture *f)
{
    struct err err;
    assert_ok(device_open("cuda", &f->device, &err), &err);
    assert_ok(ops_open(f->device, DTYPE_F32, 1, &f->ops, &err), &err);
    const struct device_ops *device = f->device->ops;
    assert_ok(device->mem_alloc(f->device, MEM_DEVICE, OFFLOAD_SLOTS * ITEM_BYTES,
                                (void **)&f->ring, &err),
              &err);
    assert_ok(device->mem_alloc(f->device, MEM_PINNED, PASSES * ITEMS_MAX * ITEM_BYTES,
                                (void **)&f->received, &err),
              &err);
}

static void close_fixture(struct fixture *f)
{
    f->device->ops->mem_free(f->device, MEM_PINNED, f->received, PASSES * ITEMS_MAX * ITEM_BYTES);
    f->device->ops->mem_free(f->device, MEM_DEVICE, f->ring, OFFLOAD_SLOTS * ITEM_BYTES);
    ops_close(f->ops);
    device_close(f->device);
}

static char *slot_of(const struct fixture *f, uint32_t item)
{
    return f->ring + item % OFFLOAD_SLOTS * ITEM_BYTES;
}

static unsigned char *received_at(const struct fixture *f, int pass, uint32_t item)
{
    return f->received + (pass * ITEMS_MAX + item) * ITEM_BYTES;
}

static int value_of(int pass, uint32_t item)
{
    return 1 + pass * ITEMS_MAX + (int)item;
}

static void fill(const struct fixture *f, void *target, int value)
{
    struct err err;
    assert_ok(f->device->ops->fill(f->device, f->ops->stream, target, value, ITEM_BYTES, &err),
              &err);
}

/* Queues a forward and a backward pass. The backward pass of a block may overwrite what it has
 * read. */
static void queue_pass(const struct fixture *f, struct offload *offload, int pass, uint32_t items)
{
    struct err err;
    for (uint32_t i = 0; i < items; i++) {
        offload_before_forward(offload, i);
        fill(f, slot_of(f, i), value_of(pass, i));
        offload_after_forward(offload, i, slot_of(f, i));
    }
    for (uint32_t i = items; i-- > 0;) {
        offload_before_backward(offload, i);
        assert_ok(f->device->ops->copy(f->device, f->ops->stream, received_at(f, pass, i),
                                       slot_of(f, i), ITEM_BYTES, &err),
                  &err);
        fill(f, slot_of(f, i), OVERWRITTEN);
        offload_after_backward(offload, i, slot_of(f, i));
    }
}

static void every_item_is_copied_back_before_its_backward_pass(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        struct fixture f;
        struct err err;
        order_set(order);
        open_fixture(&f);
        for (uint32_t items = OFFLOAD_SLOTS + 1; items <= ITEMS_MAX; items++) {
            struct offload *offload;
            assert_ok(offload_open(f.ops, items, ITEM_BYTES, &offload, &err), &err);
            for (int pass = 0; pass < PASSES; pass++)
                queue_pass(&f, offload, pass, items);
            assert_ok(f.ops->table->sync(f.ops, &err), &err);
            assert_ok(offload_status(offload, &err), &err);
            for (int pass = 0; pass < PASSES; pass++)
                for (uint32_t i = 0; i < items; i++)
                    for (int b = 0; b < ITEM_BYTES; b++)
                        assert_int_equal(received_at(&f, pass, i)[b], value_of(pass, i));
            assert_int_equal(offload_copied_bytes(offload),
                             PASSES * 2 * offload_pinned_bytes(items, ITEM_BYTES));
            offload_close(offload);
        }
        close_fixture(&f);
    }
}

/* A captured pass leaves no copy in progress and produces the same results on every launch. */
static void a_pass_can_be_captured_in_a_graph(void **state)
{
    (void)state;
    enum { LAUNCHES = 3 };
    for (size_t order = 0; order < order_count(); order++) {
        struct fixture f;
        struct offload *offload;
        struct device_graph *graph;
        struct err err;
        order_set(order);
        open_fixture(&f);
        const struct device_ops *device = f.device->ops;
        assert_ok(offload_open(f.ops, ITEMS_MAX, ITEM_BYTES, &offload, &err), &err);
        assert_ok(device->graph_begin(f.device, f.ops->stream, &err), &err);
        queue_pass(&f, offload, 0, ITEMS_MAX);
        assert_ok(device->graph_end(f.device, f.ops->stream, &graph, &err), &err);
        for (int launch = 0; launch < LAUNCHES; launch++) {
            memset(f.received, 0, PASSES * ITEMS_MAX * ITEM_BYTES);
            assert_ok(device->graph_launch(f.device, graph, f.ops->stream, &err), &err);
            assert_ok(f.ops->table->sync(f.ops, &err), &err);
            for (uint32_t i = 0; i < ITEMS_MAX; i++)
                for (int b = 0; b < ITEM_BYTES; b++)
                    assert_int_equal(received_at(&f, 0, i)[b], value_of(0, i));
        }
        assert_ok(offload_status(offload, &err), &err);
        device->graph_close(f.device, graph);
        offload_close(offload);
        close_fixture(&f);
    }
}

static void opening_allocates_all_memory_for_passes(void **state)
{
    (void)state;
    struct fixture f;
    struct device_mem_info before, opened, after;
    struct offload *offload;
    struct err err;
    order_set(0);
    open_fixture(&f);
    f.device->ops->mem_info(f.device, &before);
    assert_ok(offload_open(f.ops, ITEMS_MAX, ITEM_BYTES, &offload, &err), &err);
    f.device->ops->mem_info(f.device, &opened);
    assert_int_equal(opened.used_bytes[MEM_PINNED] - before.used_bytes[MEM_PINNED],
                     (ITEMS_MAX - OFFLOAD_SLOTS) * ITEM_BYTES);
    assert_int_equal(opened.used_bytes[MEM_DEVICE], before.used_bytes[MEM_DEVICE]);
    queue_pass(&f, offload, 0, ITEMS_MAX);
    assert_ok(f.ops->table->sync(f.ops, &err), &err);
    f.device->ops->mem_info(f.device, &after);
    assert_memory_equal(after.peak_bytes, opened.peak_bytes, sizeof after.peak_bytes);
    offload_close(offload);
    f.device->ops->mem_info(f.device, &after);
    assert_memory_equal(after.used_bytes, before.used_bytes, sizeof after.used_bytes);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_copied_back_before_its_backward_pass),
        cmocka_unit_test(a_pass_can_be_captured_in_a_graph),
        cmocka_unit_test(opening_allocates_all_memory_for_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Tests a device that is lost while a checkpoint is copied from it: the save fails with an error,
 * nothing waits forever, and no step is listed.
 */
#include "tests/ckpt/fixture.h"
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/scratch.h"

#include <errno.h>

enum { ELEMENTS = 3 << 20 };

static void a_lost_device_fails_the_save_and_blocks_no_thread(void **state)
{
    (void)state;
    struct err err;
    struct device *device;
    struct device_stream *updates;
    struct ckpt_saver *saver;
    struct ckpt_tensor tensor = {.name = "a",
                                 .dtype = DTYPE_U8,
                                 .rank = 1,
                                 .shape = {ELEMENTS},
                                 .extent = {ELEMENTS},
                                 .replicated = true};
    order_set(1); /* work runs, and fails, only when it is waited for */
    assert_ok(device_open("cuda", &device, &err), &err);
    assert_ok(device->ops->stream_open(device, &updates, &err), &err);
    assert_ok(device->ops->mem_alloc(device, MEM_DEVICE, ELEMENTS, &tensor.data, &err), &err);
    const struct ckpt_saver_options options = {.folder = folder,
                                               .io = io,
                                               .device = device,
                                               .updates = updates,
                                               .groups_count = 1,
                                               .run_id = "lost",
                                               .numerics_id = "any"};
    assert_ok(ckpt_saver_open(&options, &tensor, 1, &saver, &err), &err);
    shim_set_failure(cudaErrorIllegalAddress);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    ckpt_saver_before_update(saver, 0);
    assert_int_equal(ckpt_saver_wait(saver, &err), -EIO);
    assert_int_equal(fixture_list(io, folder, NULL), 0);
    shim_set_failure(cudaSuccess);
    assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
    ckpt_saver_before_update(saver, 0);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    ckpt_saver_close(saver);
    device->ops->mem_free(device, MEM_DEVICE, tensor.data, ELEMENTS);
    device->ops->stream_close(device, updates);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lost_device_fails_the_save_and_blocks_no_thread,
                                        scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

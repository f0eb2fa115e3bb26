/*
 * clock — the device's clock: the host's, or a simulated one that a test sets (control.h).
 */
#include "base/clock.h"
#include "tests/cuda_on_cpu/control.h"
#include "trainer/ops/cuda/device_clock.h"

#include <stdatomic.h>

static _Atomic uint64_t tick_ns, last_ns; /* for a simulated clock */

void shim_set_clock(uint64_t new_tick_ns)
{
    atomic_store(&tick_ns, new_tick_ns);
}

uint64_t device_clock_ns(void)
{
    uint64_t step_ns = atomic_load(&tick_ns);
    return step_ns ? atomic_fetch_add(&last_ns, step_ns) + step_ns : clock_now_ns();
}

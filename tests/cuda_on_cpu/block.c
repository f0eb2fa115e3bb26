/*
 * block — see block.h. Compiled without ThreadSanitizer's instrumentation: a block's threads do not
 * share its bookkeeping.
 */
#include "tests/cuda_on_cpu/block.h"

#include "tests/cuda_on_cpu/collective.h"
#include "tests/cuda_on_cpu/fiber.h"
#include "tests/cuda_on_cpu/grid.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/cuda_on_cpu/order_choice.h"
#include "tests/cuda_on_cpu/violation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef SHIM_TSAN
#include <sanitizer/tsan_interface.h>
#define memory_release(at) __tsan_release(at)
#define memory_acquire(at) __tsan_acquire(at)
#else
#define memory_release(at) ((void)(at))
#define memory_acquire(at) ((void)(at))
#endif

enum { WARPS_MAX = BLOCK_THREADS_MAX / BLOCK_WARP_THREADS };

enum thread_state { RUNNING, AT_BARRIER, IN_COLLECTIVE, RETURNED };

struct source_line {
    const char *file;
    int line;
};

struct grouped_copy {
    struct block_copy copy;
    uint32_t group;
};

/* A ring of the thread's unfinished copies, oldest first. */
struct copy_ring {
    /* groups: number committed so far; later copies belong to the next group */
    uint32_t first, count, groups;
    struct grouped_copy ring[BLOCK_COPIES_MAX];
};

struct thread {
    struct fiber fiber;
    uint3 index;
    enum thread_state state;
    struct source_line place; /* where the thread waits */
    enum collective kind;
    uint32_t mask;
    void *arguments;
    struct copy_ring copies;
};

struct warp {
    uint32_t parked_lanes, returned_lanes; /* one bit per lane */
    /* number completed; its parity selects the address, which keeps early lanes apart from late
     * ones */
    uint32_t syncs;
    char sync_address[2];
};

static struct {
    const void *kernel;
    void (*main)(void *argument);
    void *argument;
    int threads_count;
    struct thread *running_thread;
    struct fiber scheduler;
    struct thread threads[BLOCK_THREADS_MAX];
    int fibers_count;
    struct warp warps[WARPS_MAX];

    uint16_t ready[BLOCK_THREADS_MAX]; /* a ring of runnable threads */
    int ready_first, ready_count;

    struct source_line barrier;
    int arrived_count, returned_count, predicates_count, result;
    uint32_t barriers_count; /* completed */
    char barrier_address[2], begin_address, end_address;
} block;

struct block_index shim_index;
const uint3 *shim_thread_index;

void shim_violation(const char *format, ...)
{
    char name[SHIM_NAME_BYTES_MAX];
    fputs("cuda_on_cpu: ", stderr);
    if (block.kernel)
        fprintf(stderr, "kernel %s, block (%u, %u, %u): ", shim_kernel_name(block.kernel, name),
                shim_index.block.x, shim_index.block.y, shim_index.block.z);
    if (block.running_thread)
        fprintf(stderr, "thread (%u, %u, %u): ", block.running_thread->index.x,
                block.running_thread->index.y, block.running_thread->index.z);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    fflush(NULL);
    abort();
}

static int thread_number(const struct thread *thread)
{
    return (int)(thread - block.threads);
}

static void make_ready(int number)
{
    block.ready[(block.ready_first + block.ready_count++) % BLOCK_THREADS_MAX] = (uint16_t)number;
}

/* Makes threads of [first, first + count) runnable if their bit in `lanes` is set, in the order's
 * direction. */
static void make_ready_lanes(int first, int count, const uint32_t *lanes)
{
    bool reverse = order_threads_reversed();
    for (int i = 0; i < count; i++) {
        int at = reverse ? count - 1 - i : i;
        if (!lanes || *lanes >> at & 1)
            make_ready(first + at);
    }
}

static const char *describe(const struct thread *thread)
{
    static const char *const states[] = {"runs", "waits at __syncthreads", "waits for its warp",
                                         "has returned"};
    return states[thread->state];
}

static void report_deadlock(void)
{
    block.running_thread = NULL;
    for (int i = 0, told = 0; i < block.threads_count && told < 8; i++) {
        struct thread *thread = &block.threads[i];
        if (i > 0 && thread->state == thread[-1].state &&
            thread->place.line == thread[-1].place.line)
            continue;
        fprintf(stderr, "cuda_on_cpu: from thread %d on: %s%s%s:%d, mask %08x\n", i,
                describe(thread), thread->place.file ? " at " : "",
                thread->place.file ? thread->place.file : "", thread->place.line, thread->mask);
        told++;
    }
    shim_violation("its threads wait for each other forever");
}

/* Switches from the running thread, or the scheduler (self NULL), to the next runnable thread, or
 * to the scheduler if there is none. */
static void run_next(struct thread *self)
{
    struct fiber *from = self ? &self->fiber : &block.scheduler, *to = &block.scheduler;
    block.running_thread = NULL;
    if (block.ready_count > 0) {
        int pick = order_pick_thread(block.ready_count);
        uint16_t *first = &block.ready[block.ready_first],
                 *picked = &block.ready[(block.ready_first + pick) % BLOCK_THREADS_MAX];
        struct thread *next = &block.threads[*picked];
        *picked = *first;
        block.ready_first = (block.ready_first + 1) % BLOCK_THREADS_MAX;
        block.ready_count--;
        block.running_thread = next;
        shim_thread_index = &next->index;
        next->state = RUNNING;
        to = &next->fiber;
    } else if (block.returned_count < block.threads_count) {
        report_deadlock();
    }
    if (from != to)
        fiber_switch(from, to);
}

static void check_return(struct thread *self)
{
    struct warp *warp = &block.warps[thread_number(self) / BLOCK_WARP_THREADS];
    if (block.arrived_count > 0)
        shim_violation("returns while others wait at __syncthreads, %s:%d", block.barrier.file,
                       block.barrier.line);
    for (uint32_t rest = warp->parked_lanes; rest; rest &= rest - 1) {
        struct thread *other =
            self - thread_number(self) % BLOCK_WARP_THREADS + __builtin_ctz(rest);
        if (other->mask >> (thread_number(self) % BLOCK_WARP_THREADS) & 1)
            shim_violation("returns while lanes of its warp wait for it at %s:%d",
                           other->place.file, other->place.line);
    }
    if (self->copies.count > 0)
        shim_violation("returns with %u asynchronous copies that it did not wait for",
                       self->copies.count);
    warp->returned_lanes |= UINT32_C(1) << thread_number(self) % BLOCK_WARP_THREADS;
}

/* A fiber runs the same thread index in one block after another. */
static void thread_main(void *argument)
{
    struct thread *self = argument;
    for (;;) {
        memory_acquire(&block.begin_address);
        block.main(block.argument);
        memory_release(&block.end_address);
        check_return(self);
        self->state = RETURNED;
        self->place = (struct source_line){0};
        block.returned_count++;
        run_next(self);
    }
}

void block_run(const void *kernel, void (*main)(void *argument), void *argument)
{
    dim3 dim = shim_index.block_dim;
    block.kernel = kernel;
    block.main = main;
    block.argument = argument;
    block.threads_count = (int)(dim.x * dim.y * dim.z);
    block.arrived_count = block.returned_count = block.predicates_count = 0;
    block.ready_first = block.ready_count = 0;
    fiber_adopt(&block.scheduler);
    for (; block.fibers_count < block.threads_count; block.fibers_count++)
        fiber_open(&block.threads[block.fibers_count].fiber, thread_main,
                   &block.threads[block.fibers_count]);
    for (int i = 0; i < block.threads_count; i++) {
        struct thread *thread = &block.threads[i];
        unsigned x = (unsigned)i % dim.x, rest = (unsigned)i / dim.x;
        thread->index.x = x;
        thread->index.y = rest % dim.y;
        thread->index.z = rest / dim.y;
        thread->place = (struct source_line){0};
        thread->copies.first = thread->copies.count = thread->copies.groups = 0;
    }
    for (int i = 0; i < block.threads_count / BLOCK_WARP_THREADS; i++)
        block.warps[i].parked_lanes = block.warps[i].returned_lanes = 0;
    make_ready_lanes(0, block.threads_count, NULL);
    memory_release(&block.begin_address);
    while (block.returned_count < block.threads_count)
        run_next(NULL);
    memory_acquire(&block.end_address);
    block.running_thread = NULL;
    block.kernel = NULL;
}

int shim_sync_threads(int predicate, const char *file, int line)
{
    struct thread *self = block.running_thread;
    uint32_t generation = block.barriers_count;
    if (block.returned_count > 0)
        shim_violation("waits at __syncthreads, %s:%d, though %d threads have returned", file, line,
                       block.returned_count);
    if (block.arrived_count == 0)
        block.barrier = (struct source_line){file, line};
    else if (block.barrier.line != line || block.barrier.file != file)
        shim_violation("waits at __syncthreads, %s:%d, while others wait at %s:%d", file, line,
                       block.barrier.file, block.barrier.line);
    self->state = AT_BARRIER;
    self->place = block.barrier;
    self->mask = 0;
    block.predicates_count += predicate != 0;
    memory_release(&block.barrier_address[generation % 2]);
    if (++block.arrived_count == block.threads_count) {
        block.arrived_count = 0;
        block.barriers_count++;
        block.result = block.predicates_count;
        block.predicates_count = 0;
        make_ready_lanes(0, block.threads_count, NULL);
    }
    run_next(self);
    memory_acquire(&block.barrier_address[generation % 2]);
    return block.result;
}

static void check_agreement(const struct thread *self, const struct thread *other)
{
    if (other->mask != self->mask)
        shim_violation("its mask at %s:%d is %08x, but lane %d waits at %s:%d with %08x",
                       self->place.file, self->place.line, self->mask,
                       thread_number(other) % BLOCK_WARP_THREADS, other->place.file,
                       other->place.line, other->mask);
    if (other->kind != self->kind || other->place.line != self->place.line ||
        other->place.file != self->place.file)
        shim_violation("waits for its warp at %s:%d, but lane %d waits at %s:%d", self->place.file,
                       self->place.line, thread_number(other) % BLOCK_WARP_THREADS,
                       other->place.file, other->place.line);
}

void shim_collective(enum collective kind, uint32_t mask, void *arguments, const char *file,
                     int line)
{
    struct thread *self = block.running_thread;
    int lane = thread_number(self) % BLOCK_WARP_THREADS;
    struct thread *lanes = self - lane;
    struct warp *warp = &block.warps[thread_number(self) / BLOCK_WARP_THREADS];
    uint32_t generation = warp->syncs;
    self->state = IN_COLLECTIVE;
    self->place = (struct source_line){file, line};
    self->kind = kind;
    self->mask = mask;
    self->arguments = arguments;
    if (!(mask >> lane & 1))
        shim_violation("is lane %d, which is not in its own mask %08x at %s:%d", lane, mask, file,
                       line);
    if ((kind == COLLECTIVE_MATRICES || kind == COLLECTIVE_PRODUCT) && mask != UINT32_MAX)
        shim_violation("a tensor-core instruction at %s:%d needs the whole warp", file, line);
    if (mask & warp->returned_lanes)
        shim_violation("waits at %s:%d for lanes %08x of its warp, which have returned", file, line,
                       mask & warp->returned_lanes);
    if (kind == COLLECTIVE_SYNC)
        memory_release(&warp->sync_address[generation % 2]);
    if (warp->parked_lanes & mask)
        check_agreement(self, &lanes[__builtin_ctz(warp->parked_lanes & mask)]);
    warp->parked_lanes |= UINT32_C(1) << lane;
    if ((warp->parked_lanes & mask) == mask) {
        void *all[BLOCK_WARP_THREADS];
        for (int i = 0; i < BLOCK_WARP_THREADS; i++) {
            all[i] = mask >> i & 1 ? lanes[i].arguments : NULL;
            if (mask >> i & 1)
                check_agreement(self, &lanes[i]);
        }
        collective_compute(kind, mask, all);
        warp->parked_lanes &= ~mask;
        warp->syncs += kind == COLLECTIVE_SYNC;
        make_ready_lanes(thread_number(lanes), BLOCK_WARP_THREADS, &mask);
    }
    run_next(self);
    if (kind == COLLECTIVE_SYNC)
        memory_acquire(&warp->sync_address[generation % 2]);
}

void shim_copy_add(void *target, const void *source)
{
    struct copy_ring *copies = &block.running_thread->copies;
    if (copies->count == BLOCK_COPIES_MAX)
        shim_violation("has more than %d asynchronous copies in progress", BLOCK_COPIES_MAX);
    copies->ring[(copies->first + copies->count++) % BLOCK_COPIES_MAX] =
        (struct grouped_copy){{target, source}, copies->groups};
}

void shim_copy_commit(void)
{
    block.running_thread->copies.groups++;
}

bool shim_copy_pop(int pending, struct block_copy *ret_copy)
{
    struct copy_ring *copies = &block.running_thread->copies;
    if (copies->count == 0 ||
        (int64_t)copies->ring[copies->first].group >= (int64_t)copies->groups - pending)
        return false;
    *ret_copy = copies->ring[copies->first].copy;
    copies->first = (copies->first + 1) % BLOCK_COPIES_MAX;
    copies->count--;
    return true;
}

/*
 * deaths — a process that saves is killed at every durable operation, and at random instants: what is listed is whole, and the newest
 * of it loads.
 */
#include "io/io_fault.h"
#include "tests/ckpt/steps.h"
#include "tests/support/gate.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Where a child is killed. */
struct death {
    const char *rules; /* from the save on */
    int after_operation; /* SIGKILL at some instant after so many durable operations began; 0: by the rules alone */
};

struct killer {
    struct io *io;
    uint64_t operations;
};

static void *kill_in_time(void *argument)
{
    const struct killer *killer = argument;
    while (io_fault_durable_count(killer->io) < killer->operations)
        gate_pause();
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Saves step 2 and, keeping one, removes step 1. */
static void be_the_child(const struct death *death)
{
    struct io *own = NULL;
    pthread_t thread;
    if (io_open(folder, &(struct io_options){.fault = "seed=0"}, &own, NULL))
        _exit(99);
    struct killer killer = {own, (uint64_t)death->after_operation};
    struct ckpt_saver *saver = steps_open(own, 1);
    steps_set_faults(own, "%s", death->rules);
    if (death->after_operation && pthread_create(&thread, NULL, kill_in_time, &killer))
        _exit(97);
    if (ckpt_saver_save(saver, 2, FIXTURE_STATE, NULL) || ckpt_saver_wait(saver, NULL))
        _exit(98);
    ckpt_saver_close(saver);
    _exit(0);
}

/* The child's exit status, 128 + signal. */
static int run_child(const struct death *death)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_the_child(death);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* After a death: only whole ones are listed, one at least; the newest loads; the next owner sweeps and saves. */
static void check_after_death(void)
{
    uint64_t step = 0;
    char path[FIXTURE_PATH_BYTES];
    struct err err = {0};
    steps_check_listed(1);
    assert_ok(ckpt_find(io, folder, path, &step, NULL, &err), &err);
    assert_true(step == 1 || step == 2);
    arrays_fill(&arrays, step);
    assert_true(fixture_step_equals(io, path, &arrays));
    struct ckpt_saver *saver = steps_open(io, 1);
    assert_int_equal(steps_temporaries_count(), 0);
    arrays_fill(&arrays, 3);
    fixture_save(saver, 3);
    ckpt_saver_close(saver);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    steps_check_listed(1);
}

static void begin_again(void)
{
    char path[FIXTURE_PATH_BYTES];
    assert_int_equal(test_run("rm -rf '%s'/* '%s'/.tmp-*", folder, folder), 0);
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    arrays_fill(&arrays, 2);
}

static void killed_at_every_durable_operation_a_whole_one_is_found(void **state)
{
    (void)state;
    int operation = 1;
    for (;; operation++) {
        begin_again();
        char rules[64];
        snprintf(rules, sizeof rules, "durable:kill@%d", operation);
        int status = run_child(&(struct death){.rules = rules});
        check_after_death();
        if (status == 0)
            break;
        assert_int_equal(status, 128 + SIGKILL);
    }
    print_message("%d kills, one before each durable operation\n", operation - 1);
    assert_true(operation > 11);
}

/* Some time after the child has begun a random one of its operations: between, within or behind them. */
static void killed_at_random_instants_a_whole_one_is_found(void **state)
{
    (void)state;
    int rounds = 12, inside = 0;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < rounds; i++) {
        begin_again();
        struct death death = {.rules = "durable:delay=1ms", .after_operation = 1 + rand() % 12};
        int status = run_child(&death);
        assert_true(status == 0 || status == 128 + SIGKILL);
        inside += status != 0;
        check_after_death();
    }
    print_message("%d of %d kills came before the save's end\n", inside, rounds);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, steps_set_up, steps_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(killed_at_every_durable_operation_a_whole_one_is_found),
        CASE(killed_at_random_instants_a_whole_one_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

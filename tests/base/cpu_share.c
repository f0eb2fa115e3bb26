/*
 * cpu_share — how several processes divide a host's CPUs.
 */
#include "base/os/cpu_share.h"
#include "base/os/thread_pool.h"
#include "tests/support/test.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* cpus: the affinity mask of the first 64 CPUs; cpu_count 0: all CPUs in the mask. */
static struct cpu_placement make_placement(uint64_t host, uint64_t cpus, uint64_t cpu_count)
{
    uint64_t all = (uint64_t)__builtin_popcountll(cpus);
    return (struct cpu_placement){
        .host = host, .cpu_count = cpu_count ? cpu_count : all, .cpus = {cpus}};
}

static void unbound_processes_divide_all_cpus(void **state)
{
    struct cpu_placement placements[4];
    (void)state;
    for (size_t i = 0; i < 4; i++)
        placements[i] = make_placement(1, 0xffff, 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(cpu_share(placements, 4, i), 4);
    assert_int_equal(cpu_share(placements, 3, 0), 5); /* rounded down */
    assert_int_equal(cpu_share(placements, 1, 0), 16);
}

static void bound_processes_keep_their_cpus(void **state)
{
    const struct cpu_placement placements[] = {
        make_placement(1, 0x00f, 0), make_placement(1, 0x0f0, 0), make_placement(1, 0x100, 0)};
    (void)state;
    assert_int_equal(cpu_share(placements, 3, 0), 4);
    assert_int_equal(cpu_share(placements, 3, 1), 4);
    assert_int_equal(cpu_share(placements, 3, 2), 1);
}

static void processes_bound_to_one_group_divide_its_cpus(void **state)
{
    const struct cpu_placement placements[] = {make_placement(1, 0xf, 0), make_placement(1, 0xf, 0),
                                               make_placement(1, 0xf0, 0)};
    (void)state;
    assert_int_equal(cpu_share(placements, 3, 0), 2);
    assert_int_equal(cpu_share(placements, 3, 2), 4);
}

static void processes_on_other_hosts_are_not_counted(void **state)
{
    const struct cpu_placement placements[] = {
        make_placement(1, 0xff, 0), make_placement(2, 0xff, 0), make_placement(2, 0xff, 0)};
    (void)state;
    assert_int_equal(cpu_share(placements, 3, 0), 8);
    assert_int_equal(cpu_share(placements, 3, 1), 4);
}

static void a_cgroup_limit_is_divided_among_processes(void **state)
{
    const struct cpu_placement limited[] = {make_placement(1, 0xffff, 6),
                                            make_placement(1, 0xffff, 6)};
    const struct cpu_placement loose[] = {make_placement(1, 0x3, 0), make_placement(1, 0xffff, 12)};
    const struct cpu_placement unknown[] = {make_placement(1, 0, 6), make_placement(1, 0, 6)};
    (void)state;
    assert_int_equal(cpu_share(limited, 2, 0), 3);
    assert_int_equal(cpu_share(loose, 2, 0), 1);
    assert_int_equal(cpu_share(loose, 2, 1), 6);
    assert_int_equal(cpu_share(unknown, 2, 1), 3);
}

static void more_processes_than_cpus_get_one_cpu_each(void **state)
{
    struct cpu_placement placements[7];
    (void)state;
    for (size_t i = 0; i < 7; i++)
        placements[i] = make_placement(1, 0x3f, 0);
    assert_int_equal(cpu_share(placements, 7, 6), 1);
    assert_int_equal(cpu_share(placements, 6, 0), 1); /* six sixths add up to 1 */
}

static void a_single_process_gets_all_allowed_cpus(void **state)
{
    struct cpu_placement own;
    (void)state;
    cpu_placement_read(&own);
    assert_int_equal(cpu_share(&own, 1, 0), thread_pool_cpu_count());
}

static void write_node(const char *root, unsigned node, const char *cpus)
{
    char path[2 * TEST_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%u", root, node);
    assert_int_equal(test_run("mkdir -p '%s'", path), 0);
    strcat(path, "/cpulist");
    test_write_file(path, cpus, strlen(cpus));
}

static void only_usable_numa_nodes_are_counted(void **state)
{
    char root[TEST_PATH_BYTES_MAX], own[32];
    cpu_set_t before, one;
    unsigned cpu = 0;
    (void)state;
    test_make_folder(root);
    assert_int_equal(numa_nodes_count(root), 1); /* the kernel does not report nodes */
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    snprintf(own, sizeof own, "900-903,%u\n", cpu);
    write_node(root, 0, own);
    write_node(root, 1, "900-903,910\n");
    write_node(root, 2, "\n"); /* a node with memory only */
    assert_int_equal(numa_nodes_count(root), 1);
    write_node(root, 17, "0-1023\n");
    assert_int_equal(numa_nodes_count(root), 2);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    test_remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unbound_processes_divide_all_cpus),
        cmocka_unit_test(bound_processes_keep_their_cpus),
        cmocka_unit_test(processes_bound_to_one_group_divide_its_cpus),
        cmocka_unit_test(processes_on_other_hosts_are_not_counted),
        cmocka_unit_test(a_cgroup_limit_is_divided_among_processes),
        cmocka_unit_test(more_processes_than_cpus_get_one_cpu_each),
        cmocka_unit_test(only_usable_numa_nodes_are_counted),
        cmocka_unit_test(a_single_process_gets_all_allowed_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

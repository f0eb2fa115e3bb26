/*
 * Tests the detection of ranks from launchers' variables, in environments set up by the test.
 */
#include "comm/ranks/ranks.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

static const char *const *environment; /* "NAME=value", NULL-terminated */

static const char *get_variable(const char *name)
{
    size_t bytes = strlen(name);
    for (const char *const *at = environment; *at; at++)
        if (strncmp(*at, name, bytes) == 0 && (*at)[bytes] == '=')
            return *at + bytes + 1;
    return NULL;
}

static void check_detected(const char *const *given, enum ranks_launcher launcher, int rank,
                           int ranks, int local_rank)
{
    struct ranks found;
    struct err err = {0};
    environment = given;
    assert_ok(ranks_detect(get_variable, &found, &err), &err);
    assert_int_equal(found.launcher, launcher);
    assert_int_equal(found.rank, rank);
    assert_int_equal(found.ranks, ranks);
    assert_int_equal(found.local_rank, local_rank);
}

static void check_refused(const char *const *given, const char *what, const char *detail)
{
    struct ranks found = {.ranks = 77};
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    environment = given;
    assert_int_equal(ranks_detect(get_variable, &found, &err), -EINVAL);
    assert_int_equal(found.ranks, 77);
    err_format(&err, line, sizeof line);
    if (!strstr(line, what) || !strstr(line, detail))
        fail_msg("expected \"%s\" and \"%s\" in: %s", what, detail, line);
}

#define ENVIRONMENT(...) ((const char *const[]){__VA_ARGS__, NULL})

static void each_launcher_is_detected_by_its_variables(void **state)
{
    (void)state;
    check_detected(ENVIRONMENT("HOME=/"), RANKS_SINGLE, 0, 1, 0);
    check_detected(ENVIRONMENT("RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=0"), RANKS_TORCHRUN, 2, 4, 0);
    check_detected(ENVIRONMENT("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
                               "OMPI_COMM_WORLD_LOCAL_RANK=1"),
                   RANKS_OPEN_MPI, 3, 4, 1);
    check_detected(ENVIRONMENT("PMI_RANK=1", "PMI_SIZE=2"), RANKS_PMI, 1, 2, -1);
    check_detected(ENVIRONMENT("SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=6", "SLURM_LOCALID=2"),
                   RANKS_SLURM, 5, 6, 2);
    check_detected(ENVIRONMENT("RANK=7"), RANKS_SINGLE, 0, 1,
                   0); /* RANK belongs to another program */
    check_detected(ENVIRONMENT("MV2_COMM_WORLD_RANK=3", "MV2_COMM_WORLD_SIZE=4",
                               "MV2_COMM_WORLD_LOCAL_RANK=1"),
                   RANKS_MVAPICH, 3, 4, 1);
    check_detected(ENVIRONMENT("JSM_NAMESPACE_RANK=5", "JSM_NAMESPACE_SIZE=6",
                               "JSM_NAMESPACE_LOCAL_RANK=2", "PMIX_RANK=5"),
                   RANKS_JSRUN, 5, 6, 2);
    check_detected(ENVIRONMENT("FLUX_TASK_RANK=5", "FLUX_JOB_SIZE=6", "FLUX_TASK_LOCAL_ID=2"),
                   RANKS_FLUX, 5, 6, 2);
    check_detected(ENVIRONMENT("FLUX_TASK_RANK=5", "FLUX_JOB_SIZE=6", "FLUX_TASK_LOCAL_ID=2",
                               "PMI_RANK=5", "PMI_SIZE=6"),
                   RANKS_FLUX, 5, 6, 2);
    check_detected(ENVIRONMENT("PALS_RANKID=5", "PALS_LOCAL_RANKID=2", "PMI_RANK=5", "PMI_SIZE=6"),
                   RANKS_PALS, 5, 6, 2);
    check_detected(ENVIRONMENT("PMI_RANK=5", "PMI_SIZE=6", "SLURM_PROCID=5",
                               "SLURM_STEP_NUM_TASKS=6", "SLURM_LOCALID=2"),
                   RANKS_SLURM, 5, 6, 2); /* srun --mpi=pmi2 */
}

static void a_rank_without_a_rank_count_is_refused(void **state)
{
    static const char *const partial[] = {"PMIX_RANK=3",
                                          "PMI_RANK=3",
                                          "OMPI_COMM_WORLD_RANK=3",
                                          "MV2_COMM_WORLD_RANK=3",
                                          "JSM_NAMESPACE_RANK=3",
                                          "FLUX_TASK_RANK=3",
                                          "PALS_RANKID=3",
                                          "ALPS_APP_PE=3",
                                          "JOB_COMPLETION_INDEX=3",
                                          "AWS_BATCH_JOB_NODE_INDEX=3"};
    (void)state;
    for (size_t i = 0; i < sizeof partial / sizeof partial[0]; i++) {
        check_refused(ENVIRONMENT(partial[i]), partial[i], "expected the number of ranks");
        check_refused(ENVIRONMENT(partial[i]), "started this process as one of several",
                      "set RANK=0 and WORLD_SIZE=1");
        /* as the error message suggests */
        check_detected(ENVIRONMENT(partial[i], "RANK=0", "WORLD_SIZE=1"), RANKS_TORCHRUN, 0, 1, -1);
        check_detected(ENVIRONMENT(partial[i], "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=0"),
                       RANKS_TORCHRUN, 3, 4, 0);
    }
}

static void a_rank_count_without_a_rank_is_refused(void **state)
{
    (void)state;
    check_refused(ENVIRONMENT("WORLD_SIZE=4"), "not which one this is", "found only WORLD_SIZE=4");
    check_detected(ENVIRONMENT("WORLD_SIZE=1"), RANKS_SINGLE, 0, 1, 0);
    check_detected(ENVIRONMENT("WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
                               "OMPI_COMM_WORLD_LOCAL_RANK=1"),
                   RANKS_OPEN_MPI, 3, 4, 1);
}

static void torchrun_ranks_have_a_rendezvous(void **state)
{
    struct ranks found;
    struct err err = {0};
    (void)state;
    environment = ENVIRONMENT("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=node1", "MASTER_PORT=29500",
                              "TORCHELASTIC_RUN_ID=a");
    assert_ok(ranks_detect(get_variable, &found, &err), &err);
    assert_string_equal(found.rendezvous.address, "node1");
    assert_int_equal(found.rendezvous.port, 29500);
    uint64_t token = found.rendezvous.token;
    environment = ENVIRONMENT("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=node1", "MASTER_PORT=70000");
    assert_ok(ranks_detect(get_variable, &found, &err), &err);
    assert_string_equal(found.rendezvous.address, "");
    environment = ENVIRONMENT("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=node1", "MASTER_PORT=29500",
                              "TORCHELASTIC_RUN_ID=b");
    assert_ok(ranks_detect(get_variable, &found, &err), &err);
    assert_true(found.rendezvous.token != token);
    environment = ENVIRONMENT("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=node1", "MASTER_PORT=29501",
                              "TORCHELASTIC_RUN_ID=a"); /* a different run on the same machine */
    assert_ok(ranks_detect(get_variable, &found, &err), &err);
    assert_true(found.rendezvous.token != token);
    environment =
        ENVIRONMENT("RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=localhost", "MASTER_PORT=29500",
                    "TORCHELASTIC_RUN_ID=a"); /* rank 0 of the first run again */
    assert_ok(ranks_detect(get_variable, &found, &err), &err);
    assert_true(found.rendezvous.token == token);
    check_refused(ENVIRONMENT("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=node1", "MASTER_PORT=many"),
                  "MASTER_PORT", "many");
}

static void slurm_ranks_come_from_the_step_not_the_job(void **state)
{
    (void)state;
    check_detected(ENVIRONMENT("SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_LOCALID=0"), RANKS_SINGLE,
                   0, 1, 0);                                              /* sbatch */
    check_detected(ENVIRONMENT("SLURM_NTASKS=8"), RANKS_SINGLE, 0, 1, 0); /* salloc */
    check_detected(ENVIRONMENT("SLURM_PROCID=1", "SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=2",
                               "SLURM_LOCALID=1"),
                   RANKS_SLURM, 1, 2, 1);
}

static void a_single_process_in_a_job_of_several_tasks_is_detected(void **state)
{
    struct ranks found;
    struct err err = {0};
    (void)state;
    environment = ENVIRONMENT("SLURM_NTASKS=8", "SLURM_PROCID=0");
    assert_ok(ranks_detect(get_variable, &found, &err), &err);
    assert_int_equal(found.job_tasks, 8);
    environment = ENVIRONMENT("SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=8");
    assert_ok(ranks_detect(get_variable, &found, &err), &err);
    assert_int_equal(found.job_tasks, 0);
}

static void within_a_slurm_job_mpirun_takes_precedence(void **state)
{
    (void)state;
    check_detected(ENVIRONMENT("SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_LOCALID=0",
                               "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"),
                   RANKS_OPEN_MPI, 1, 2, -1);
    check_detected(ENVIRONMENT("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "OMPI_COMM_WORLD_RANK=1",
                               "OMPI_COMM_WORLD_SIZE=2"),
                   RANKS_OPEN_MPI, 1, 2, -1);
}

static void within_a_slurm_step_mpirun_takes_precedence(void **state)
{
    (void)state;
    check_detected(ENVIRONMENT("FLUX_TASK_RANK=0", "FLUX_JOB_SIZE=1", "FLUX_TASK_LOCAL_ID=0",
                               "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"),
                   RANKS_OPEN_MPI, 1, 2, -1);
    check_detected(
        ENVIRONMENT("JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_SIZE=2", "JSM_NAMESPACE_LOCAL_RANK=1",
                    "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"),
        RANKS_OPEN_MPI, 1, 2, 1); /* the ranks are the same; jsrun provides the local rank */
}

static void agreeing_launchers_are_accepted(void **state)
{
    (void)state;
    check_detected(
        ENVIRONMENT("RANK=1", "WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"),
        RANKS_OPEN_MPI, 1, 2, -1);
}

static void contradictions_are_refused_and_named(void **state)
{
    (void)state;
    check_refused(
        ENVIRONMENT("RANK=1", "WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"),
        "rank 1 of 4 according to torchrun (WORLD_SIZE)", "rank 1 of 2 according to mpirun");
    check_refused(ENVIRONMENT("SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=4"), "SLURM_PROCID",
                  "a rank from 0 to 3");
    check_refused(ENVIRONMENT("PMI_SIZE=4"), "PMI_RANK and PMI_SIZE", "none");
    check_refused(ENVIRONMENT("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=two"),
                  "OMPI_COMM_WORLD_SIZE", "two");
    check_refused(ENVIRONMENT("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=99999999999"),
                  "SLURM_STEP_NUM_TASKS", "99999999999");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_launcher_is_detected_by_its_variables),
        cmocka_unit_test(a_rank_count_without_a_rank_is_refused),
        cmocka_unit_test(torchrun_ranks_have_a_rendezvous),
        cmocka_unit_test(slurm_ranks_come_from_the_step_not_the_job),
        cmocka_unit_test(a_single_process_in_a_job_of_several_tasks_is_detected),
        cmocka_unit_test(within_a_slurm_job_mpirun_takes_precedence),
        cmocka_unit_test(within_a_slurm_step_mpirun_takes_precedence),
        cmocka_unit_test(a_rank_without_a_rank_count_is_refused),
        cmocka_unit_test(agreeing_launchers_are_accepted),
        cmocka_unit_test(contradictions_are_refused_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

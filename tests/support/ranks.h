/*
 * ranks — cmocka programs that run as real ranks under mpirun.
 *
 *     int main(int argc, char **argv) { return ranks_main(tests, sizeof tests / sizeof tests[0]); }
 *
 * All ranks run all cases, in step. Only rank 0 reports which passed; a case that fails on any rank
 * ends all ranks. Declared by mr_mpi_test.
 */
#ifndef MILLRACE_TESTS_SUPPORT_RANKS_H
#define MILLRACE_TESTS_SUPPORT_RANKS_H

#include "comm/comm.h"
#include "tests/support/test.h"

/* The communicator of all ranks. Valid until ranks_main returns. */
extern struct comm *world;

/* Returns the exit status. message_bytes_max: as comm_mpi_open's; 0: its default. */
int ranks_main(const struct CMUnitTest *tests, size_t count, size_t message_bytes_max);
/* Rank 0 creates a new folder, which all ranks share; ranks_remove_folder removes it.
 * Collective. */
void ranks_make_folder(char path[TEST_PATH_BYTES_MAX]);
void ranks_remove_folder(const char *path);
/* A barrier. */
void ranks_barrier(void);

#endif

/*
 * mpi_engine — the thread on which MPI runs: the engine (engine.h) of comm_mpi.
 *
 *     planned -> posted (MPI_Isend, MPI_Irecv) -> all done -> advance -> planned more? ... -> done
 *
 * Waiting: while something is in flight the engine asks MPI, first without a pause, then with
 * pauses that grow with the time for which nothing happened, from 20 us to 1 ms; so ranks that
 * outnumber the cores leave them to those who compute. With nothing in flight it looks every 50 ms
 * whether another rank has ended the run.
 *
 * Ending: from the end of a run on the engine never calls MPI. What was posted may still be read
 * and written by others until the process exits, and closing keeps the engine, its operations and
 * their scratch.
 */
#ifndef MILLRACE_COMM_MPI_MPI_ENGINE_H
#define MILLRACE_COMM_MPI_MPI_ENGINE_H

#include "comm/engine/engine.h"

#include <mpi.h>

/* Starts the thread and MPI. One at a time in a process, and none after one whose run was ended:
 * -EBUSY. Collective. Closing it ends MPI unless the program had started it, or the run was ended.
 * message_bytes_max: longer messages are cut; 0: a default. */
int mpi_engine_open(size_t message_bytes_max, struct engine **ret_engine, struct err *err);
MPI_Comm mpi_engine_world(const struct engine *engine); /* the engine's own copy of it */

/* 0, or -EIO with MPI's own words. */
int mpi_check(int code, const char *what, struct err *err);

#endif

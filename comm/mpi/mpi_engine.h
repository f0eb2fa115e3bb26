/*
 * mpi_engine — the engine (engine.h) of comm_mpi; only its thread calls MPI.
 *
 *     planned -> posted (MPI_Isend, MPI_Irecv) -> all done -> advance -> planned more? ... -> done
 *
 * Waiting: with messages in flight, the engine polls MPI, at first without pauses. To leave shared
 * cores to computation, pauses grow with the time since the last event, from 20 us to 1 ms. Without
 * messages in flight, it checks every 50 ms whether another rank has ended the run.
 *
 * Ending: after the end of the run, the engine does not call MPI. MPI may still access posted
 * buffers, so the engine, its operations and their scratch are never freed.
 */
#ifndef MILLRACE_COMM_MPI_MPI_ENGINE_H
#define MILLRACE_COMM_MPI_MPI_ENGINE_H

#include "comm/engine/engine.h"

#include <mpi.h>

/* Starts the thread and MPI. Collective. -EBUSY: another engine is open in this process, or an
 * earlier run was aborted. Closing finalizes MPI unless the program initialized it or the run has
 * ended. message_bytes_max: longer messages are split; 0: default. */
int mpi_engine_open(size_t message_bytes_max, struct engine **ret_engine, struct err *err);
MPI_Comm mpi_engine_world(const struct engine *engine); /* a duplicate of MPI_COMM_WORLD */

/* Returns 0, or -EIO with MPI's error text. */
int mpi_check(int code, const char *action, struct err *err);

#endif

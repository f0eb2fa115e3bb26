/*
 * mpi_engine — the thread that calls MPI: the engine (engine.h) of comm_mpi.
 *
 *     planned -> posted (MPI_Isend, MPI_Irecv) -> all done -> advance -> planned more? ... -> done
 *
 * Waiting: while something is in flight, the engine polls MPI, at first without pauses. The pauses
 * grow with the time since the last event, from 20 us to 1 ms, to leave shared cores to
 * computation. With nothing in flight, it checks every 50 ms whether another rank has ended the
 * run.
 *
 * Ending: once the run has ended, the engine never calls MPI again. Posted buffers may still be
 * read and written, so closing keeps the engine, its operations and their scratch.
 */
#ifndef MILLRACE_COMM_MPI_MPI_ENGINE_H
#define MILLRACE_COMM_MPI_MPI_ENGINE_H

#include "comm/engine/engine.h"

#include <mpi.h>

/* Starts the thread and MPI. Collective. -EBUSY: one is already open in this process, or the run of
 * an earlier one was ended. Closing ends MPI unless the program started it or the run was ended.
 * message_bytes_max: longer messages are split; 0: a default. */
int mpi_engine_open(size_t message_bytes_max, struct engine **ret_engine, struct err *err);
MPI_Comm mpi_engine_world(const struct engine *engine); /* the engine's duplicate of the world */

/* Returns 0, or -EIO with MPI's error text. */
int mpi_check(int code, const char *what, struct err *err);

#endif

/*
 * forward — for backends in front of another one: operations that they pass on unchanged.
 */
#ifndef MILLRACE_IO_FORWARD_H
#define MILLRACE_IO_FORWARD_H

#include "io/io.h"

/* Such a backend embeds it as its first member. */
struct io_forward {
    struct io base;
    struct io *inner; /* borrowed */
};

/* Hooks of struct io_ops and io_name_ops. */
int io_forward_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue,
                          struct err *err);
int io_forward_resolve(struct io *io, const char *path, char *full_path, struct err *err);
int io_forward_stat(struct io *io, const char *path, struct io_stat *ret_stat, struct err *err);
uint64_t io_forward_gap_bytes(struct io *io, const char *path);
int io_forward_list(struct io *io, const char *path,
                    int (*entry)(void *context, const struct io_entry *entry), void *context,
                    struct err *err);
int io_forward_make_folder(struct io *io, const char *path, struct err *err);
int io_forward_remove(struct io *io, const char *path, struct err *err);

/* Hooks of struct io_transaction_ops and io_lock_ops. */
int io_forward_begin(struct io *io, const struct io_transaction_options *options,
                     struct io_transaction **ret_transaction, struct err *err);
int io_forward_lock_shared(struct io *io, const char *path, bool is_exclusive,
                           struct io_shared_lock **ret_lock, struct err *err);

#endif

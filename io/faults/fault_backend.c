/*
 * fault_backend — injects faults into all operations except requests. See io_fault.h.
 *
 * File and transaction handles wrap inner handles and store the path that rules match. Lock handles
 * belong to the inner backend.
 */
#include "io/faults/fault_backend.h"

#include "base/clock.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Owner thread. */
struct io_transaction {
    struct io_fault *fault;
    struct io_transaction *inner;
    struct io_file *files; /* unfinalized */
    bool is_lost;          /* a rule made finalize fail, but the inner one succeeded */
    char path[IO_PATH_BYTES_MAX];
};

static struct io_fault *as_fault(struct io *io)
{
    return (struct io_fault *)io;
}

static struct io *inner_io(struct io *io)
{
    return as_fault(io)->inner;
}

static const struct io_transaction_ops *inner_ops(const struct io_transaction *transaction)
{
    return transaction->fault->inner->transactions;
}

struct fault_verdict fault_apply(struct io_fault *fault, enum fault_operation operation,
                                 const char *path, uint64_t offset)
{
    atomic_fetch_add(&fault->operations[operation], 1);
    struct fault_verdict verdict = fault_rules_decide(&fault->rules, operation, path, offset);
    atomic_fetch_add(&fault->hits, verdict.is_hit);
    return verdict;
}

/* Applies the rules before a call. Returns the injected error. */
static int inject_fault(struct io *io, enum fault_operation operation, const char *path,
                        struct err *err)
{
    struct io_fault *fault = as_fault(io);
    struct fault_verdict verdict = fault_apply(fault, operation, path, 0);
    if (verdict.delay_ns)
        clock_sleep_ns(verdict.delay_ns);
    if (verdict.holds) {
        atomic_fetch_add(&fault->held, 1);
        while (!atomic_load(&fault->is_released))
            clock_sleep_ns(FAULT_POLL_NS);
        atomic_fetch_sub(&fault->held, 1);
    }
    if (!verdict.error)
        return 0;
    err_errno(err, verdict.error, "%s was made to fail", fault_operation_name(operation));
    err_at(err, path, ERR_NO_OFFSET);
    return verdict.error;
}

/* The caller sets the inner file. */
static int new_file(struct io_fault *fault, const char *folder, const char *name,
                    struct io_file **ret_file, struct err *err)
{
    struct io_file *file = calloc(1, sizeof *file);
    if (!file)
        return err_set(err, -ENOMEM, "out of memory for a file");
    file->fault = fault;
    int bytes = snprintf(file->path, sizeof file->path, "%s%s%s", folder,
                         *folder && *name ? "/" : "", name);
    if (bytes < 0 || (size_t)bytes >= sizeof file->path) {
        free(file);
        return io_long_path_error(folder, name, err);
    }
    *ret_file = file;
    return 0;
}

static int fault_file_open(struct io *io, const char *path, struct io_file **ret_file,
                           struct err *err)
{
    struct io_file *file = NULL;
    int status = inject_fault(io, FAULT_OPEN, path, err);
    if (!status)
        status = new_file(as_fault(io), "", path, &file, err);
    if (!status)
        status = inner_io(io)->ops->file_open(inner_io(io), path, &file->inner, err);
    if (status)
        free(file);
    else
        *ret_file = file;
    return status;
}

static void fault_file_close(struct io_file *file)
{
    if (!file)
        return;
    file->fault->inner->ops->file_close(file->inner);
    free(file);
}

static uint64_t fault_file_size(const struct io_file *file)
{
    return file->fault->inner->ops->file_size(file->inner);
}

static int fault_file_identity(const struct io_file *file, struct io_identity *ret_identity,
                               struct err *err)
{
    int status = inject_fault(&file->fault->base, FAULT_STAT, file->path, err);
    return status ? status : file->fault->inner->ops->file_identity(file->inner, ret_identity, err);
}

static unsigned fault_direct_align(struct io *io, struct io_file *file)
{
    struct io *inner = inner_io(io);
    return inner->ops->direct_align ? inner->ops->direct_align(inner, file->inner) : 0;
}

static int fault_resolve(struct io *io, const char *path, char *full_path, struct err *err)
{
    return io_resolve(as_fault(io)->inner, path, full_path, err);
}

static int fault_stat(struct io *io, const char *path, struct io_stat *ret_stat, struct err *err)
{
    struct io *inner = inner_io(io);
    int status = inject_fault(io, FAULT_STAT, path, err);
    return status ? status : inner->names->stat(inner, path, ret_stat, err);
}

static uint64_t fault_gap_bytes(struct io *io, const char *path)
{
    uint64_t delay_us = fault_rules_read_delay_ns(&as_fault(io)->rules, path) / 1000;
    uint64_t gap_bytes = io_gap_bytes(inner_io(io), path),
             delay_bytes = delay_us * FAULT_BYTES_PER_US;
    return delay_bytes > gap_bytes ? delay_bytes : gap_bytes;
}

static int fault_list(struct io *io, const char *path,
                      int (*entry)(void *context, const struct io_entry *entry), void *context,
                      struct err *err)
{
    struct io *inner = inner_io(io);
    int status = inject_fault(io, FAULT_LIST, path, err);
    return status ? status : inner->names->list(inner, path, entry, context, err);
}

static int fault_make_folder(struct io *io, const char *path, struct err *err)
{
    struct io *inner = inner_io(io);
    int status = inject_fault(io, FAULT_FOLDER, path, err);
    return status ? status : inner->names->make_folder(inner, path, err);
}

static int fault_remove(struct io *io, const char *path, struct err *err)
{
    struct io *inner = inner_io(io);
    int status = inject_fault(io, FAULT_REMOVE, path, err);
    return status ? status : inner->names->remove(inner, path, err);
}

static int fault_sweep(struct io *io, const char *folder, const char *owner_id,
                       bool (*is_ours)(const char *entry_name), struct err *err)
{
    struct io *inner = inner_io(io);
    int status = inject_fault(io, FAULT_SWEEP, folder, err);
    return status ? status : inner->transactions->sweep(inner, folder, owner_id, is_ours, err);
}

static int fault_lock_acquire(struct io *io, const char *folder,
                              const struct io_lock_options *options, struct io_lock **ret_lock,
                              struct err *err)
{
    struct io *inner = inner_io(io);
    int status = inject_fault(io, FAULT_LOCK, folder, err);
    return status ? status : inner->locks->acquire(inner, folder, options, ret_lock, err);
}

static int fault_shared_lock_acquire(struct io *io, const char *path, bool is_exclusive,
                                     struct io_shared_lock **ret_lock, struct err *err)
{
    struct io *inner = inner_io(io);
    int status = inject_fault(io, FAULT_LOCK, path, err);
    return status ? status : io_lock_shared(inner, path, is_exclusive, ret_lock, err);
}

/* staging NULL: begins a transaction. */
static int fault_transaction_join(struct io *io, const struct io_transaction_options *options,
                                  const char *staging, struct io_transaction **ret_transaction,
                                  struct err *err)
{
    struct io *inner = inner_io(io);
    int status = inject_fault(io, staging ? FAULT_JOIN : FAULT_BEGIN, options->path, err);
    if (status)
        return status;
    struct io_transaction *transaction = calloc(1, sizeof *transaction);
    if (!transaction)
        return err_set(err, -ENOMEM, "out of memory for an output");
    transaction->fault = as_fault(io);
    snprintf(transaction->path, sizeof transaction->path, "%s", options->path);
    status = staging ? inner->transactions->join(inner, options, staging, &transaction->inner, err)
                     : inner->transactions->begin(inner, options, &transaction->inner, err);
    if (status)
        free(transaction);
    else
        *ret_transaction = transaction;
    return status;
}

static int fault_transaction_begin(struct io *io, const struct io_transaction_options *options,
                                   struct io_transaction **ret_transaction, struct err *err)
{
    return fault_transaction_join(io, options, NULL, ret_transaction, err);
}

static const char *fault_transaction_staging(const struct io_transaction *transaction)
{
    return inner_ops(transaction)->staging_path(transaction->inner);
}

/* Creates a file, or opens another rank's file if `exists`. */
static int add_file(struct io_transaction *transaction, const char *name, bool exists,
                    uint64_t bytes_expected, struct io_file **ret_file, struct err *err)
{
    const struct io_transaction_ops *inner = inner_ops(transaction);
    struct io_file *file = NULL;
    int status = new_file(transaction->fault, transaction->path, name, &file, err);
    if (status)
        return status;
    status = inject_fault(&transaction->fault->base, FAULT_CREATE, file->path, err);
    if (!status)
        status = exists
                     ? inner->open(transaction->inner, name, &file->inner, err)
                     : inner->create(transaction->inner, name, bytes_expected, &file->inner, err);
    if (status) {
        free(file);
        return status;
    }
    file->next = transaction->files;
    transaction->files = file;
    *ret_file = file;
    return 0;
}

static int fault_transaction_create(struct io_transaction *transaction, const char *name,
                                    uint64_t bytes_expected, struct io_file **ret_file,
                                    struct err *err)
{
    return add_file(transaction, name, false, bytes_expected, ret_file, err);
}

static int fault_transaction_open(struct io_transaction *transaction, const char *name,
                                  struct io_file **ret_file, struct err *err)
{
    return add_file(transaction, name, true, 0, ret_file, err);
}

static int fault_transaction_finalize(struct io_transaction *transaction, struct io_file *file,
                                      uint64_t final_bytes, struct err *err)
{
    struct io_file **link = &transaction->files;
    while (*link && *link != file)
        link = &(*link)->next;
    if (*link)
        *link = file->next;
    int failed = inject_fault(&transaction->fault->base, FAULT_FINALIZE, file->path, err);
    int status = inner_ops(transaction)
                     ->finalize(transaction->inner, file->inner, final_bytes, failed ? NULL : err);
    free(file);
    transaction->is_lost = transaction->is_lost || failed;
    return failed ? failed : status;
}

/* Call after the inner transaction has ended. */
static void free_transaction(struct io_transaction *transaction)
{
    while (transaction->files) {
        struct io_file *file = transaction->files;
        transaction->files = file->next;
        free(file);
    }
    free(transaction);
}

static int fault_transaction_commit(struct io_transaction *transaction, struct err *err)
{
    int status = inject_fault(&transaction->fault->base, FAULT_COMMIT, transaction->path, err);
    if (!status && transaction->is_lost) {
        status = err_set(err, -EINVAL, "one of the files could not be made durable");
        err_at(err, transaction->path, ERR_NO_OFFSET);
    }
    if (status)
        inner_ops(transaction)->abort(transaction->inner);
    else
        status = inner_ops(transaction)->commit(transaction->inner, err);
    free_transaction(transaction);
    return status;
}

static void fault_transaction_abort(struct io_transaction *transaction)
{
    if (!transaction)
        return;
    inject_fault(&transaction->fault->base, FAULT_ABORT, transaction->path, NULL);
    if (atomic_load(&transaction->fault->in_flight) > 0)
        atomic_fetch_add(&transaction->fault->unsafe_aborts, 1);
    inner_ops(transaction)->abort(transaction->inner);
    free_transaction(transaction);
}

static void fault_transaction_leave(struct io_transaction *transaction)
{
    inner_ops(transaction)->leave(transaction->inner);
    free_transaction(transaction);
}

static void fault_close(struct io *io)
{
    io_close(inner_io(io));
    free(io);
}

static const struct io_name_ops fault_names = {
    .resolve = fault_resolve,
    .stat = fault_stat,
    .gap_bytes = fault_gap_bytes,
    .list = fault_list,
    .make_folder = fault_make_folder,
    .remove = fault_remove,
};

static const struct io_transaction_ops fault_transactions = {
    .begin = fault_transaction_begin,
    .join = fault_transaction_join,
    .staging_path = fault_transaction_staging,
    .create = fault_transaction_create,
    .open = fault_transaction_open,
    .finalize = fault_transaction_finalize,
    .commit = fault_transaction_commit,
    .abort = fault_transaction_abort,
    .leave = fault_transaction_leave,
    .sweep = fault_sweep,
};

static const struct io_ops fault_ops = {
    .file_open = fault_file_open,
    .file_close = fault_file_close,
    .file_size = fault_file_size,
    .file_identity = fault_file_identity,
    .direct_align = fault_direct_align,
    .queue_open = fault_queue_open,
    .queue_close = fault_queue_close,
    .submit = fault_queue_submit,
    .queue_register = fault_queue_register,
    .reap = fault_queue_reap,
    .cancel = fault_queue_cancel,
    .close = fault_close,
};

static int wrap(struct io *inner, const char *rules, struct io **ret_io, struct err *err)
{
    struct io_fault *fault = calloc(1, sizeof *fault);
    if (!fault)
        return err_set(err, -ENOMEM, "out of memory for a backend with faults");
    int status = fault_rules_parse(rules, &fault->rules, err);
    if (status) {
        free(fault);
        return status;
    }
    snprintf(fault->name, sizeof fault->name, "%s with faults", inner->ops->name);
    fault->ops = fault_ops;
    fault->ops.name = fault->name;
    fault->ops.scheme = inner->ops->scheme;
    fault->locks = *inner->locks;
    fault->locks.acquire = fault_lock_acquire;
    fault->locks.lock_shared = fault_shared_lock_acquire;
    fault->base = (struct io){&fault->ops, &fault_names, &fault_transactions, &fault->locks};
    fault->inner = inner;
    *ret_io = &fault->base;
    return 0;
}

int io_fault_open(const char *path_or_url, const struct io_options *options, const char *rules,
                  struct io **ret_io, struct err *err)
{
    struct io *io;
    int status = io_open(path_or_url, options, &io, err);
    if (!status && rules && *rules) {
        struct io *inner = io;
        status = wrap(inner, rules, &io, err);
        if (status)
            io_close(inner);
    }
    if (!status)
        *ret_io = io;
    return status;
}

int io_fault_set(struct io *io, const char *rules, struct err *err)
{
    struct io_fault *fault = as_fault(io);
    int status = fault_rules_parse(rules, &fault->rules, err);
    if (status)
        return status;
    atomic_store(&fault->is_released, false);
    for (int i = 0; i < FAULT_OPERATIONS; i++)
        atomic_store(&fault->operations[i], 0);
    atomic_store(&fault->read_bytes, 0);
    atomic_store(&fault->hits, 0);
    atomic_store(&fault->unsafe_aborts, 0);
    return 0;
}

void io_fault_release(struct io *io)
{
    atomic_store(&as_fault(io)->is_released, true);
}

struct io_fault_counts io_fault_counts(struct io *io)
{
    struct io_fault *fault = as_fault(io);
    struct io_fault_counts counts = {.read_bytes = atomic_load(&fault->read_bytes),
                                     .hits = atomic_load(&fault->hits),
                                     .held_operations = atomic_load(&fault->held),
                                     .in_flight_requests = atomic_load(&fault->in_flight),
                                     .unsafe_aborts = atomic_load(&fault->unsafe_aborts)};
    for (int i = 0; i < FAULT_OPERATIONS; i++) {
        counts.operations[i] = atomic_load(&fault->operations[i]);
        counts.durable_operations += fault_operation_is_durable(i) ? counts.operations[i] : 0;
    }
    return counts;
}

#include "cli/bench/bench_file.h"

#include "io/file_util.h"

static int fill(const struct bench_file *wanted, const char *path,
                struct io_transaction *transaction, struct io_file *file,
                struct io_benchmark *speed, struct err *err)
{
    struct io_benchmark_job job = {.kind = IO_WRITE,
                                   .file_bytes = wanted->bytes,
                                   .block_bytes = BENCH_FILE_BLOCK_BYTES,
                                   .depth = BENCH_FILE_DEPTH,
                                   .is_one_pass = true,
                                   .ns_max = wanted->ns_max,
                                   .stop = wanted->stop};
    int status = io_benchmark_run(wanted->io, file, path, &job, speed, err);
    io_benchmark_begin(speed);
    int finalized =
        wanted->io->transactions->finalize(transaction, file, speed->bytes, status ? NULL : err);
    io_benchmark_end(speed);
    return status ? status : finalized;
}

int bench_file_write(const struct bench_file *wanted, struct io_benchmark *speed,
                     struct io_transaction **ret_transaction, struct err *err)
{
    const struct io_transaction_ops *ops = wanted->io->transactions;
    char path[IO_PATH_BYTES_MAX];
    struct io_transaction *transaction = NULL;
    struct io_file *file = NULL;
    int status = io_join_path(wanted->folder, wanted->name, path, err);
    struct io_transaction_options options = {.path = path, .single_file = true, .replace = true};
    if (!status)
        status = ops->begin(wanted->io, &options, &transaction, err);
    if (!status)
        status = ops->create(transaction, "", wanted->bytes, &file, err);
    if (!status)
        status = fill(wanted, path, transaction, file, speed, err);
    if (status)
        ops->abort(transaction);
    else
        *ret_transaction = transaction;
    return status;
}

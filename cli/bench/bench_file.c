#include "cli/bench/bench_file.h"

#include "io/file_util.h"

static int write_blocks(const struct bench_file_options *options, const char *path,
                        struct io_transaction *transaction, struct io_file *file,
                        struct io_benchmark *totals, struct err *err)
{
    struct io_benchmark_job job = {.kind = IO_WRITE,
                                   .file_bytes = options->bytes,
                                   .block_bytes = BENCH_FILE_BLOCK_BYTES,
                                   .depth = BENCH_FILE_DEPTH,
                                   .is_one_pass = true,
                                   .ns_max = options->ns_max,
                                   .stop = options->stop};
    int status = io_benchmark_run(options->io, file, path, &job, totals, err);
    io_benchmark_begin(totals);
    int finalize_status =
        options->io->transactions->finalize(transaction, file, totals->bytes, status ? NULL : err);
    io_benchmark_end(totals);
    return status ? status : finalize_status;
}

int bench_file_write(const struct bench_file_options *options, struct io_benchmark *totals,
                     struct io_transaction **ret_transaction, struct err *err)
{
    const struct io_transaction_ops *ops = options->io->transactions;
    char path[IO_PATH_BYTES_MAX];
    struct io_transaction *transaction = NULL;
    struct io_file *file = NULL;
    int status = io_join_path(options->folder, options->name, path, err);
    struct io_transaction_options transaction_options = {
        .path = path, .single_file = true, .replace = true};
    if (!status)
        status = ops->begin(options->io, &transaction_options, &transaction, err);
    if (!status)
        status = ops->create(transaction, "", options->bytes, &file, err);
    if (!status)
        status = write_blocks(options, path, transaction, file, totals, err);
    if (status)
        ops->abort(transaction);
    else
        *ret_transaction = transaction;
    return status;
}

/*
 * run_agreement — compares data and numerics across ranks. See run.h. The configuration was
 * compared earlier (cli/ranks/rank_session.h).
 */
#include "base/hash.h"
#include "trainer/control/data_schema.h"
#include "trainer/control/rank_agreement.h"
#include "trainer/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static void add_hex(struct rank_record *record, const char *key, uint64_t value)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    rank_record_add(record, key, text);
}

static void add_count(struct rank_record *record, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    rank_record_add(record, key, text);
}

/* The meaning of labels and tokens is not part of the fingerprint. */
static void add_schema(struct rank_record *record, const struct loader *loader, const char *name)
{
    struct str text = {0};
    struct jsonx_writer json = {.out = &text};
    char key[64];
    data_schema_encode(&json, loader_schema(loader));
    snprintf(key, sizeof key, "%s hash of the %s", name,
             loader_shape(loader).vocabulary ? "tokenizer" : "class names");
    add_hex(record, key, hash_64(str_text(&text), text.bytes));
    str_deinit(&text);
}

static void add_datasets(struct rank_record *record, const struct loader *loader, const char *name)
{
    const struct loader_dataset *list;
    uint32_t count = loader_datasets(loader, &list);
    char key[64];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%s[%" PRIu32 "] fingerprint", name, i);
        add_hex(record, key, list[i].fingerprint);
        snprintf(key, sizeof key, "%s[%" PRIu32 "] weight", name, i);
        add_count(record, key, list[i].weight);
    }
    add_schema(record, loader, name);
    snprintf(key, sizeof key, "%s samples left out of damaged tars", name);
    add_count(record, key, loader_stats(loader).left_out_count);
}

int run_probe_validation(struct run *run, struct err *err)
{
    struct loader_options options = run_loader_options(run, false);
    struct loader *loader;
    if (!run->config->data.val[0])
        return 0;
    options.order_only = true;
    options.log = NULL; /* each evaluation logs the samples it skips */
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    run->data.validation_fingerprint = loader_shape(loader).fingerprint;
    loader_close(loader);
    return 0;
}

int run_compare_data(const struct run *run, const struct loader *loader, const char *key,
                     struct err *err)
{
    struct comm_options options = run_ranks_comm_options(&run->ranks, "comparing the data");
    struct rank_record record = {0};
    if (loader)
        add_datasets(&record, loader, key);
    add_hex(&record, "data.val fingerprint", run->data.validation_fingerprint);
    add_hex(&record, "fingerprint of the initial weights", run->weights_fingerprint);
    int status = rank_agreement_check(
        run->ranks.comm, &record,
        "give all machines the same files; warnings above name damaged ones", &options, err);
    rank_record_deinit(&record);
    return status;
}

int run_describe_numerics(struct run *run, struct err *err)
{
    run->compute.ops->table->numerics_id(run->compute.ops, &run->saving.numerics_id);
    if (run->data.shape.pixels_version > 0)
        str_add_format(&run->saving.numerics_id, "; pixels %u by %s",
                       run->data.shape.pixels_version, run->data.shape.pixels_libraries);
    str_add_format(&run->saving.numerics_id, "; micro-batch %" PRIu64, run->data.batching.micro);
    char dependence[REDUCTION_DEPENDENCE_BYTES] = "", library[COMM_LIBRARY_BYTES] = "";
    if (run->update.reduction) /* NULL for an evaluation */
        reduction_describe_rank_dependence(&run->update.reduction->options, dependence,
                                           sizeof dependence);
    if (dependence[0])
        str_add_format(&run->saving.numerics_id, "; %s", dependence);
    bool sums_fast =
        run->update.reduction && run->update.reduction->options.kind != REDUCTION_CANONICAL;
    if (sums_fast && run->data.batching.ranks > 1)
        comm_describe_library(run->ranks.comm, library);
    if (library[0])
        str_add_format(&run->saving.numerics_id, ", summed by %s", library);
    int status = str_status(&run->saving.numerics_id);
    return status ? err_set(err, status, "out of memory for the numerics' name") : 0;
}

static int collect_mixed_numerics(struct run *run, const struct comm_options *options,
                                  struct err *err)
{
    struct str all = {0};
    bool differs = false;
    int status = rank_agreement_collect(run->ranks.comm, str_text(&run->saving.numerics_id), &all,
                                        &differs, options, err);
    if (!status && str_status(&all))
        status = err_set(err, -ENOMEM, "out of memory for the numerics of %d ranks",
                         run->ranks.comm->ranks);
    status = run_ranks_agree(&run->ranks, status, options->purpose, err);
    if (!status) {
        str_deinit(&run->saving.numerics_id);
        run->saving.numerics_id = all;
        all = (struct str){0};
    }
    str_deinit(&all);
    if (!status && differs && run->ranks.comm->rank == 0)
        log_line(run->options->log, LOG_WARN,
                 "ranks use different kernels, as parallel.mixed: allow permits: results are not "
                 "bitwise reproducible; checkpoints record the numerics_id of every rank");
    return status;
}

int run_compare_numerics(struct run *run, struct err *err)
{
    struct comm_options options =
        run_ranks_comm_options(&run->ranks, "comparing the numerics of the ranks");
    struct rank_record record = {0};
    if (run->ranks.comm->ranks == 1)
        return 0;
    if (run->config->parallel.mixed == CONFIG_MIXED_ALLOW)
        return collect_mixed_numerics(run, &options, err);
    rank_record_add(&record, "numerics_id", str_text(&run->saving.numerics_id));
    int status =
        rank_agreement_check(run->ranks.comm, &record,
                             "use machines with the same processors, GPUs and libraries, or set "
                             "parallel.mixed: allow, which gives up bitwise reproducibility",
                             &options, err);
    rank_record_deinit(&record);
    return status;
}

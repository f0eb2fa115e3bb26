/*
 * dry_run_fits — tries every strategy with and without recomputation of all blocks and, on a GPU,
 * with and without offloading of activations, optimizer state and parameters. None of these changes
 * the bits of the result. A smaller micro-batch does, so it is tried only if nothing else fits.
 */
#include "cli/commands/dry_run_fits.h"

#include "base/str.h"
#include "cli/core/output.h"
#include "trainer/config/strategy.h"
#include "trainer/models/model.h"
#include "trainer/plan/memory_plan.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SETTINGS_MAX = 256, SET_BYTES = 240, LINES_MAX = 12 };

struct setting {
    uint32_t strategy;
    uint64_t recompute, offload, micro;
    bool offloads_optimizer, offloads_params;
};

struct trial {
    struct setting setting;
    uint64_t number;
    uint64_t bytes; /* compared with the limit */
    uint64_t sent_bytes, transfer_bytes;
    double flops;
};

struct search {
    const struct dry_run_options *options;
    struct train_config config; /* with the current setting */
    struct dry_run_plan plan;
    struct trial trials[SETTINGS_MAX];
    size_t trials_count;
    uint64_t smallest_bytes;
    struct setting smallest_setting;
};

static void apply_setting(struct train_config *config, const struct setting *setting)
{
    config->parallel.strategy = setting->strategy;
    config->parallel.offload.optimizer = setting->offloads_optimizer;
    config->parallel.offload.params = setting->offloads_params;
    config->model.recompute = setting->recompute;
    config->model.offload = setting->offload;
    config->batch.micro = setting->micro;
}

/* Whether a setting with equal figures is listed. Strategies that differ in other ways, under local
 * SGD and compression, never occur together. */
static bool is_duplicate(const struct search *search, const struct trial *trial)
{
    for (size_t i = 0; i < search->trials_count; i++) {
        const struct trial *other = &search->trials[i];
        if (other->bytes == trial->bytes && other->sent_bytes == trial->sent_bytes &&
            other->transfer_bytes == trial->transfer_bytes && other->flops == trial->flops)
            return true;
    }
    return false;
}

static int try_setting(struct search *search, const struct setting *setting, struct err *err)
{
    const struct dry_run_plan *plan = &search->plan;
    search->config = *search->options->config;
    apply_setting(&search->config, setting);
    if (!dry_run_is_valid(&search->config))
        return 0;
    int status = dry_run_config(search->options, &search->config, &search->plan, err);
    if (status)
        return status;
    const struct trial trial = {
        .setting = *setting,
        .number = search->trials_count,
        .bytes = plan->is_host ? usage_total_bytes(&plan->peak)
                               : memory_plan_required_bytes(usage_device_bytes(&plan->peak)),
        .sent_bytes = plan->peak.traffic.sent_bytes,
        .transfer_bytes = plan->rank0.transfer_bytes,
        .flops = plan->flops};
    if (trial.bytes < search->smallest_bytes) {
        search->smallest_bytes = trial.bytes;
        search->smallest_setting = *setting;
    }
    if (trial.bytes <= search->options->fits_bytes && !is_duplicate(search, &trial)) {
        assert(search->trials_count < SETTINGS_MAX);
        search->trials[search->trials_count++] = trial;
    }
    return 0;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Orders by bytes between ranks, computation, bytes between host and device, then trial number. */
static int compare_cost(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;
    int order = compare_u64(x->sent_bytes, y->sent_bytes);
    if (!order)
        order = (x->flops > y->flops) - (x->flops < y->flops);
    if (!order)
        order = compare_u64(x->transfer_bytes, y->transfer_bytes);
    return order ? order : compare_u64(x->number, y->number);
}

/* Writes the given value, then the other one if it differs and tries_other. Returns the count. */
static unsigned list_choices(uint64_t given, uint64_t other, bool tries_other,
                             uint64_t ret_values[2])
{
    ret_values[0] = given;
    ret_values[1] = other;
    return tries_other && given != other ? 2 : 1;
}

static int try_strategy(struct search *search, uint32_t strategy, uint64_t micro, bool is_host,
                        struct err *err)
{
    const struct train_config *given = search->options->config;
    uint64_t recompute[2], offload[2], optimizer[2], params[2];
    unsigned recompute_count = list_choices(given->model.recompute, 1, true, recompute);
    unsigned offload_count = list_choices(given->model.offload, 1, !is_host, offload);
    unsigned optimizer_count =
        list_choices(given->parallel.offload.optimizer, true, !is_host, optimizer);
    unsigned params_count = list_choices(given->parallel.offload.params, true, !is_host, params);
    int status = 0;
    for (unsigned i = 0;
         i < recompute_count * offload_count * optimizer_count * params_count && !status; i++) {
        const struct setting setting = {
            .strategy = strategy,
            .micro = micro,
            .recompute = recompute[i % recompute_count],
            .offload = offload[i / recompute_count % offload_count],
            .offloads_optimizer = optimizer[i / recompute_count / offload_count % optimizer_count],
            .offloads_params = params[i / recompute_count / offload_count / optimizer_count],
        };
        /* on a single rank, other strategies are only useful to offload parameters */
        if (search->options->ranks > 1 || strategy == given->parallel.strategy ||
            setting.offloads_params)
            status = try_setting(search, &setting, err);
    }
    return status;
}

/* The given strategy comes first, so that it wins among equals. */
static int try_strategies(struct search *search, uint64_t micro, bool is_host, struct err *err)
{
    uint32_t given = search->options->config->parallel.strategy;
    int status = try_strategy(search, given, micro, is_host, err);
    for (uint32_t s = 0; strategy_names[s] && !status; s++)
        if (s != given)
            status = try_strategy(search, s, micro, is_host, err);
    return status;
}

static int search_settings(struct search *search, struct err *err)
{
    const struct ops_null_model *model;
    uint64_t micro = search->options->config->batch.micro;
    int status = trainer_dry_run_backend(search->options->config, &model, err);
    for (; !status; micro /= 2) {
        status = try_strategies(search, micro, model->is_host, err);
        if (search->trials_count > 0 || micro % 2 != 0)
            break;
    }
    qsort(search->trials, search->trials_count, sizeof search->trials[0], compare_cost);
    return status;
}

/* Formats the overrides: "parallel.strategy=zero1 model.recompute=1". */
static void format_overrides(const struct search *search, const struct setting *setting,
                             char text[SET_BYTES])
{
    const struct train_config *given = search->options->config;
    int used = snprintf(text, SET_BYTES, "parallel.strategy=%s", strategy_names[setting->strategy]);
    if (setting->recompute != given->model.recompute)
        used += snprintf(text + used, SET_BYTES - (size_t)used, " model.recompute=%" PRIu64,
                         setting->recompute);
    if (setting->offload != given->model.offload)
        used += snprintf(text + used, SET_BYTES - (size_t)used, " model.offload=%" PRIu64,
                         setting->offload);
    if (setting->offloads_optimizer != given->parallel.offload.optimizer)
        used += snprintf(text + used, SET_BYTES - (size_t)used, " parallel.offload.optimizer=true");
    if (setting->offloads_params != given->parallel.offload.params)
        used += snprintf(text + used, SET_BYTES - (size_t)used, " parallel.offload.params=true");
    if (setting->micro == given->batch.micro)
        return;
    used +=
        snprintf(text + used, SET_BYTES - (size_t)used, " batch.micro=%" PRIu64, setting->micro);
    /* keeps the global batch */
    if (search->options->accumulation > 0)
        snprintf(text + used, SET_BYTES - (size_t)used, " batch.accumulation=%" PRIu64,
                 given->batch.global / setting->micro / search->options->ranks);
}

static int print_json(const struct search *search, struct err *err)
{
    struct output output;
    char text[SET_BYTES];
    output_begin(&output);
    jsonx_write_u64(&output.json, "ranks_count", search->options->ranks);
    jsonx_write_u64(&output.json, "limit_bytes", search->options->fits_bytes);
    jsonx_begin_array(&output.json, "fits");
    for (size_t i = 0; i < search->trials_count; i++) {
        const struct trial *trial = &search->trials[i];
        format_overrides(search, &trial->setting, text);
        jsonx_begin_object(&output.json, NULL);
        jsonx_write_string(&output.json, "set", text);
        jsonx_write_u64(&output.json, "memory_bytes", trial->bytes);
        jsonx_write_u64(&output.json, "sent_bytes", trial->sent_bytes);
        jsonx_write_f64(&output.json, "flops", trial->flops);
        jsonx_write_u64(&output.json, "crossed_bytes", trial->transfer_bytes);
        jsonx_end_object(&output.json);
    }
    jsonx_end_array(&output.json);
    return output_end(&output, true, stdout, err);
}

static void print_text(const struct search *search)
{
    char text[SET_BYTES], size[STR_SIZE_BYTES];
    printf("%10s  %10s  %8s  %10s  %s\n", "memory", "sent", "flops", "crossed", "set");
    for (size_t i = 0; i < search->trials_count && i < LINES_MAX; i++) {
        const struct trial *trial = &search->trials[i];
        format_overrides(search, &trial->setting, text);
        printf("%10s", str_format_size(trial->bytes, size));
        printf("  %10s", str_format_size(trial->sent_bytes, size));
        printf("  %8.3g", trial->flops);
        printf("  %10s  %s\n", str_format_size(trial->transfer_bytes, size), text);
    }
    if (search->trials_count > LINES_MAX)
        printf("and %zu more\n", search->trials_count - LINES_MAX);
}

static int fail_nothing_fits(const struct search *search, struct err *err)
{
    char smallest[STR_SIZE_BYTES], limit[STR_SIZE_BYTES], set[SET_BYTES];
    bool is_image = search->options->config->model.type == MODEL_VIT;
    format_overrides(search, &search->smallest_setting, set);
    err_set(err, -ENOMEM, "no setting fits");
    err_expected(err, "at most %s per rank", str_format_size(search->options->fits_bytes, limit));
    err_found(err, "at least %s, with %s", str_format_size(search->smallest_bytes, smallest), set);
    err_advise(err,
               "raise --ranks, or reduce model.layers, model.width or %s; run --dry-run without "
               "--fits to see what uses the most memory",
               is_image ? "data.image.size" : "data.text.block");
    return -ENOMEM;
}

int dry_run_fits(const struct dry_run_options *options, struct err *err)
{
    struct search *search = calloc(1, sizeof *search);
    if (!search)
        return err_set(err, -ENOMEM, "out of memory for a dry run");
    search->options = options;
    search->smallest_bytes = UINT64_MAX;
    int status = search_settings(search, err);
    if (!status && search->trials_count == 0)
        status = fail_nothing_fits(search, err);
    else if (!status && options->as_json)
        status = print_json(search, err);
    else if (!status)
        print_text(search);
    free(search);
    return status;
}

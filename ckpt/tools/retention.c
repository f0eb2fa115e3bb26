#include "ckpt/tools/retention.h"

#include "base/json/jsonx.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_better(const struct ckpt_keep_rules *keep, const struct retention_step *a,
                      const struct retention_step *b)
{
    if (a->metric == b->metric)
        return a->step < b->step;
    return keep->best.mode == CKPT_MODE_MAX ? a->metric > b->metric : a->metric < b->metric;
}

static bool is_among_best(const struct ckpt_keep_rules *keep, const struct retention_step *steps,
                          size_t count, const struct retention_step *step)
{
    uint32_t better_count = 0;
    if (!keep->best.metric || !step->has_metric)
        return false;
    for (size_t i = 0; i < count && better_count < keep->best.count; i++)
        better_count += steps[i].has_metric && is_better(keep, &steps[i], step);
    return better_count < keep->best.count;
}

void retention_decide(const struct ckpt_keep_rules *keep, struct retention_step *steps,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct retention_step *step = &steps[i];
        size_t newer_count = count - 1 - i;
        step->reasons = 0;
        if (keep->last == 0 || newer_count < keep->last)
            step->reasons |= CKPT_KEPT_LAST;
        if (keep->every > 0 && step->step % keep->every == 0)
            step->reasons |= CKPT_KEPT_EVERY;
        if (is_among_best(keep, steps, count, step))
            step->reasons |= CKPT_KEPT_BEST;
        if (step->is_saved)
            step->reasons |= CKPT_KEPT_SAVED;
    }
}

bool ckpt_get_metric(const struct json_t *state, const char *name, uint64_t step,
                     double *ret_metric)
{
    char step_key[CKPT_METRIC_BYTES_MAX + sizeof "_step"];
    const struct json_t *metrics = jsonx_get(state, "metrics");
    double metric;
    uint64_t measured_step;
    if (jsonx_f64(jsonx_get(metrics, name), &metric) || isnan(metric))
        return false;
    snprintf(step_key, sizeof step_key, "%.*s_step", (int)strcspn(name, "_"), name);
    if (jsonx_u64(jsonx_get(metrics, step_key), &measured_step) == 0 && measured_step != step)
        return false;
    *ret_metric = metric;
    return true;
}

static bool ends_in_word(const char *name, const char *word)
{
    size_t bytes = strlen(name), word_bytes = strlen(word);
    return bytes >= word_bytes && strcmp(name + bytes - word_bytes, word) == 0 &&
           (bytes == word_bytes || name[bytes - word_bytes - 1] == '_');
}

bool ckpt_guess_metric_mode(const char *name, enum ckpt_metric_mode *ret_mode)
{
    bool is_accuracy = ends_in_word(name, "accuracy");
    *ret_mode = is_accuracy ? CKPT_MODE_MAX : CKPT_MODE_MIN;
    return is_accuracy || ends_in_word(name, "loss");
}

/*
 * state — a run's state except tensors, stored as a JSON object in its checkpoints. See run.h;
 * docs/reference/checkpoints.md lists the keys.
 */
#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"
#include "trainer/run/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Lets a resume report which dataset of a mix differs. */
static void encode_mix(struct jsonx_writer *w, const struct loader *loader)
{
    const struct loader_dataset *list;
    uint32_t count = loader_datasets(loader, &list);
    if (count == 1)
        return;
    jsonx_begin_array(w, "mix");
    for (uint32_t i = 0; i < count; i++) {
        jsonx_begin_object(w, NULL);
        jsonx_write_hex64(w, "fingerprint", list[i].fingerprint);
        jsonx_write_u64(w, "weight", list[i].weight);
        jsonx_end_object(w);
    }
    jsonx_end_array(w);
}

static void encode_cursor(struct jsonx_writer *w, const struct cursor *cursor,
                          const struct loader *loader)
{
    jsonx_begin_object(w, "loader");
    jsonx_write_hex64(w, "fingerprint", cursor->fingerprint);
    jsonx_write_u64(w, "seed", cursor->seed);
    jsonx_write_u64(w, "epoch", cursor->epoch);
    jsonx_write_u64(w, "position", cursor->position);
    jsonx_write_hex64(w, "once", cursor->set_digest);
    jsonx_write_hex64(w, "order", cursor->sequence_digest);
    jsonx_write_string(w, "kind", order_kind_name(cursor->params.kind));
    jsonx_write_u64(w, "samples", cursor->params.samples);
    jsonx_write_u64(w, "lanes", cursor->params.lanes);
    jsonx_write_u64(w, "window", cursor->params.window);
    jsonx_write_u64(w, "run", cursor->params.run);
    jsonx_write_u64(w, "order_version", cursor->order_version);
    encode_mix(w, loader);
    jsonx_end_object(w);
}

static void encode_scaler(struct jsonx_writer *w, const struct scaler *scaler)
{
    if (!scaler->is_dynamic) {
        jsonx_write_null(w, "scaler");
        return;
    }
    jsonx_begin_object(w, "scaler");
    jsonx_write_f64(w, "scale", scaler->scale);
    jsonx_write_u64(w, "clean_steps_count", scaler->clean_steps_count);
    jsonx_write_u64(w, "overflows_count", scaler->overflows_count);
    jsonx_end_object(w);
}

static void encode_early_stop(struct jsonx_writer *w, const struct run *run)
{
    const struct early_stop *stop = &run->control.early_stop;
    if (!stop->has_best && stop->waited_count == 0) {
        jsonx_write_null(w, "early_stop");
        return;
    }
    jsonx_begin_object(w, "early_stop");
    jsonx_write_string(w, "metric", config_metric_name(run->config->early_stop.metric));
    /* NaN is written as null */
    jsonx_write_f64(w, "best", stop->has_best ? stop->best : (double)NAN);
    jsonx_write_u64(w, "best_step", stop->best_step);
    jsonx_write_u64(w, "waited_count", stop->waited_count);
    jsonx_end_object(w);
}

int run_encode_state(struct run *run, struct err *err)
{
    struct str *out = &run->saving.state_json;
    str_clear(out);
    struct cursor cursor;
    struct jsonx_writer w = {.out = out};
    int status = run_data_cursor(&run->data, &run->ranks, &cursor, err);
    if (status)
        return status;
    jsonx_begin_object(&w, NULL);
    encode_cursor(&w, &cursor, run->data.loader);
    data_schema_encode(&w, &run->data.reference_schema);
    jsonx_begin_object(&w, "optimizer");
    jsonx_write_string(&w, "type", optimizer_rule_name(run->update.optimizer.options.rule));
    jsonx_write_u64(&w, "updates_count", run->update.optimizer.updates);
    jsonx_end_object(&w);
    jsonx_begin_object(&w, "schedule");
    jsonx_write_u64(&w, "step", run->step);
    jsonx_write_f64(&w, "next_lr",
                    schedule_lr(&run->update.schedule, run->update.optimizer.updates));
    jsonx_end_object(&w);
    encode_scaler(&w, &run->update.scaler);
    encode_early_stop(&w, run);
    jsonx_begin_object(&w, "window");
    jsonx_write_u64(&w, "valid_count", run->queue.window.valid_count);
    jsonx_begin_array(&w, "losses");
    for (int i = 0; i < EXACT_SUM_WORDS; i++)
        jsonx_write_i64(&w, NULL, run->queue.window.losses.limb[i]);
    jsonx_end_array(&w);
    jsonx_end_object(&w);
    jsonx_begin_object(&w, "metrics");
    if (run->control.evaluation.is_present) {
        jsonx_write_u64(&w, "val_step", run->control.evaluation.step);
        jsonx_write_f64(&w, "val_loss", run->control.evaluation.loss);
        jsonx_write_f64(&w, "val_accuracy", run->control.evaluation.accuracy);
    }
    jsonx_end_object(&w);
    struct str config = {0};
    config_print_json(run->original_config, &config);
    jsonx_write_raw(&w, "config", str_text(&config), config.bytes);
    jsonx_end_object(&w);
    status = str_status(&config) ? str_status(&config) : str_status(out);
    str_deinit(&config);
    return status ? err_set(err, status, "out of memory for the run's state") : 0;
}

static int get_hex64(const struct json_t *object, const char *key, uint64_t *ret_value,
                     const char *path, struct err *err)
{
    const char *text;
    int status = jsonx_get_string(object, key, &text, path, err);
    if (status)
        return status;
    char *end;
    *ret_value = strtoull(text, &end, 16);
    if (strlen(text) == 16 && *end == '\0')
        return 0;
    err_set(err, -EBADMSG, "JSON key \"%s\" is not a number of 16 hexadecimal digits", key);
    err_at(err, path, ERR_NO_OFFSET);
    err_found(err, "%.64s", text);
    return -EBADMSG;
}

int run_decode_cursor(const struct json_t *state, const char *path, struct cursor *ret_cursor,
                      struct err *err)
{
    const struct json_t *object = jsonx_get(state, "loader");
    struct cursor c = {0};
    uint64_t epoch = 0, version = 0;
    const char *kind;
    int status = jsonx_get_string(object, "kind", &kind, path, err);
    if (!status)
        status = get_hex64(object, "fingerprint", &c.fingerprint, path, err);
    if (!status)
        status = get_hex64(object, "once", &c.set_digest, path, err);
    if (!status)
        status = get_hex64(object, "order", &c.sequence_digest, path, err);
    struct {
        const char *key;
        uint64_t *value;
    } numbers[] = {
        {"seed", &c.seed},
        {"epoch", &epoch},
        {"position", &c.position},
        {"lanes", &c.params.lanes},
        {"window", &c.params.window},
        {"run", &c.params.run},
        {"order_version", &version},
        {"samples", &c.params.samples},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !status; i++)
        status = jsonx_get_u64(object, numbers[i].key, numbers[i].value, path, err);
    if (status)
        return status;
    for (c.params.kind = ORDER_SHUFFLE; c.params.kind < ORDER_SEQUENTIAL; c.params.kind++)
        if (strcmp(kind, order_kind_name(c.params.kind)) == 0)
            break;
    c.params.seed = c.seed;
    c.epoch = (uint32_t)epoch;
    c.order_version = (uint32_t)version;
    *ret_cursor = c;
    return 0;
}

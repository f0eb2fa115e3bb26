/*
 * scaler — see scaler.h.
 */
#include "trainer/ops/scaler.h"

struct scaler scaler_begin_with(const struct scaler_options *options, uint64_t rows)
{
    struct scaler scaler = {
        .options = *options, .is_dynamic = true, .scale = options->initial, .rows = 1};
    while (scaler.rows < (double)rows)
        scaler.rows *= 2;
    return scaler;
}

struct scaler scaler_begin(bool is_dynamic, uint64_t rows)
{
    const struct scaler_options options = {SCALER_INITIAL, SCALER_MIN, SCALER_WINDOW_STEPS, 1};
    return is_dynamic ? scaler_begin_with(&options, rows) : (struct scaler){.scale = 1, .rows = 1};
}

bool scaler_is_valid(const struct scaler *scaler)
{
    double scale = SCALER_MIN;
    while (scale < scaler->scale && scale < SCALER_MAX)
        scale *= 2;
    return scaler->scale == scale;
}

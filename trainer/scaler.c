/*
 * scaler — see scaler.h.
 */
#include "trainer/scaler.h"

struct scaler scaler_begin(bool is_dynamic, uint64_t rows)
{
    struct scaler scaler = {.is_dynamic = is_dynamic, .scale = is_dynamic ? SCALER_FIRST : 1, .rows = 1};
    while (is_dynamic && scaler.rows < (double)rows)
        scaler.rows *= 2;
    return scaler;
}

double scaler_factor(const struct scaler *scaler)
{
    return scaler->scale / scaler->rows;
}

bool scaler_is_valid(const struct scaler *scaler)
{
    double scale = SCALER_LEAST;
    while (scale < scaler->scale && scale < SCALER_MOST)
        scale *= 2;
    return scaler->scale == scale;
}

bool scaler_update(struct scaler *scaler, bool is_finite)
{
    if (!scaler->is_dynamic)
        return is_finite;
    if (!is_finite && scaler->scale <= SCALER_LEAST)
        return false;
    scaler->clean_steps_count = is_finite ? scaler->clean_steps_count + 1 : 0;
    if (!is_finite) {
        scaler->scale /= 2;
    } else if (scaler->clean_steps_count >= SCALER_CLEAN_STEPS && scaler->scale < SCALER_MOST) {
        scaler->scale *= 2;
        scaler->clean_steps_count = 0;
    }
    return true;
}

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

bool scaler_is_valid(const struct scaler *scaler)
{
    double scale = SCALER_LEAST;
    while (scale < scaler->scale && scale < SCALER_MOST)
        scale *= 2;
    return scaler->scale == scale;
}

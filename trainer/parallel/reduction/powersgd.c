/*
 * powersgd — see powersgd.h.
 */
#include "trainer/parallel/reduction/powersgd.h"

#include "base/hash.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

#define LENGTH_EPSILON 1e-8 /* keeps a zero column zero */

uint64_t powersgd_compression_rank(const struct powersgd_options *options,
                                   const struct param *param)
{
    uint64_t rows = param->shape[0], cols = param->rank == 2 ? param->shape[1] : 1;
    uint64_t rank_max = rows < cols ? rows : cols,
             rank = options->rank < rank_max ? options->rank : rank_max;
    double compressed = (double)(rows + cols) * (double)rank * options->min_rate;
    return !param->frozen && param->rank == 2 && compressed < (double)rows * (double)cols ? rank
                                                                                          : 0;
}

void powersgd_init_q(const struct powersgd_options *options, const struct param *param,
                     uint64_t step, uint64_t rank, float *q)
{
    const uint64_t parts[4] = {options->seed, PHILOX_POWERSGD,
                               hash_64(param->name, strlen(param->name)), step};
    uint64_t key = hash_64(parts, sizeof parts), count = param->shape[1] * rank;
    for (uint64_t i = 0; i < count; i++) {
        struct philox_block random = philox(key, 0, i);
        double radius = sqrt(-2.0 * log(((double)random.word[0] + 1.0) * 0x1p-32));
        q[i] = (float)(radius * cos(2.0 * M_PI * ((double)random.word[1] * 0x1p-32)));
    }
}

static double dot(const float *a, const float *b, uint64_t rows, uint64_t stride)
{
    double sum = 0;
    for (uint64_t i = 0; i < rows; i++)
        sum += (double)a[i * stride] * (double)b[i * stride];
    return sum;
}

void powersgd_orthogonalize(float *matrix, uint64_t rows, uint64_t cols)
{
    for (uint64_t col = 0; col < cols; col++) {
        float *column = matrix + col;
        double norm = sqrt(dot(column, column, rows, cols)) + LENGTH_EPSILON;
        for (uint64_t i = 0; i < rows; i++)
            column[i * cols] = (float)(column[i * cols] / norm);
        for (uint64_t next = col + 1; next < cols; next++) {
            float *other = matrix + next;
            double projection = dot(column, other, rows, cols);
            for (uint64_t i = 0; i < rows; i++)
                other[i * cols] = (float)(other[i * cols] - projection * column[i * cols]);
        }
    }
}

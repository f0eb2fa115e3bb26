/*
 * synthetic_photos — see synthetic_photos.h.
 *
 * Noise whose amplitude grows with its scale has the spectrum of photos: at quality 90, both need
 * about the same number of bits per pixel.
 */
#include "convert/dataset/synthetic_photos.h"

#include "base/philox.h"
#include "base/str.h"
#include "image/jpeg/jpeg.h"
#include "image/jpeg/jpeg_tile.h"
#include "shards/format/shard.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUALITY = 90, CLASSES = 10, CELL_MAX = 128, CELL_RATIO = 4 };

/* color: -1.3 to 1.3 per channel; channels vary mostly together. */
static void choose_corner_color(uint64_t number, uint32_t cell, uint32_t x, uint32_t y,
                                float color[3])
{
    struct philox_block random = philox(number, cell, (uint64_t)y << 32 | x);
    float brightness = 2 * (float)philox_uniform(random.word[0]) - 1;
    for (int c = 0; c < 3; c++)
        color[c] = brightness + 0.3f * (2 * (float)philox_uniform(random.word[1 + c]) - 1);
}

/* Adds noise of one scale: random cell corners with linear interpolation. */
static void add_noise(float *rgb, uint64_t number, uint32_t cell, float strength)
{
    for (uint32_t top = 0; top < SYNTHETIC_HEIGHT; top += cell) {
        for (uint32_t left = 0; left < SYNTHETIC_WIDTH; left += cell) {
            float corners[4][3];
            for (uint32_t i = 0; i < 4; i++)
                choose_corner_color(number, cell, left / cell + i % 2, top / cell + i / 2,
                                    corners[i]);
            for (uint32_t y = 0; y < cell; y++) {
                float v = (float)y / (float)cell;
                float *pixel = rgb + 3 * ((size_t)(top + y) * SYNTHETIC_WIDTH + left);
                for (uint32_t x = 0; x < cell; x++) {
                    float u = (float)x / (float)cell;
                    for (int c = 0; c < 3; c++)
                        *pixel++ +=
                            strength * ((1 - v) * ((1 - u) * corners[0][c] + u * corners[1][c]) +
                                        v * ((1 - u) * corners[2][c] + u * corners[3][c]));
                }
            }
        }
    }
}
static_assert(SYNTHETIC_WIDTH % CELL_MAX == 0 && SYNTHETIC_HEIGHT % CELL_MAX == 0,
              "cells fill the image");

struct photo_buffers {
    float *noise;
    uint8_t *rgb;
    struct str jpeg;
};

static int render_photo(struct photo_buffers *buffers, uint64_t number, struct err *err)
{
    size_t values = (size_t)3 * SYNTHETIC_WIDTH * SYNTHETIC_HEIGHT;
    for (size_t i = 0; i < values; i++)
        buffers->noise[i] = 128;
    for (uint32_t cell = CELL_MAX; cell > 0; cell /= CELL_RATIO)
        add_noise(buffers->noise, number, cell, 6 * sqrtf((float)cell));
    for (size_t i = 0; i < values; i++)
        buffers->rgb[i] = (uint8_t)fminf(fmaxf(buffers->noise[i], 0), 255);
    str_clear(&buffers->jpeg);
    return jpeg_encode(buffers->rgb, SYNTHETIC_WIDTH, SYNTHETIC_HEIGHT, (size_t)3 * SYNTHETIC_WIDTH,
                       QUALITY, jpeg_tile_interval(SYNTHETIC_WIDTH, JPEG_TILE_MCU_PIXELS),
                       &buffers->jpeg, err);
}

static int add_photo(struct shard_writer *writer, const struct photo_buffers *buffers,
                     uint64_t number, struct err *err)
{
    char key[32], class[2] = {(char)('0' + number % CLASSES)};
    snprintf(key, sizeof key, "%08" PRIu64, number);
    int status = shard_writer_begin_sample(writer, key, err);
    if (!status)
        status = shard_writer_add_field(writer, "cls", class, 1, err);
    if (!status)
        status =
            shard_writer_add_field(writer, "jpg", buffers->jpeg.data, buffers->jpeg.bytes, err);
    return status;
}

int synthetic_photos_write(struct io *io, const char *path, uint64_t count, const atomic_int *stop,
                           struct err *err)
{
    size_t values = (size_t)3 * SYNTHETIC_WIDTH * SYNTHETIC_HEIGHT;
    struct photo_buffers buffers = {.noise = malloc(values * sizeof(float)), .rgb = malloc(values)};
    struct shard_writer *writer = NULL;
    struct shard_summary summary;
    int status =
        buffers.noise && buffers.rgb ? 0 : err_set(err, -ENOMEM, "out of memory for an image");
    if (!status)
        status = shard_writer_open(io, path, false, &writer, err);
    for (uint64_t i = 0; !status && i < count; i++) {
        status = stop && atomic_load(stop) ? err_set(err, -EINTR, "stopped on request") : 0;
        if (!status)
            status = render_photo(&buffers, i, err);
        if (!status)
            status = add_photo(writer, &buffers, i, err);
    }
    if (status)
        shard_writer_abort(writer);
    else
        status = shard_writer_commit(writer, &summary, err);
    free(buffers.noise);
    free(buffers.rgb);
    str_deinit(&buffers.jpeg);
    return status;
}

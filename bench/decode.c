/*
 * decode — measures the cost of cropping a photo by decoding it whole, with libjpeg-turbo's
 * cropping, or by cutting the crop out of the compressed bytes.
 *
 *     bench-decode [--reencode SIDE] [--rounds N] PHOTO.jpg...
 *
 * Each round runs every method in turn on the same photos and crops (torchvision's random resized
 * crop), on one thread. Prints the medians over the rounds, in images per CPU-second, and the
 * speedups over decoding the whole photo. With --reencode the photos are scaled to a longer side of
 * SIDE and encoded at quality 90 with restart intervals of 2 and 4; without it they are used
 * unchanged and after jpeg_tile.
 */
#include "base/clock.h"
#include "image/crop.h"
#include "image/jpeg/jpeg.h"
#include "image/jpeg/jpeg_tile.h"
#include "image/pipeline/pipeline.h"
#include "io/file_util.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

enum {
    TARGET = 224,
    QUALITY = 90,
    ROUNDS_DEFAULT = 5,
    ROUNDS_MAX = 99,
    FILE_BYTES_MAX = 64 << 20,
    FORMS_MAX = 3, /* of a photo: without restart markers, and with each restart interval */
};

struct photo {
    struct str form[FORMS_MAX];
    uint32_t width, height;
};

struct bench {
    struct photo *photos;
    size_t count;
    struct jpeg_decoder *decoder;
    struct image_pipeline *pipeline;
    struct crop_options crop;
    uint64_t round;
    uint8_t rgb[3 * TARGET * TARGET];
    uint64_t sum; /* over all samples, so that the compiler removes no work */
};

static void fail(const char *what, const struct err *err)
{
    char line[ERR_LINE_BYTES_MAX];
    fprintf(stderr, "bench-decode: %s: %s\n", what,
            err ? err_format(err, line, sizeof line) : "failed");
    exit(1);
}

static struct image_rect choose_crop(const struct bench *bench, size_t i)
{
    const struct photo *photo = &bench->photos[i];
    return crop_choose(&bench->crop, photo->width, photo->height, 1, 0, (uint32_t)bench->round, i)
        .rect;
}

/* ---- Methods. form: index of the photo's form. ---- */

static void decode_whole(struct bench *bench, size_t i, size_t form)
{
    struct err err;
    struct jpeg_planes planes;
    const struct str *file = &bench->photos[i].form[form];
    if (jpeg_decode(bench->decoder, file->data, file->bytes, NULL, &planes, &err))
        fail("decode", &err);
    bench->sum += planes.plane[0].data[0];
}

static void decode_part(struct bench *bench, size_t i, size_t form)
{
    struct err err;
    struct jpeg_info info;
    struct jpeg_planes planes;
    const struct str *file = &bench->photos[i].form[form];
    struct image_rect part = choose_crop(bench, i);
    if (jpeg_decode_begin(bench->decoder, file->data, file->bytes, NULL, &info, &err) ||
        jpeg_decode_part(bench->decoder, &part, &planes, &err))
        fail("decode a part", &err);
    bench->sum += planes.plane[0].data[0];
}

/* Uses jpeg_crop_scanline and jpeg_skip_scanlines. The output, YCbCr with repeated chroma, is the
 * cheapest that this interface offers. */
static void decode_turbo_crop(struct bench *bench, size_t i, size_t form)
{
    static JSAMPLE row[3 * JPEG_MAX_DIMENSION];
    JSAMPROW rows[1] = {row};
    struct jpeg_decompress_struct codec;
    struct jpeg_error_mgr errors; /* errors end the program; the files have been checked */
    const struct str *file = &bench->photos[i].form[form];
    struct image_rect part = choose_crop(bench, i);
    codec.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&codec);
    jpeg_mem_src(&codec, (const unsigned char *)file->data, file->bytes);
    jpeg_read_header(&codec, TRUE);
    codec.out_color_space = codec.jpeg_color_space;
    codec.do_fancy_upsampling = FALSE;
    codec.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&codec);
    JDIMENSION x = part.x, width = part.width;
    jpeg_crop_scanline(&codec, &x, &width);
    jpeg_skip_scanlines(&codec, part.y);
    for (uint32_t y = 0; y < part.height; y++)
        jpeg_read_scanlines(&codec, rows, 1);
    bench->sum += row[0];
    jpeg_destroy_decompress(&codec);
}

static void run_pipeline(struct bench *bench, size_t i, size_t form)
{
    struct err err;
    const struct str *file = &bench->photos[i].form[form];
    struct image_key key = {.seed = 1, .epoch = (uint32_t)bench->round, .sample = i};
    if (image_pipeline_run(bench->pipeline, file->data, file->bytes, NULL, key, bench->rgb,
                           3 * TARGET, &err))
        fail("pipeline", &err);
    bench->sum += bench->rgb[0];
}

struct method {
    const char *name;
    void (*run)(struct bench *bench, size_t i, size_t form);
    size_t form;
};

/* ---- Photos. ---- */

static struct str read_photo(struct io *io, const char *path)
{
    struct err err;
    struct str file = {0};
    char *data;
    size_t bytes;
    if (io_read_file(io, path, FILE_BYTES_MAX, &data, &bytes, &err))
        fail(path, &err);
    str_add(&file, data, bytes);
    free(data);
    return file;
}

static void load_unchanged(struct photo *photo, struct str file, const char *path)
{
    struct err err;
    struct jpeg_info info;
    bool tiled = false;
    photo->form[0] = file;
    if (jpeg_probe(file.data, file.bytes, path, &info, &err) ||
        jpeg_tile(file.data, file.bytes, path, &photo->form[1], &tiled, &err))
        fail(path, &err);
    if (!tiled)
        str_add(&photo->form[1], file.data, file.bytes);
    photo->width = info.width;
    photo->height = info.height;
}

static void load_reencoded(struct bench *bench, struct photo *photo, struct str file,
                           uint32_t side_max, const char *path)
{
    static const uint32_t intervals[FORMS_MAX] = {0, 2, 4};
    struct err err;
    const uint8_t *rgb;
    struct image_bounds bounds = {.side_max = side_max, .tile_aligned = true};
    if (image_pipeline_decode_whole(bench->pipeline, file.data, file.bytes, path, bounds, &rgb,
                                    &photo->width, &photo->height, &err))
        fail(path, &err);
    for (size_t form = 0; form < FORMS_MAX; form++)
        if (jpeg_encode(rgb, photo->width, photo->height, 3 * (size_t)photo->width, QUALITY,
                        intervals[form], &photo->form[form], &err))
            fail(path, &err);
    str_deinit(&file);
}

static uint64_t total_bytes(const struct bench *bench, size_t form)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < bench->count; i++)
        bytes += bench->photos[i].form[form].bytes;
    return bytes;
}

/* ---- Measuring. ---- */

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void measure(struct bench *bench, const struct method *methods, size_t methods_count,
                    uint32_t rounds)
{
    static double rates[16][ROUNDS_MAX], ratios[16][ROUNDS_MAX];
    for (uint32_t round = 0; round < rounds; round++) {
        for (size_t w = 0; w < methods_count; w++) {
            bench->round = round;
            double start = cpu_seconds();
            for (size_t i = 0; i < bench->count; i++)
                methods[w].run(bench, i, methods[w].form);
            rates[w][round] = (double)bench->count / (cpu_seconds() - start);
            ratios[w][round] = rates[w][round] / rates[0][round];
        }
    }
    for (size_t w = 0; w < methods_count; w++)
        printf("%-44s %8.0f %8.2f\n", methods[w].name, median(rates[w], rounds),
               median(ratios[w], rounds));
}

int main(int count, char **arguments)
{
    static const struct option long_options[] = {
        {"reencode", required_argument, NULL, 'r'}, {"rounds", required_argument, NULL, 'n'}, {0}};
    static const struct method unchanged_methods[] = {
        {"whole", decode_whole, 0},
        {"part: to the crop's last row", decode_part, 0},
        {"part: libjpeg-turbo's crop", decode_turbo_crop, 0},
        {"part: cut, as jpeg_tile divides", decode_part, 1},
        {"pipeline to 224, no markers", run_pipeline, 0},
        {"pipeline to 224, as jpeg_tile divides", run_pipeline, 1}};
    static const struct method reencoded_methods[] = {
        {"whole", decode_whole, 0},
        {"part: to the crop's last row", decode_part, 0},
        {"part: libjpeg-turbo's crop", decode_turbo_crop, 0},
        {"part: cut, every 2 MCUs", decode_part, 1},
        {"part: cut, every 4 MCUs", decode_part, 2},
        {"pipeline to 224, no markers", run_pipeline, 0},
        {"pipeline to 224, every 2 MCUs", run_pipeline, 1},
        {"pipeline to 224, every 4 MCUs", run_pipeline, 2}};
    struct bench *bench = calloc(1, sizeof *bench);
    struct err err;
    struct io *io;
    uint32_t side = 0, rounds = ROUNDS_DEFAULT;
    for (int option; (option = getopt_long(count, arguments, "", long_options, NULL)) != -1;) {
        if (option == 'r')
            side = (uint32_t)strtoul(optarg, NULL, 10);
        else if (option == 'n')
            rounds = (uint32_t)strtoul(optarg, NULL, 10);
        else
            return 2;
    }
    if (!bench || optind == count || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench-decode [--reencode SIDE] [--rounds N] PHOTO.jpg...\n");
        return 2;
    }
    bench->crop = crop_options_default(CROP_RANDOM);
    bench->count = (size_t)(count - optind);
    bench->photos = calloc(bench->count, sizeof *bench->photos);
    struct image_options options = {TARGET, TARGET, bench->crop};
    if (!bench->photos || io_open(arguments[optind], NULL, &io, &err) ||
        jpeg_decoder_open(&bench->decoder, &err) ||
        image_pipeline_open(&options, &bench->pipeline, &err))
        fail("start", &err);
    for (size_t i = 0; i < bench->count; i++) {
        const char *path = arguments[(size_t)optind + i];
        struct str file = read_photo(io, path);
        if (side > 0)
            load_reencoded(bench, &bench->photos[i], file, side, path);
        else
            load_unchanged(&bench->photos[i], file, path);
    }
    printf("%zu photos, %" PRIu64 " bytes each, %s, median of %" PRIu32 " rounds, 1 thread\n",
           bench->count, total_bytes(bench, 0) / bench->count, jpeg_library(), rounds);
    for (size_t form = 1; form < (side > 0 ? FORMS_MAX : FORMS_MAX - 1); form++)
        printf("bytes, %s: %+.2f %%\n",
               side == 0   ? "as jpeg_tile divides"
               : form == 1 ? "every 2 MCUs"
                           : "every 4 MCUs",
               100.0 * ((double)total_bytes(bench, form) / (double)total_bytes(bench, 0) - 1));
    printf("%-44s %8s %8s\n", "method", "images/s", "speedup");
    if (side > 0)
        measure(bench, reencoded_methods, sizeof reencoded_methods / sizeof reencoded_methods[0],
                rounds);
    else
        measure(bench, unchanged_methods, sizeof unchanged_methods / sizeof unchanged_methods[0],
                rounds);
    return 0;
}

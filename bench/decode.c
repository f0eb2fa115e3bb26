/*
 * decode — measures the cost of decoding and cropping a photo with jpeg_fast, with libjpeg-turbo,
 * and with libjpeg-turbo's own cropping; with and without restart markers.
 *
 *     bench-decode [--reencode SIDE] [--rounds N] PHOTO.jpg...
 *
 * Each round runs every method in turn on the same photos and crops (torchvision's random resized
 * crop), on one thread. Prints medians over the rounds: images per CPU-second, speedup over
 * decoding the whole photo with libjpeg, and nanoseconds per pixel of the photo. With --reencode,
 * photos are scaled to a longer side of SIDE and encoded at quality 90 with restart intervals of 2
 * and 4. Without it, they are used unchanged and after jpeg_tile.
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
    VARIANTS_MAX = 3, /* of a photo: without restart markers, then by restart interval */
    METHODS_MAX = 16,
};

enum decoder { LIBJPEG, FAST, DECODERS_COUNT };

struct photo {
    struct str variants[VARIANTS_MAX];
    uint32_t width, height;
};

struct bench {
    struct photo *photos;
    size_t count;
    struct jpeg_decoder *decoder[DECODERS_COUNT];
    struct image_pipeline *pipeline[DECODERS_COUNT];
    struct crop_options crop;
    uint64_t round;
    uint8_t rgb[3 * TARGET * TARGET];
    uint64_t sum; /* checksum, so that the compiler removes no work */
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

struct method {
    const char *name;
    void (*run)(struct bench *bench, size_t i, const struct method *method);
    enum decoder decoder;
    size_t variant; /* index into photo.variants */
};

/* ---- Methods. ---- */

static void decode_region(struct bench *bench, const struct method *method, size_t i,
                          struct image_rect region)
{
    struct err err;
    struct jpeg_info info;
    struct jpeg_planes planes;
    struct jpeg_decoder *decoder = bench->decoder[method->decoder];
    const struct str *file = &bench->photos[i].variants[method->variant];
    if (jpeg_decode_begin(decoder, file->data, file->bytes, NULL, &info, &err) ||
        jpeg_decode_part(decoder, &region, &planes, &err))
        fail("decode", &err);
    bench->sum += planes.plane[0].data[0];
}

static void decode_whole(struct bench *bench, size_t i, const struct method *method)
{
    const struct photo *photo = &bench->photos[i];
    decode_region(bench, method, i, (struct image_rect){0, 0, photo->width, photo->height});
}

static void decode_crop(struct bench *bench, size_t i, const struct method *method)
{
    decode_region(bench, method, i, choose_crop(bench, i));
}

/* Uses jpeg_crop_scanline and jpeg_skip_scanlines. YCbCr with repeated chroma is the cheapest
 * output that this interface offers. */
static void decode_crop_with_turbo(struct bench *bench, size_t i, const struct method *method)
{
    static JSAMPLE row[3 * JPEG_MAX_DIMENSION];
    JSAMPROW rows[1] = {row};
    struct jpeg_decompress_struct codec;
    struct jpeg_error_mgr errors; /* errors end the program; the files have been checked */
    const struct str *file = &bench->photos[i].variants[method->variant];
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

static void run_pipeline(struct bench *bench, size_t i, const struct method *method)
{
    struct err err;
    const struct str *file = &bench->photos[i].variants[method->variant];
    struct image_key key = {.seed = 1, .epoch = (uint32_t)bench->round, .sample = i};
    if (image_pipeline_run(bench->pipeline[method->decoder], file->data, file->bytes, NULL, key,
                           bench->rgb, 3 * TARGET, &err))
        fail("pipeline", &err);
    bench->sum += bench->rgb[0];
}

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
    photo->variants[0] = file;
    if (jpeg_probe(file.data, file.bytes, path, &info, &err) ||
        jpeg_tile(file.data, file.bytes, path, &photo->variants[1], &tiled, &err))
        fail(path, &err);
    if (!tiled)
        str_add(&photo->variants[1], file.data, file.bytes);
    photo->width = info.width;
    photo->height = info.height;
}

static void load_reencoded(struct bench *bench, struct photo *photo, struct str file,
                           uint32_t side_max, const char *path)
{
    static const uint32_t intervals[VARIANTS_MAX] = {0, 2, 4};
    struct err err;
    const uint8_t *rgb;
    struct image_bounds bounds = {.side_max = side_max, .tile_aligned = true};
    if (image_pipeline_decode_whole(bench->pipeline[LIBJPEG], file.data, file.bytes, path, bounds,
                                    &rgb, &photo->width, &photo->height, &err))
        fail(path, &err);
    for (size_t variant = 0; variant < VARIANTS_MAX; variant++)
        if (jpeg_encode(rgb, photo->width, photo->height, 3 * (size_t)photo->width, QUALITY,
                        intervals[variant], &photo->variants[variant], &err))
            fail(path, &err);
    str_deinit(&file);
}

static uint64_t total_bytes(const struct bench *bench, size_t variant)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < bench->count; i++)
        bytes += bench->photos[i].variants[variant].bytes;
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
    static double rates[METHODS_MAX][ROUNDS_MAX], ratios[METHODS_MAX][ROUNDS_MAX];
    for (uint32_t round = 0; round < rounds; round++) {
        for (size_t w = 0; w < methods_count; w++) {
            bench->round = round;
            double start = cpu_seconds();
            for (size_t i = 0; i < bench->count; i++)
                methods[w].run(bench, i, &methods[w]);
            rates[w][round] = (double)bench->count / (cpu_seconds() - start);
            ratios[w][round] = rates[w][round] / rates[0][round];
        }
    }
    double pixels = 0;
    for (size_t i = 0; i < bench->count; i++)
        pixels += (double)bench->photos[i].width * bench->photos[i].height;
    for (size_t w = 0; w < methods_count; w++) {
        double rate = median(rates[w], rounds);
        printf("%-44s %8.0f %8.2f %9.2f\n", methods[w].name, rate, median(ratios[w], rounds),
               1e9 * (double)bench->count / rate / pixels);
    }
}

int main(int count, char **arguments)
{
    static const struct option long_options[] = {
        {"reencode", required_argument, NULL, 'r'}, {"rounds", required_argument, NULL, 'n'}, {0}};
    static const struct method unchanged_methods[] = {
        {"whole, libjpeg", decode_whole, LIBJPEG, 0},
        {"whole, jpeg_fast", decode_whole, FAST, 0},
        {"whole, jpeg_tile's markers, libjpeg", decode_whole, LIBJPEG, 1},
        {"whole, jpeg_tile's markers, jpeg_fast", decode_whole, FAST, 1},
        {"crop, libjpeg-turbo's own cropping", decode_crop_with_turbo, LIBJPEG, 0},
        {"crop, libjpeg", decode_crop, LIBJPEG, 0},
        {"crop, jpeg_fast", decode_crop, FAST, 0},
        {"crop, jpeg_tile's markers, libjpeg", decode_crop, LIBJPEG, 1},
        {"crop, jpeg_tile's markers, jpeg_fast", decode_crop, FAST, 1},
        {"pipeline to 224, libjpeg", run_pipeline, LIBJPEG, 0},
        {"pipeline to 224, jpeg_fast", run_pipeline, FAST, 0},
        {"pipeline, jpeg_tile's markers, libjpeg", run_pipeline, LIBJPEG, 1},
        {"pipeline, jpeg_tile's markers, jpeg_fast", run_pipeline, FAST, 1}};
    static const struct method reencoded_methods[] = {
        {"whole, libjpeg", decode_whole, LIBJPEG, 0},
        {"whole, jpeg_fast", decode_whole, FAST, 0},
        {"whole, every 2 MCUs, libjpeg", decode_whole, LIBJPEG, 1},
        {"whole, every 2 MCUs, jpeg_fast", decode_whole, FAST, 1},
        {"whole, every 4 MCUs, jpeg_fast", decode_whole, FAST, 2},
        {"crop, libjpeg-turbo's own cropping", decode_crop_with_turbo, LIBJPEG, 0},
        {"crop, libjpeg", decode_crop, LIBJPEG, 0},
        {"crop, jpeg_fast", decode_crop, FAST, 0},
        {"crop, every 2 MCUs, libjpeg", decode_crop, LIBJPEG, 1},
        {"crop, every 2 MCUs, jpeg_fast", decode_crop, FAST, 1},
        {"crop, every 4 MCUs, jpeg_fast", decode_crop, FAST, 2},
        {"pipeline to 224, libjpeg", run_pipeline, LIBJPEG, 0},
        {"pipeline to 224, jpeg_fast", run_pipeline, FAST, 0},
        {"pipeline, every 2 MCUs, libjpeg", run_pipeline, LIBJPEG, 1},
        {"pipeline, every 2 MCUs, jpeg_fast", run_pipeline, FAST, 1},
        {"pipeline, every 4 MCUs, jpeg_fast", run_pipeline, FAST, 2}};
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
    if (!bench->photos || io_open(arguments[optind], NULL, &io, &err))
        fail("start", &err);
    for (enum decoder d = 0; d < DECODERS_COUNT; d++) {
        struct image_options options = {
            .width = TARGET, .height = TARGET, .crop = bench->crop, .libjpeg_only = d == LIBJPEG};
        if (jpeg_decoder_open(&bench->decoder[d], &err) ||
            image_pipeline_open(&options, &bench->pipeline[d], &err))
            fail("start", &err);
    }
    jpeg_decoder_use_libjpeg(bench->decoder[LIBJPEG]);
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
    for (size_t variant = 1; variant < (side > 0 ? VARIANTS_MAX : VARIANTS_MAX - 1); variant++)
        printf("bytes, %s: %+.2f %%\n",
               side == 0      ? "with jpeg_tile's markers"
               : variant == 1 ? "every 2 MCUs"
                              : "every 4 MCUs",
               100.0 * ((double)total_bytes(bench, variant) / (double)total_bytes(bench, 0) - 1));
    printf("%-44s %8s %8s %9s\n", "method", "images/s", "speedup", "ns/pixel");
    if (side > 0)
        measure(bench, reencoded_methods, sizeof reencoded_methods / sizeof reencoded_methods[0],
                rounds);
    else
        measure(bench, unchanged_methods, sizeof unchanged_methods / sizeof unchanged_methods[0],
                rounds);
    return 0;
}

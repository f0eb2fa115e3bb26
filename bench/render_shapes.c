/*
 * render_shapes — generates a small labeled set of JPEGs: shapes in random colors, positions and
 * sizes, with noise.
 *
 *     render-shapes [--count IMAGES_PER_CLASS] [--side PIXELS] [--seed N] OUT
 *
 * Writes OUT/CLASS/0000.jpg and so on, for demonstrations and tests without photos. Each picture is
 * a function of (seed, side, class, number).
 */
#include "base/philox.h"
#include "image/jpeg/jpeg.h"
#include "io/file_util.h"
#include "io/io.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE_MIN = 96, SIDE_SPREAD = 65, SIDE_MAX = 1024, QUALITY = 88, NOISE = 40 };
enum { COUNT_DEFAULT = 120, COUNT_MAX = 10000 };

struct request {
    uint64_t count; /* pictures per class */
    uint64_t side;  /* pixels; 0: random, from SIDE_MIN up */
    uint64_t seed;
};

/* A shape centered at the origin, with a radius of about 1. */
struct shape {
    const char *name;
    bool (*covers)(double u, double v);
};

static bool in_circle(double u, double v)
{
    return u * u + v * v < 0.81;
}

static bool in_cross(double u, double v)
{
    return (fabs(u) < 0.3 || fabs(v) < 0.3) && fabs(u) < 1 && fabs(v) < 1;
}

static bool in_moon(double u, double v)
{
    return u * u + v * v < 1 && (u - 0.5) * (u - 0.5) + v * v > 0.64;
}

static bool in_ring(double u, double v)
{
    double r = u * u + v * v;
    return r < 1 && r > 0.4;
}

static bool in_square(double u, double v)
{
    return fabs(u) < 0.8 && fabs(v) < 0.8;
}

static bool in_stripes(double u, double v)
{
    return fabs(u) < 0.9 && fabs(v) < 0.9 && ((int)floor((u + 1) * 4) & 1);
}

static bool in_triangle(double u, double v)
{
    return v < 0.7 && v > 1.9 * fabs(u) - 0.9;
}

static const struct shape shapes[] = {
    {"circle", in_circle}, {"cross", in_cross},     {"moon", in_moon},         {"ring", in_ring},
    {"square", in_square}, {"stripes", in_stripes}, {"triangle", in_triangle},
};

struct picture {
    uint32_t side;
    uint8_t paper[3], ink[3];
    double x, y, scale, cosine, sine; /* center and size in pixels, rotation */
};

static struct picture choose_picture(const struct request *request, uint64_t class, uint64_t number)
{
    struct philox_block a = philox(request->seed, class, number * 2);
    struct philox_block b = philox(request->seed, class, number * 2 + 1);
    struct picture p = {.side = request->side ? (uint32_t)request->side
                                              : SIDE_MIN + a.word[0] % SIDE_SPREAD};
    for (int i = 0; i < 3; i++) {
        p.paper[i] = (uint8_t)(a.word[1] >> 8 * i);
        p.ink[i] = (uint8_t)(a.word[2] >> 8 * i);
    }
    /* green dominates brightness, so its contrast keeps the shape visible */
    if (abs(p.paper[1] - p.ink[1]) < 80)
        p.ink[1] = (uint8_t)(p.paper[1] < 128 ? p.paper[1] + 100 : p.paper[1] - 100);
    p.scale = p.side * (0.2 + 0.2 * philox_uniform(a.word[3]));
    double range = p.side - 2 * p.scale, angle = 6.283185307179586 * philox_uniform(b.word[2]);
    p.x = p.scale + range * philox_uniform(b.word[0]);
    p.y = p.scale + range * philox_uniform(b.word[1]);
    p.cosine = cos(angle);
    p.sine = sin(angle);
    return p;
}

static void draw(const struct picture *p, const struct shape *shape, uint64_t seed, uint64_t number,
                 uint8_t *rgb)
{
    for (uint32_t y = 0; y < p->side; y++)
        for (uint32_t x = 0; x < p->side; x++) {
            double dx = (x - p->x) / p->scale, dy = (y - p->y) / p->scale;
            const uint8_t *color =
                shape->covers(dx * p->cosine + dy * p->sine, dy * p->cosine - dx * p->sine)
                    ? p->ink
                    : p->paper;
            struct philox_block noise = philox(seed, number << 8 | 0xff, (uint64_t)y << 32 | x);
            for (int i = 0; i < 3; i++) {
                int value = color[i] + (int)(noise.word[i] % NOISE) - NOISE / 2;
                *rgb++ = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
        }
}

static int write_picture(struct io *io, const char *folder, size_t class,
                         const struct request *request, uint64_t number, uint8_t *rgb,
                         struct str *jpeg, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct picture picture = choose_picture(request, class, number);
    draw(&picture, &shapes[class], request->seed, number, rgb);
    str_clear(jpeg);
    int status = jpeg_encode(rgb, picture.side, picture.side, (size_t)picture.side * 3, QUALITY, 0,
                             jpeg, err);
    int used =
        snprintf(path, sizeof path, "%s/%s/%04" PRIu64 ".jpg", folder, shapes[class].name, number);
    if (!status && (used < 0 || (size_t)used >= sizeof path))
        status = err_set(err, -ENAMETOOLONG, "the folder's path is too long");
    if (!status)
        status = io_write_file(io, path, jpeg->data, jpeg->bytes, true, err);
    return status;
}

static int render(struct io *io, const char *folder, const struct request *request, struct err *err)
{
    struct str jpeg = {0};
    uint8_t *rgb = malloc((size_t)SIDE_MAX * SIDE_MAX * 3);
    int status = rgb ? 0 : err_set(err, -ENOMEM, "out of memory for a picture");
    for (size_t class = 0; class < sizeof shapes / sizeof shapes[0] && !status; class ++) {
        char path[IO_PATH_BYTES_MAX];
        status = io_join_path(folder, shapes[class].name, path, err);
        if (!status)
            status = io->names->make_folder(io, path, err);
        for (uint64_t number = 0; number < request->count && !status; number++)
            status = write_picture(io, folder, class, request, number, rgb, &jpeg, err);
    }
    str_deinit(&jpeg);
    free(rgb);
    return status;
}

/* Parses a number from 0 to max. Returns false if text is invalid. */
static bool parse_number(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return !errno && end != text && !*end && text[0] != '-' && *ret <= max;
}

static bool parse_request(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        {"count", required_argument, NULL, 'c'},
        {"side", required_argument, NULL, 's'},
        {"seed", required_argument, NULL, 'k'},
        {0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        bool is_valid = option == 'c'   ? parse_number(optarg, COUNT_MAX, &request->count)
                        : option == 's' ? parse_number(optarg, SIDE_MAX, &request->side)
                        : option == 'k' ? parse_number(optarg, UINT64_MAX, &request->seed)
                                        : false;
        if (!is_valid)
            return false;
    }
    return optind + 1 == argc && (request->side == 0 || request->side >= 8);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct io *io = NULL;
    struct request request = {.count = COUNT_DEFAULT};
    if (!parse_request(argc, argv, &request)) {
        fputs("usage: render-shapes [--count IMAGES_PER_CLASS] [--side PIXELS] [--seed N] OUT\n",
              stderr);
        return 2;
    }
    const char *folder = argv[optind];
    int status = io_open(folder, NULL, &io, &err);
    if (!status)
        status = render(io, folder, &request, &err);
    io_close(io);
    if (status) {
        char line[ERR_LINE_BYTES_MAX];
        fprintf(stderr, "render-shapes: %s\n", err_format(&err, line, sizeof line));
        return 1;
    }
    size_t classes = sizeof shapes / sizeof shapes[0];
    printf("%" PRIu64 " pictures of %zu classes in %s\n", request.count * classes, classes, folder);
    return 0;
}

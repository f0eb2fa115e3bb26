/*
 * augment_warp — operations that move pixels (augment_ops.h). Masks and boxes follow them
 * (geometry.h).
 *
 * As in Pillow's transform(AFFINE, NEAREST), pixel (x, y) comes from (a x' + b y' + c, d x' + e
 * y' + f) with x' = x + 1/2, y' = y + 1/2, in 16 fractional bits; pixels from outside are black.
 * The coefficients are sums and products of doubles, some from a table. IEEE 754 defines the
 * rounding of each, and -ffp-contract=off (cmake/folder.cmake) prevents fused multiply-adds,
 * which could round to another multiple of 2^-16.
 */
#include "image/kernels/augment_ops.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

void augment_copy_to_scratch(const struct augment_image *image)
{
    size_t row_bytes = 3 * (size_t)image->width;
    for (uint32_t y = 0; y < image->height; y++)
        memcpy(image->scratch + y * row_bytes, image->rgb + y * image->stride_bytes, row_bytes);
}

static int64_t to_fixed(double value)
{
    return (int64_t)floor(value * (1 << WARP_FRACTION_BITS) + 0.5);
}

struct warp warp_from_affine(const struct affine *affine)
{
    return (struct warp){.a = to_fixed(affine->a),
                         .b = to_fixed(affine->b),
                         .c = to_fixed(affine->c + affine->a * 0.5 + affine->b * 0.5),
                         .d = to_fixed(affine->d),
                         .e = to_fixed(affine->e),
                         .f = to_fixed(affine->f + affine->d * 0.5 + affine->e * 0.5)};
}

void augment_warp(const struct augment_image *image, const struct warp *warp)
{
    int64_t row_x = warp->c, row_y = warp->f;
    augment_copy_to_scratch(image);
    for (uint32_t y = 0; y < image->height; y++, row_x += warp->b, row_y += warp->e) {
        uint8_t *target = image->rgb + y * image->stride_bytes;
        int64_t at_x = row_x, at_y = row_y;
        for (uint32_t x = 0; x < image->width; x++, target += 3, at_x += warp->a, at_y += warp->d) {
            int64_t from_x = at_x >> WARP_FRACTION_BITS, from_y = at_y >> WARP_FRACTION_BITS;
            bool inside =
                from_x >= 0 && from_x < image->width && from_y >= 0 && from_y < image->height;
            if (inside)
                memcpy(target, image->scratch + 3 * (size_t)(from_y * image->width + from_x), 3);
            else
                memset(target, 0, 3);
        }
    }
}

/* Cosine and sine of whole degrees. */
static const double cosine_sine[RANDAUGMENT_MAGNITUDE_MAX + 1][2] = {
    {1.000000000000000, 0.000000000000000}, {0.999847695156391, 0.017452406437284},
    {0.999390827019096, 0.034899496702501}, {0.998629534754574, 0.052335956242944},
    {0.997564050259824, 0.069756473744125}, {0.996194698091746, 0.087155742747658},
    {0.994521895368273, 0.104528463267653}, {0.992546151641322, 0.121869343405147},
    {0.990268068741570, 0.139173100960065}, {0.987688340595138, 0.156434465040231},
    {0.984807753012208, 0.173648177666930}, {0.981627183447664, 0.190808995376545},
    {0.978147600733806, 0.207911690817759}, {0.974370064785235, 0.224951054343865},
    {0.970295726275996, 0.241921895599668}, {0.965925826289068, 0.258819045102521},
    {0.961261695938319, 0.275637355816999}, {0.956304755963035, 0.292371704722737},
    {0.951056516295154, 0.309016994374947}, {0.945518575599317, 0.325568154457157},
    {0.939692620785908, 0.342020143325669}, {0.933580426497202, 0.358367949545300},
    {0.927183854566787, 0.374606593415912}, {0.920504853452440, 0.390731128489274},
    {0.913545457642601, 0.406736643075800}, {0.906307787036650, 0.422618261740699},
    {0.898794046299167, 0.438371146789077}, {0.891006524188368, 0.453990499739547},
    {0.882947592858927, 0.469471562785891}, {0.874619707139396, 0.484809620246337},
    {0.866025403784439, 0.500000000000000},
};

static struct affine rotation(uint32_t width, uint32_t height, int32_t degrees)
{
    int32_t angle = degrees < 0 ? -degrees : degrees;
    assert(angle <= RANDAUGMENT_MAGNITUDE_MAX);
    double cosine = cosine_sine[angle][0],
           sine = degrees < 0 ? cosine_sine[angle][1] : -cosine_sine[angle][1];
    double center_x = width / 2.0, center_y = height / 2.0;
    struct affine affine = {.a = cosine, .b = sine, .d = -sine, .e = cosine};
    affine.c = affine.a * -center_x + affine.b * -center_y + center_x;
    affine.f = affine.d * -center_x + affine.e * -center_y + center_y;
    return affine;
}

bool augment_find_affine(struct augment_step step, uint32_t width, uint32_t height,
                         struct affine *ret_affine)
{
    struct affine affine = {.a = 1, .e = 1};
    switch (step.op) {
    case AUGMENT_SHEAR_X:
        affine.b = step.value / 100.0;
        break;
    case AUGMENT_SHEAR_Y:
        affine.d = step.value / 100.0;
        break;
    case AUGMENT_TRANSLATE_X:
        affine.c = -step.value;
        break;
    case AUGMENT_TRANSLATE_Y:
        affine.f = -step.value;
        break;
    case AUGMENT_ROTATE:
        affine = rotation(width, height, step.value);
        break;
    default:
        return false;
    }
    *ret_affine = affine;
    return true;
}

/*
 * ppm — see ppm.h.
 */
#include "image/formats/ppm.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { VALUE_MAX = 255, MAGIC_BYTES = 2, DIGITS_LIMIT = 1 << 24 };

static bool is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Skips white space and comments, then reads a decimal number. False if there is none.
 * Advances *at in either case. */
static bool read_number(const uint8_t *data, size_t bytes, size_t *at, uint32_t *ret_number)
{
    size_t i = *at;
    for (; i < bytes && (is_space(data[i]) || data[i] == '#'); i++)
        if (data[i] == '#')
            while (i + 1 < bytes && data[i + 1] != '\n')
                i++;
    size_t begin = i;
    uint32_t number = 0;
    for (; i < bytes && data[i] >= '0' && data[i] <= '9' && number < DIGITS_LIMIT; i++)
        number = 10 * number + (data[i] - '0');
    *at = i;
    *ret_number = number;
    return i > begin;
}

static int header_error(const char *path, size_t at, bool is_long, struct err *err)
{
    pixels_error("PPM", path, (int64_t)at,
                 is_long ? "its header is too long" : "its header is invalid", err);
    if (is_long)
        err_expected(err, "at most %d bytes, comments included", PPM_HEADER_READ_BYTES_MAX);
    return -EBADMSG;
}

int ppm_begin(struct ppm *ppm, const void *data, size_t bytes, const char *path,
              struct pixels_info *ret_info, struct err *err)
{
    const uint8_t *text = data;
    size_t at = MAGIC_BYTES;
    size_t head = bytes_min(bytes, PPM_HEADER_READ_BYTES_MAX);
    uint32_t width, height, value_max;
    if (head < MAGIC_BYTES || text[0] != 'P' || text[1] != '6' ||
        !read_number(text, head, &at, &width) || !read_number(text, head, &at, &height) ||
        !read_number(text, head, &at, &value_max) || at == head || !is_space(text[at]))
        return header_error(path, bytes_min(at, bytes), at == head && head < bytes, err);
    if (value_max != VALUE_MAX)
        return pixels_error("PPM", path, (int64_t)at, "its samples do not have 8 bits", err);
    int status = pixels_check_size("PPM", path, width, height, err);
    if (status)
        return status;
    at++; /* one white-space character */
    if (bytes - at < 3 * (uint64_t)width * height)
        return pixels_error("PPM", path, (int64_t)bytes, "the file ends too early", err);
    *ppm =
        (struct ppm){.data = data, .header_bytes = (uint32_t)at, .width = width, .height = height};
    *ret_info =
        (struct pixels_info){.width = width, .height = height, .channels = 3, .orientation = 1};
    return 0;
}

struct pixels ppm_pixels(const struct ppm *ppm)
{
    return (struct pixels){.data = ppm->data + ppm->header_bytes,
                           .stride_bytes = 3 * (size_t)ppm->width,
                           .region = {0, 0, ppm->width, ppm->height},
                           .channels = 3};
}

size_t ppm_write_header(char header[PPM_HEADER_BYTES_MAX], uint32_t width, uint32_t height)
{
    return (size_t)snprintf(header, PPM_HEADER_BYTES_MAX, "P6\n%" PRIu32 " %" PRIu32 "\n%d\n",
                            width, height, VALUE_MAX);
}

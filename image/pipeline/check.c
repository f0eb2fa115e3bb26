/*
 * check — see check.h.
 */
#include "image/pipeline/check.h"

#include "image/jpeg/jpeg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct image_checker {
    struct jpeg_decoder *jpeg;
    struct pixels_decoder *pixels;
};

int image_check(struct image_checker *checker, const void *data, size_t bytes, const char *path,
                struct err *err)
{
    enum image_kind kind = image_kind_of(data, bytes);
    if (kind == IMAGE_JPEG) {
        struct jpeg_planes planes;
        return jpeg_decode(checker->jpeg, data, bytes, path, &planes, err);
    }
    struct pixels_info info;
    struct pixels pixels;
    int status = pixels_begin(checker->pixels, kind, data, bytes, path, &info, err);
    return status ? status : pixels_decode_region(checker->pixels, NULL, &pixels, err);
}

int image_check_headers(struct image_checker *checker, const void *data, size_t bytes,
                        const char *path, struct pixels_info *ret_info, struct err *err)
{
    enum image_kind kind = image_kind_of(data, bytes);
    struct jpeg_info jpeg;
    if (kind != IMAGE_JPEG)
        return pixels_begin(checker->pixels, kind, data, bytes, path, ret_info, err);
    int status = jpeg_probe(data, bytes, path, &jpeg, err);
    if (!status)
        *ret_info = (struct pixels_info){.width = jpeg.width,
                                         .height = jpeg.height,
                                         .channels = jpeg.components == 1 ? 1 : 3,
                                         .orientation = jpeg.orientation};
    return status;
}

const char *const image_extensions[] = {"jpg", "jpeg", "png", "webp", "ppm", NULL};

bool is_image_extension(const char *extension)
{
    const char *dot = strrchr(extension, '.');
    const char *last = dot ? dot + 1 : extension;
    for (size_t i = 0; image_extensions[i]; i++)
        if (strcmp(last, image_extensions[i]) == 0)
            return true;
    return false;
}

int image_checker_open(struct image_checker **ret_checker, struct err *err)
{
    struct image_checker *checker = calloc(1, sizeof *checker);
    if (!checker)
        return err_set(err, -ENOMEM, "out of memory for an image checker");
    int status = jpeg_decoder_open(&checker->jpeg, err);
    if (!status)
        status = pixels_decoder_open(&checker->pixels, err);
    if (status)
        image_checker_close(checker);
    else
        *ret_checker = checker;
    return status;
}

void image_checker_close(struct image_checker *checker)
{
    if (!checker)
        return;
    jpeg_decoder_close(checker->jpeg);
    pixels_decoder_close(checker->pixels);
    free(checker);
}

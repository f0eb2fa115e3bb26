/*
 * flat — see flat.h.
 */
#include "ckpt/load/flat.h"

#include "base/bytes.h"
#include "ckpt/format/box.h"
#include "ckpt/format/cast.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum dtype flat_dtype(const struct flat_cast *cast, enum dtype saved)
{
    return cast && cast->is_wanted && cast_is_real(saved) ? cast->dtype : saved;
}

int flat_init(struct flat *flat, struct ckpt_reader *reader,
              const struct manifest_tensor *const *tensors, uint64_t tensors_count,
              const struct flat_cast *cast, struct err *err)
{
    *flat = (struct flat){.reader = reader, .tensors = tensors, .tensors_count = tensors_count};
    if (cast)
        flat->cast = *cast;
    flat->wanted = calloc(FLAT_BOXES_MAX, sizeof *flat->wanted);
    return flat->wanted ? 0 : err_set(err, -ENOMEM, "out of memory to stream tensors");
}

void flat_deinit(struct flat *flat)
{
    free(flat->wanted);
    flat->wanted = NULL;
}

void flat_seek(struct flat *flat, uint64_t index, uint64_t element)
{
    flat->index = index;
    flat->done_elements = element;
}

static uint64_t volume(const struct manifest_tensor *tensor)
{
    uint64_t elements = 0;
    int status = box_shape_volume(tensor->shape, tensor->rank, &elements);
    assert(!status); /* checked by manifest_check_tensors */
    (void)status;
    return elements;
}

/* As flat_read, but loads at most FLAT_BOXES_MAX boxes. */
static int read_boxes(struct flat *flat, void *buffer, size_t bytes_max, size_t *ret_bytes,
                      struct err *err)
{
    uint64_t count = 0;
    size_t used = 0;
    while (flat->index < flat->tensors_count && count < FLAT_BOXES_MAX) {
        const struct manifest_tensor *tensor = flat->tensors[flat->index];
        enum dtype dtype = flat_dtype(&flat->cast, tensor->dtype);
        uint64_t elements = volume(tensor), room = (bytes_max - used) / dtype_bytes(dtype);
        if (flat->done_elements == elements) {
            flat->index++;
            flat->done_elements = 0;
            continue;
        }
        uint64_t end = flat->done_elements + bytes_min(elements - flat->done_elements, room), taken;
        if (end == flat->done_elements)
            break;
        struct box box =
            box_of_range(tensor->shape, tensor->rank, flat->done_elements, end, &taken);
        struct ckpt_tensor *wanted = &flat->wanted[count++];
        *wanted = (struct ckpt_tensor){.name = tensor->name,
                                       .dtype = dtype,
                                       .rank = tensor->rank,
                                       .cast = dtype != tensor->dtype,
                                       .data = (char *)buffer + used};
        memcpy(wanted->shape, tensor->shape, sizeof wanted->shape);
        memcpy(wanted->start, box.start, sizeof wanted->start);
        memcpy(wanted->extent, box.extent, sizeof wanted->extent);
        used += taken * dtype_bytes(dtype);
        flat->done_elements += taken;
    }
    int status = ckpt_reader_load(flat->reader, flat->wanted, count, NULL, err);
    if (!status)
        *ret_bytes = used;
    return status;
}

int flat_read(struct flat *flat, void *buffer, size_t bytes_max, size_t *ret_bytes, struct err *err)
{
    size_t used = 0, bytes = 0;
    do {
        int status = read_boxes(flat, (char *)buffer + used, bytes_max - used, &bytes, err);
        if (status)
            return status;
        used += bytes;
    } while (bytes > 0);
    *ret_bytes = used;
    return 0;
}

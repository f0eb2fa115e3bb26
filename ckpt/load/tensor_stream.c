#include "ckpt/load/tensor_stream.h"

#include "base/bytes.h"
#include "ckpt/format/box.h"
#include "ckpt/format/cast.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum dtype tensor_stream_dtype(const struct tensor_cast *cast, enum dtype saved)
{
    return cast && cast->is_wanted && cast_is_float(saved) ? cast->dtype : saved;
}

int tensor_stream_init(struct tensor_stream *tensor_stream, struct ckpt_reader *reader,
                       const struct manifest_tensor *const *tensors, uint64_t tensors_count,
                       const struct tensor_cast *cast, struct err *err)
{
    *tensor_stream = (struct tensor_stream){
        .reader = reader, .tensors = tensors, .tensors_count = tensors_count};
    if (cast)
        tensor_stream->cast = *cast;
    tensor_stream->wanted = calloc(TENSOR_STREAM_BOXES_MAX, sizeof *tensor_stream->wanted);
    return tensor_stream->wanted ? 0 : err_set(err, -ENOMEM, "not enough memory to stream tensors");
}

void tensor_stream_deinit(struct tensor_stream *tensor_stream)
{
    free(tensor_stream->wanted);
    tensor_stream->wanted = NULL;
}

void tensor_stream_seek(struct tensor_stream *tensor_stream, uint64_t index, uint64_t element)
{
    tensor_stream->index = index;
    tensor_stream->done_elements = element;
}

/* Like tensor_stream_read, but loads at most TENSOR_STREAM_BOXES_MAX boxes. */
static int read_boxes(struct tensor_stream *tensor_stream, void *buffer, size_t bytes_max,
                      size_t *ret_bytes, struct err *err)
{
    uint64_t count = 0;
    size_t used = 0;
    while (tensor_stream->index < tensor_stream->tensors_count && count < TENSOR_STREAM_BOXES_MAX) {
        const struct manifest_tensor *tensor = tensor_stream->tensors[tensor_stream->index];
        enum dtype dtype = tensor_stream_dtype(&tensor_stream->cast, tensor->dtype);
        uint64_t elements = manifest_tensor_elements(tensor),
                 free_elements = (bytes_max - used) / dtype_bytes(dtype);
        if (tensor_stream->done_elements == elements) {
            tensor_stream->index++;
            tensor_stream->done_elements = 0;
            continue;
        }
        uint64_t end = tensor_stream->done_elements +
                       bytes_min(elements - tensor_stream->done_elements, free_elements),
                 taken;
        if (end == tensor_stream->done_elements)
            break;
        struct box box =
            box_from_range(tensor->shape, tensor->rank, tensor_stream->done_elements, end, &taken);
        struct ckpt_tensor *wanted = &tensor_stream->wanted[count++];
        *wanted = (struct ckpt_tensor){.name = tensor->name,
                                       .dtype = dtype,
                                       .rank = tensor->rank,
                                       .cast = dtype != tensor->dtype,
                                       .data = (char *)buffer + used};
        memcpy(wanted->shape, tensor->shape, sizeof wanted->shape);
        memcpy(wanted->start, box.start, sizeof wanted->start);
        memcpy(wanted->extent, box.extent, sizeof wanted->extent);
        used += taken * dtype_bytes(dtype);
        tensor_stream->done_elements += taken;
    }
    int status = ckpt_reader_load(tensor_stream->reader, tensor_stream->wanted, count, NULL, err);
    if (!status)
        *ret_bytes = used;
    return status;
}

int tensor_stream_read(struct tensor_stream *tensor_stream, void *buffer, size_t bytes_max,
                       size_t *ret_bytes, struct err *err)
{
    size_t used = 0, bytes = 0;
    do {
        int status =
            read_boxes(tensor_stream, (char *)buffer + used, bytes_max - used, &bytes, err);
        if (status)
            return status;
        used += bytes;
    } while (bytes > 0);
    *ret_bytes = used;
    return 0;
}

/*
 * item — decodes a sample into the batch.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

bool item_failure_is_fatal(int status)
{
    return status != -EBADMSG && status != -ENODATA && status != -ENOTSUP;
}

static int bad_token(const struct shard *shard, uint64_t offset, uint32_t token,
                     uint32_t vocabulary, struct err *err)
{
    err_set(err, -EBADMSG, "a token is not in the vocabulary");
    err_at(err, shard->path, (int64_t)offset);
    err_expected(err, "below %" PRIu32, vocabulary);
    err_found(err, "%" PRIu32, token);
    return -EBADMSG;
}

static int decode_tokens(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                         const struct shard *shard, struct sample_ref ref,
                         const struct view_piece *piece, struct err *err)
{
    const struct batch_field *field = &slot->batch.fields[0];
    const uint8_t *data = view_data(piece);
    uint64_t count = field->shape[1], width = piece->want_bytes / count;
    uint32_t vocabulary = loader_source_of(worker->loader, ref)->dataset->text.vocabulary;
    uint32_t limit = vocabulary && vocabulary <= INT32_MAX ? vocabulary : (uint32_t)INT32_MAX;
    int32_t *tokens = (int32_t *)((uint8_t *)field->data + item * field->stride_bytes[0]);
    uint32_t largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t token = width == 2 ? bytes_get_u16(data + 2 * i) : bytes_get_u32(data + 4 * i);
        largest = token > largest ? token : largest;
        tokens[i] = (int32_t)token;
    }
    if (largest < limit)
        return 0;
    uint64_t i = 0;
    while ((uint32_t)tokens[i] < limit)
        i++;
    return bad_token(shard, piece->want_offset + i * width, (uint32_t)tokens[i], limit, err);
}

static void set_byte_fields(const struct loader *loader, struct load_slot *slot, uint32_t item,
                            const struct view_piece *pieces, uint32_t count)
{
    struct batch_bytes *bytes = &slot->bytes[(size_t)item * loader->pieces_max];
    for (uint32_t i = 0; i < count; i++)
        bytes[i] = (struct batch_bytes){.extension = pieces[i].extension,
                                        .data = view_data(&pieces[i]),
                                        .bytes = pieces[i].want_bytes};
    slot->items[item].fields = bytes;
    slot->items[item].fields_count = count;
}

static int verify_pieces(const struct loader *loader, const struct shard *shard,
                         const struct view_piece *pieces, uint32_t count, struct err *err)
{
    int status = 0;
    for (uint32_t i = 0; !status && loader->options.verify && i < count; i++)
        status = view_verify(&pieces[i], shard, err);
    return status;
}

int item_decode_bytes(const struct loader *loader, struct load_slot *slot, uint32_t item,
                      const struct shard *shard, const struct view_piece *pieces, uint32_t count,
                      struct err *err)
{
    int status = verify_pieces(loader, shard, pieces, count, err);
    if (!status)
        set_byte_fields(loader, slot, item, pieces, count);
    return status;
}

/* pieces: of options.fields. */
static int decode_fields(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                         const struct shard *shard, struct sample_ref ref,
                         const struct view_piece *pieces, struct err *err)
{
    const struct loader_options *options = &worker->loader->options;
    int status = 0;
    for (uint32_t f = 0; !status && f < options->fields_count; f++)
        if (field_has_geometry(&options->fields[f])) /* before what follows it */
            status = image_decode_field(worker, slot, item, f, shard, ref, &pieces[f], err);
    for (uint32_t f = 0; !status && f < options->fields_count; f++) {
        const struct loader_field *field = &options->fields[f];
        if (field_has_geometry(field) || field_follows_boxes(field))
            continue;
        status = field->decode == LOADER_FIELD_IMAGE
                     ? image_decode_field(worker, slot, item, f, shard, ref, &pieces[f], err)
                     : field_decode(worker, slot, item, f, shard, pieces, err);
    }
    return status;
}

int item_decode(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                const struct shard *shard, struct sample_ref ref, const struct view_piece *pieces,
                uint32_t count, struct err *err)
{
    const struct loader *loader = worker->loader;
    if (loader->options.decode == LOADER_BYTES)
        return item_decode_bytes(loader, slot, item, shard, pieces, count, err);
    int status = verify_pieces(loader, shard, pieces, count, err);
    if (status)
        return status;
    uint32_t fields = loader->options.fields_count;
    count -= fields;
    if (loader->options.decode == LOADER_IMAGE)
        status = image_decode(worker, slot, item, shard, ref, pieces, count, err);
    if (loader->options.decode == LOADER_TOKENS)
        status = decode_tokens(worker, slot, item, shard, ref, &pieces[0], err);
    if (!status)
        status = decode_fields(worker, slot, item, shard, ref, &pieces[count], err);
    jsonx_free(worker->document);
    worker->document = NULL;
    return status;
}

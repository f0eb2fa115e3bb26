/*
 * field — options.fields: checks them, and decodes stored fields to ragged ones.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/utf8.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options. ---- */

static bool is_taken(const struct loader_options *options, uint32_t number)
{
    static const char *const others[] = {"image", "label", "partner_label", "label_weight",
                                         "valid"};
    const char *name = options->fields[number].name;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(name, others[i]) == 0)
            return options->decode == LOADER_IMAGE || strcmp(name, "valid") == 0;
    for (uint32_t i = 0; i < number; i++)
        if (strcmp(name, options->fields[i].name) == 0)
            return true;
    return false;
}

static int check_array(const struct loader_field *field, struct err *err)
{
    if (field->decode != LOADER_FIELD_ARRAY ||
        (field->rank <= DTYPE_RANK_MAX && npy_has_dtype(field->dtype)))
        return 0;
    err_set(err, -EINVAL, "field \"%.80s\" cannot be an array of that type", field->name);
    err_expected(err, "a type that NumPy has, of at most %d dimensions", DTYPE_RANK_MAX);
    err_found(err, "%s, %" PRIu32 " dimensions", dtype_name(field->dtype), field->rank);
    err_advise(err, "set dtype and rank to those of the stored arrays");
    return -EINVAL;
}

int fields_check(const struct loader_options *options, struct err *err)
{
    bool has_more = options->decode == LOADER_IMAGE || options->decode == LOADER_RECORD;
    if (options->fields_count == 0 && options->decode != LOADER_RECORD)
        return 0;
    if (options->fields_count == 0 || !has_more) {
        err_set(err, -EINVAL,
                has_more ? "a record has no fields"
                         : "only images and records can have more fields");
        err_advise(err, "set decode to LOADER_RECORD or LOADER_IMAGE, and list the fields");
        return -EINVAL;
    }
    if (options->fields_count > LOADER_FIELDS_MAX) {
        err_set(err, -EINVAL, "too many fields");
        err_expected(err, "at most %d", LOADER_FIELDS_MAX);
        err_found(err, "%" PRIu32, options->fields_count);
        err_advise(err, "request fewer fields");
        return -EINVAL;
    }
    int status = 0;
    for (uint32_t i = 0; !status && i < options->fields_count; i++) {
        const struct loader_field *field = &options->fields[i];
        if (!field->name || !field->name[0] || !field->from || !field->from[0]) {
            err_set(err, -EINVAL, "field %" PRIu32 " has no name or no extensions", i);
            err_advise(err, "set its name and from");
            return -EINVAL;
        }
        if (is_taken(options, i)) {
            err_set(err, -EINVAL, "two fields have the name \"%.80s\"", field->name);
            err_advise(err, "give each field a unique name");
            return -EINVAL;
        }
        status = check_array(field, err);
    }
    return status;
}

static char *copy_string(char **at, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = memcpy(*at, text, bytes);
    *at += bytes;
    return copy;
}

int fields_copy(const struct loader_options *options, const struct loader_field **ret_fields,
                void **ret_memory)
{
    uint32_t count = options->fields_count;
    size_t bytes = count * sizeof(struct loader_field);
    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(options->fields[i].name) + strlen(options->fields[i].from) + 2;
    *ret_fields = NULL;
    if (count == 0)
        return 0;
    struct loader_field *fields = *ret_memory = malloc(bytes);
    if (!fields)
        return -ENOMEM;
    char *text = (char *)(fields + count);
    for (uint32_t i = 0; i < count; i++) {
        fields[i] = options->fields[i];
        fields[i].name = copy_string(&text, options->fields[i].name);
        fields[i].from = copy_string(&text, options->fields[i].from);
    }
    *ret_fields = fields;
    return 0;
}

/* ---- Decoding. ---- */

static int check_utf8(const struct shard *shard, const struct view_piece *piece, struct err *err)
{
    const uint8_t *text = view_data(piece);
    for (uint64_t at = 0, bytes; at < piece->want_bytes; at += bytes) {
        bytes = utf8_sequence_bytes(text + at, piece->want_bytes - at);
        if (bytes > 0)
            continue;
        err_set(err, -EBADMSG, "field \"%s\" is not UTF-8", piece->extension);
        err_at(err, shard->path, (int64_t)(piece->want_offset + at));
        err_expected(err, "UTF-8");
        err_found(err, "byte 0x%02x", text[at]);
        return -EBADMSG;
    }
    return 0;
}

static int wrong_array(const struct loader_field *field, const struct shard *shard,
                       const struct view_piece *piece, const struct npy *npy, struct err *err)
{
    err_set(err, -EBADMSG, "the array in field \"%s\" has another type", piece->extension);
    err_at(err, shard->path, (int64_t)piece->want_offset);
    err_expected(err, "%s, %" PRIu32 " dimensions", dtype_name(field->dtype), field->rank);
    err_found(err, "%s, %" PRIu32 " dimensions", dtype_name(npy->dtype), npy->rank);
    return -EBADMSG;
}

static int decode_array(const struct loader_field *field, const struct shard *shard,
                        const struct view_piece *piece, struct npy *ret_npy, struct err *err)
{
    int status = npy_decode_array(view_data(piece), piece->want_bytes, piece->want_bytes,
                                  shard->path, ret_npy, err);
    if (status) {
        err->offset = (int64_t)piece->want_offset + (err->offset > 0 ? err->offset : 0);
        return status;
    }
    return ret_npy->dtype == field->dtype && ret_npy->rank == field->rank
               ? 0
               : wrong_array(field, shard, piece, ret_npy, err);
}

int field_decode(struct loader *loader, struct load_slot *slot, uint32_t item, uint32_t field,
                 const struct shard *shard, const struct view_piece *piece, struct err *err)
{
    const struct loader_field *type = &loader->options.fields[field];
    struct npy npy = {.shape = {piece->want_bytes}};
    int status = 0;
    switch (type->decode) {
    case LOADER_FIELD_STR:
        status = check_utf8(shard, piece, err);
        break;
    case LOADER_FIELD_ARRAY:
        status = decode_array(type, shard, piece, &npy, err);
        break;
    case LOADER_FIELD_BYTES:
        break;
    }
    if (status)
        return status;
    return ragged_store(loader, slot, item, field, view_data(piece) + npy.header_bytes,
                        piece->want_bytes - npy.header_bytes, npy.shape, err);
}

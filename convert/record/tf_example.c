/*
 * tf_example — see tf_example.h.
 */
#include "convert/record/tf_example.h"

#include "base/bytes.h"

#include <errno.h>

/* Wire types (protobuf.dev/programming-guides/encoding). */
enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct message {
    const uint8_t *at, *end;
};

struct field {
    uint64_t number;
    unsigned wire_type;
    uint64_t integer;     /* WIRE_VARINT */
    struct message value; /* WIRE_BYTES and WIRE_FIXED32 */
};

struct decoder {
    const uint8_t *start;
    uint64_t offset;
    struct record *record;
    struct err *err;
};

static int reject(const struct decoder *decoder, const uint8_t *at, const char *expected)
{
    record_reject(decoder->record, decoder->offset + (uint64_t)(at - decoder->start),
                  "a record is not a valid tf.train.Example", expected, decoder->err);
    err_advise(decoder->err, "records with other messages must be exported to tf.train.Example, "
                             "JSON Lines or tars first");
    return -EBADMSG;
}

static bool read_varint(struct message *message, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && message->at < message->end; shift += 7) {
        uint8_t byte = *message->at++;
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (byte < 0x80) {
            *ret_value = value;
            return shift < 63 || byte < 2; /* 64 bits */
        }
    }
    return false;
}

static bool take(struct message *message, uint64_t bytes, struct message *ret_part)
{
    if (bytes > (size_t)(message->end - message->at))
        return false;
    *ret_part = (struct message){message->at, message->at + bytes};
    message->at += bytes;
    return true;
}

static bool read_field(struct message *message, struct field *ret_field)
{
    uint64_t tag, bytes = 4;
    if (!read_varint(message, &tag))
        return false;
    *ret_field = (struct field){.number = tag >> 3, .wire_type = tag & 7};
    if (ret_field->wire_type == WIRE_VARINT)
        return read_varint(message, &ret_field->integer);
    if (ret_field->wire_type == WIRE_BYTES && !read_varint(message, &bytes))
        return false;
    if (ret_field->wire_type != WIRE_BYTES && ret_field->wire_type != WIRE_FIXED32)
        return false;
    return take(message, bytes, &ret_field->value);
}

static int decode_integers(const struct decoder *decoder, struct message *packed,
                           struct record_value *value)
{
    enum { BATCH = 256 };
    uint64_t numbers[BATCH];
    size_t count = 0;
    int status = 0;
    while (packed->at < packed->end && !status) {
        if (!read_varint(packed, &numbers[count]))
            return reject(decoder, packed->at, "an int64");
        if (++count == BATCH || packed->at == packed->end) {
            status = record_add_numbers(decoder->record, value, numbers, count, decoder->err);
            count = 0;
        }
    }
    return status;
}

static int decode_floats(const struct decoder *decoder, const struct message *packed,
                         struct record_value *value)
{
    size_t bytes = (size_t)(packed->end - packed->at);
    if (bytes % sizeof(float) != 0)
        return reject(decoder, packed->at, "floats of 4 bytes");
    return record_add_numbers(decoder->record, value, packed->at, bytes / sizeof(float),
                              decoder->err);
}

static int decode_element(const struct decoder *decoder, const struct field *field,
                          const uint8_t *at, struct record_value *value)
{
    struct message packed = field->value;
    if (field->number == 1 && field->wire_type == WIRE_BYTES) {
        if (value->kind == RECORD_STRINGS)
            return record_add_string(decoder->record, value, packed.at,
                                     (size_t)(packed.end - packed.at), decoder->err);
        return value->dtype == DTYPE_F32 ? decode_floats(decoder, &packed, value)
                                         : decode_integers(decoder, &packed, value);
    }
    if (field->number == 1 && value->kind == RECORD_NUMBERS &&
        field->wire_type == (value->dtype == DTYPE_F32 ? WIRE_FIXED32 : WIRE_VARINT))
        return value->dtype == DTYPE_F32
                   ? decode_floats(decoder, &packed, value)
                   : record_add_numbers(decoder->record, value, &field->integer, 1, decoder->err);
    return reject(decoder, at, "a value of the list's type");
}

/* A feature without a list has no value. */
static int decode_feature(const struct decoder *decoder, const struct message *name,
                          struct message feature)
{
    enum { BYTES_LIST = 1, FLOAT_LIST = 2, INT64_LIST = 3 };
    struct record_value *value = NULL;
    struct field list, element;
    int status = 0;
    while (feature.at < feature.end && !status) {
        const uint8_t *at = feature.at;
        if (value || !read_field(&feature, &list) || list.wire_type != WIRE_BYTES ||
            list.number < BYTES_LIST || list.number > INT64_LIST)
            return reject(decoder, at, "one list of bytes, floats or int64");
        status = record_add(decoder->record, name->at, (size_t)(name->end - name->at),
                            list.number == BYTES_LIST ? RECORD_STRINGS : RECORD_NUMBERS, &value,
                            decoder->err);
        if (status)
            return status;
        value->is_list = true;
        value->dtype = list.number == FLOAT_LIST ? DTYPE_F32 : DTYPE_I64;
        value->rank = 1;
        while (list.value.at < list.value.end && !status) {
            at = list.value.at;
            status = read_field(&list.value, &element)
                         ? decode_element(decoder, &element, at, value)
                         : reject(decoder, at, "a value of a list");
        }
        value->shape[0] = (int64_t)value->count;
    }
    return status;
}

static int decode_entry(const struct decoder *decoder, struct message entry)
{
    struct message parts[2] = {{entry.at, entry.at}, {entry.at, entry.at}};
    struct field field;
    while (entry.at < entry.end) {
        const uint8_t *at = entry.at;
        if (!read_field(&entry, &field) || field.wire_type != WIRE_BYTES || field.number < 1 ||
            field.number > 2)
            return reject(decoder, at, "a feature's name and value");
        parts[field.number - 1] = field.value;
    }
    return decode_feature(decoder, &parts[0], parts[1]);
}

static int reject_sequence(const struct decoder *decoder)
{
    err_set(decoder->err, -ENOTSUP, "a record is a tf.train.SequenceExample");
    err_at(decoder->err, decoder->record->path, (int64_t)decoder->record->offset);
    err_expected(decoder->err, "tf.train.Example");
    err_advise(decoder->err, "write each sample as a tf.train.Example, a tar member or a line of "
                             "JSON first");
    return -ENOTSUP;
}

int tf_example_decode(const uint8_t *data, size_t bytes, uint64_t offset, struct record *record,
                      struct err *err)
{
    const struct decoder decoder = {data, offset, record, err};
    struct message example = {data, data + bytes};
    struct field features, entry;
    int status = 0;
    while (example.at < example.end && !status) {
        const uint8_t *at = example.at;
        if (!read_field(&example, &features) || features.wire_type != WIRE_BYTES ||
            features.number < 1 || features.number > 2)
            return reject(&decoder, at, "features");
        if (features.number == 2)
            return reject_sequence(&decoder);
        while (features.value.at < features.value.end && !status) {
            at = features.value.at;
            status = read_field(&features.value, &entry) && entry.number == 1 &&
                             entry.wire_type == WIRE_BYTES
                         ? decode_entry(&decoder, entry.value)
                         : reject(&decoder, at, "a feature");
        }
    }
    return status;
}

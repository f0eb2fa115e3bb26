/*
 * npy_header — see npy_header.h. Source: numpy.lib.format, "Format Version 1.0" to "3.0".
 *
 *     0  magic "\x93NUMPY"
 *     6  u8 major
 *     7  u8 minor
 *     8  u16 (1.0) or u32 (2.0, 3.0) header length, little-endian
 *
 * A Python dict literal follows, with keys 'descr', 'fortran_order' and 'shape', padded with
 * spaces and ended by a newline.
 *
 * A descr is a string, such as '<f4', or a list of tuples (name, descr) or (name, descr, shape),
 * such as '[('x', '<f4'), ('y', '<i2', (3,))]'.
 */
#include "shards/format/npy_header.h"

#include "base/bytes.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { MAGIC_BYTES = sizeof NPY_MAGIC - 1, DESCR_DEPTH_MAX = 16 };

struct parser {
    const char *start, *at, *end;
    const char *path;
    struct err *err;
};

static int syntax_error_at(const struct parser *parser, const char *at, int code,
                           const char *expected)
{
    err_set(parser->err, code, "header of an .npy file is invalid");
    err_at(parser->err, parser->path, at - parser->start);
    err_expected(parser->err, "%s", expected);
    return code;
}

static int syntax_error(const struct parser *parser, const char *expected)
{
    return syntax_error_at(parser, parser->at, -EBADMSG, expected);
}

static void skip_spaces(struct parser *parser)
{
    while (parser->at < parser->end && (*parser->at == ' ' || *parser->at == '\n'))
        parser->at++;
}

static bool consume(struct parser *parser, char c)
{
    skip_spaces(parser);
    if (parser->at == parser->end || *parser->at != c)
        return false;
    parser->at++;
    return true;
}

static bool is_next(struct parser *parser, char c)
{
    skip_spaces(parser);
    return parser->at < parser->end && *parser->at == c;
}

static bool consume_word(struct parser *parser, const char *word)
{
    size_t bytes = strlen(word);
    skip_spaces(parser);
    if ((size_t)(parser->end - parser->at) < bytes || memcmp(parser->at, word, bytes) != 0)
        return false;
    parser->at += bytes;
    return true;
}

/* Returns the text between the quotes; escapes are not decoded. */
static int parse_string(struct parser *parser, const char **ret_text, size_t *ret_bytes)
{
    skip_spaces(parser);
    if (!is_next(parser, '\'') && !is_next(parser, '"'))
        return syntax_error(parser, "a string");
    char quote = *parser->at;
    const char *at = parser->at + 1;
    while (at < parser->end && *at != quote)
        at += *at == '\\' && at + 1 < parser->end ? 2 : 1;
    if (at >= parser->end)
        return syntax_error(parser, "a terminated string");
    *ret_text = parser->at + 1;
    *ret_bytes = (size_t)(at - *ret_text);
    parser->at = at + 1;
    return 0;
}

static int parse_number(struct parser *parser, uint64_t *ret_number)
{
    uint64_t number = 0;
    skip_spaces(parser);
    if (parser->at == parser->end || !isdigit((unsigned char)*parser->at))
        return syntax_error(parser, "a number");
    for (; parser->at < parser->end && isdigit((unsigned char)*parser->at); parser->at++) {
        uint64_t digit = (uint64_t)(*parser->at - '0');
        if (number > (INT64_MAX - digit) / 10)
            return syntax_error(parser, "a number below 2^63");
        number = number * 10 + digit;
    }
    *ret_number = number;
    return 0;
}

/* Examples: (), (3,), (3, 4). */
static int parse_shape(struct parser *parser, uint64_t *shape, uint32_t *ret_rank)
{
    uint32_t rank = 0;
    bool comma = true; /* a comma precedes the next number */
    if (!consume(parser, '('))
        return syntax_error(parser, "a tuple of numbers");
    while (!is_next(parser, ')')) {
        if (rank == NPY_RANK_MAX)
            return syntax_error(parser, "at most 64 dimensions");
        if (!comma)
            return syntax_error(parser, "a comma");
        int status = parse_number(parser, &shape[rank]);
        if (status)
            return status;
        rank++;
        consume_word(parser, "L"); /* suffix of a Python 2 long */
        comma = consume(parser, ',');
    }
    if (rank == 1 && !comma)
        return syntax_error(parser, "a comma: a number in parentheses is not a tuple");
    consume(parser, ')');
    *ret_rank = rank;
    return 0;
}

static int multiply(const struct parser *parser, uint64_t a, uint64_t b, uint64_t *ret_product)
{
    if (__builtin_mul_overflow(a, b, ret_product) || *ret_product > INT64_MAX)
        return syntax_error(parser, "a size below 2^63");
    return 0;
}

static int multiply_shape(const struct parser *parser, uint64_t first, const uint64_t *shape,
                          uint32_t rank, uint64_t *ret_product)
{
    uint64_t product = first;
    int status = 0;
    for (uint32_t d = 0; d < rank && !status; d++)
        status = multiply(parser, product, shape[d], &product);
    if (!status)
        *ret_product = product;
    return status;
}

/* "<f4", "|S10", "<M8[ns]": byte order, kind, size. */
static int measure_type(struct parser *parser, const char *text, size_t bytes, uint64_t *ret_bytes)
{
    struct parser type = {parser->start, text, text + bytes, parser->path, parser->err};
    uint64_t size = 0;
    if (type.at < type.end && memchr("<>|=", *type.at, 4))
        type.at++;
    char kind = type.at < type.end ? *type.at : '\0';
    if (kind == 'O') {
        err_set(parser->err, -ENOTSUP, "an .npy file contains Python objects");
        err_at(parser->err, parser->path, text - parser->start);
        err_expected(parser->err, "numbers, times or text");
        err_found(parser->err, "a pickle, which can run code when it is loaded");
        err_advise(parser->err,
                   "load it in Python if you trust it, and save it with a numeric dtype");
        return -ENOTSUP;
    }
    if (kind == '\0' || !strchr("biufcmMSUV", kind))
        return syntax_error_at(parser, text, -EBADMSG, "a dtype such as '<f4'");
    type.at++;
    int status = parse_number(&type, &size);
    if (status)
        return status;
    bool has_unit = (kind == 'm' || kind == 'M') && type.at < type.end && *type.at == '[' &&
                    type.end[-1] == ']';
    bool is_number = strchr("SUV", kind) == NULL;
    if ((type.at != type.end && !has_unit) || (is_number && (size == 0 || size > 32)))
        return syntax_error_at(parser, text, -EBADMSG, "a dtype such as '<f4'");
    return multiply(parser, size, kind == 'U' ? 4 : 1, ret_bytes);
}

static int measure_descr(struct parser *parser, int depth, uint64_t *ret_bytes);

/* (name, descr) or (name, descr, shape); a name may be a tuple of title and name. */
static int measure_field(struct parser *parser, int depth, uint64_t *ret_bytes)
{
    const char *name;
    size_t name_bytes;
    uint64_t shape[NPY_RANK_MAX], bytes = 0;
    uint32_t rank = 0;
    if (!consume(parser, '('))
        return syntax_error(parser, "a tuple of name and dtype");
    bool has_title = consume(parser, '(');
    int status = parse_string(parser, &name, &name_bytes);
    if (!status && has_title)
        status = consume(parser, ',') ? parse_string(parser, &name, &name_bytes)
                                      : syntax_error(parser, "title and name");
    if (!status && has_title && !consume(parser, ')'))
        status = syntax_error(parser, "the end of title and name");
    if (!status && !consume(parser, ','))
        status = syntax_error(parser, "a dtype after the name");
    if (!status)
        status = measure_descr(parser, depth, &bytes);
    if (!status && consume(parser, ',') && !is_next(parser, ')'))
        status = parse_shape(parser, shape, &rank);
    if (!status && !consume(parser, ')'))
        status = syntax_error(parser, "the end of the tuple");
    return status ? status : multiply_shape(parser, bytes, shape, rank, ret_bytes);
}

static int measure_descr(struct parser *parser, int depth, uint64_t *ret_bytes)
{
    const char *text;
    size_t text_bytes;
    uint64_t total = 0, bytes = 0;
    int status = 0;
    if (depth == DESCR_DEPTH_MAX)
        return syntax_error(parser, "at most 16 nested dtypes");
    if (!consume(parser, '[')) {
        status = parse_string(parser, &text, &text_bytes);
        return status ? status : measure_type(parser, text, text_bytes, ret_bytes);
    }
    while (!status && !is_next(parser, ']')) {
        status = measure_field(parser, depth + 1, &bytes);
        if (!status && (bytes > INT64_MAX - total))
            status = syntax_error(parser, "a size below 2^63");
        total += bytes;
        if (!status && !consume(parser, ',') && !is_next(parser, ']'))
            status = syntax_error(parser, "a comma or ]");
    }
    consume(parser, ']');
    if (!status)
        *ret_bytes = total;
    return status;
}

static int parse_descr(struct parser *parser, struct npy_header *header)
{
    skip_spaces(parser);
    const char *from = parser->at;
    int status = measure_descr(parser, 0, &header->element_bytes);
    if (status)
        return status;
    header->is_structured = *from == '[';
    header->dtype = header->is_structured ? from : from + 1;
    header->dtype_bytes = (size_t)(parser->at - header->dtype) - !header->is_structured;
    return 0;
}

static int parse_order(struct parser *parser, struct npy_header *header)
{
    header->is_fortran = consume_word(parser, "True");
    return header->is_fortran || consume_word(parser, "False")
               ? 0
               : syntax_error(parser, "True or False");
}

/* Parses `key: value`; *seen has a bit per key. */
static int parse_entry(struct parser *parser, struct npy_header *header, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    const char *key, *from = parser->at;
    size_t key_bytes;
    unsigned number = 0;
    int status = parse_string(parser, &key, &key_bytes);
    if (status)
        return status;
    while (number < 3 &&
           (strlen(keys[number]) != key_bytes || memcmp(keys[number], key, key_bytes) != 0))
        number++;
    if (number == 3 || *seen >> number & 1)
        return syntax_error_at(parser, from, -EBADMSG,
                               "the keys 'descr', 'fortran_order' and 'shape', each once");
    *seen |= 1U << number;
    if (!consume(parser, ':'))
        return syntax_error(parser, "a colon");
    return number == 0   ? parse_descr(parser, header)
           : number == 1 ? parse_order(parser, header)
                         : parse_shape(parser, header->shape, &header->rank);
}

static int parse_dict(struct parser *parser, struct npy_header *header)
{
    unsigned seen = 0;
    int status = consume(parser, '{') ? 0 : syntax_error(parser, "a Python dict");
    while (!status && !is_next(parser, '}')) {
        status = parse_entry(parser, header, &seen);
        if (!status && !consume(parser, ',') && !is_next(parser, '}'))
            status = syntax_error(parser, "a comma or }");
    }
    if (status)
        return status;
    if (seen != 7)
        return syntax_error(parser, "'descr', 'fortran_order' and 'shape'");
    consume(parser, '}');
    skip_spaces(parser);
    if (parser->at != parser->end)
        return syntax_error(parser, "only spaces after the dict");
    status = multiply_shape(parser, 1, header->shape, header->rank, &header->elements_count);
    return status ? status
                  : multiply(parser, header->elements_count, header->element_bytes,
                             &header->data_bytes);
}

int npy_read_header(const uint8_t *bytes, size_t count_bytes, const char *path,
                    struct npy_header *ret_header, struct err *err)
{
    const char *text = (const char *)bytes;
    struct parser parser = {
        .start = text, .at = text, .end = text + count_bytes, .path = path, .err = err};
    if (count_bytes < 12 || memcmp(bytes, NPY_MAGIC, MAGIC_BYTES) != 0)
        return syntax_error(&parser, "\\x93NUMPY and a header");
    struct npy_header header = {.major = bytes[6], .minor = bytes[7]};
    if (header.major < 1 || header.major > 3)
        return syntax_error_at(&parser, text + 6, -ENOTSUP, "version 1, 2 or 3");
    uint32_t at = header.major == 1 ? 10 : 12;
    uint32_t dict_bytes = header.major == 1 ? bytes_get_u16(bytes + 8) : bytes_get_u32(bytes + 8);
    if (dict_bytes > NPY_HEADER_BYTES_MAX - 12 || dict_bytes > count_bytes - at) {
        syntax_error_at(&parser, text + 8, -EBADMSG,
                        "a header of at most 65535 bytes, within the file");
        err_found(err, "%u bytes", dict_bytes);
        return -EBADMSG;
    }
    parser.at = text + at;
    parser.end = parser.at + dict_bytes;
    header.header_bytes = at + dict_bytes;
    int status = parse_dict(&parser, &header);
    if (!status)
        *ret_header = header;
    return status;
}

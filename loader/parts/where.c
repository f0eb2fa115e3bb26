/*
 * where — see where.h. A recursive parser writes the terms in postfix order; an evaluation keeps
 * the operands in the bits of a word.
 */
#include "loader/parts/where.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum operation {
    LESS,
    LESS_OR_EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    EQUAL,
    NOT_EQUAL,
    AND,
    OR,
    NOT,
};

struct term {
    enum operation operation;
    uint32_t field; /* of a comparison, with number */
    double number;
};

struct where {
    struct str terms; /* struct term */
    uint32_t fields_count;
    char fields[SHARD_NUMBERS_MAX][SHARD_NUMBER_NAME_BYTES_MAX];
};

struct parser {
    const char *text, *at;
    char *const *classes;
    uint64_t classes_count;
    struct where *where;
    int nesting;
    struct err *err;
};

/* ---- Parsing. ---- */

static int fail(const struct parser *parser, const char *at, const char *expected)
{
    err_set(parser->err, -EINVAL, "the condition is wrong at column %zu",
            (size_t)(at - parser->text) + 1);
    err_at(parser->err, parser->text, ERR_NO_OFFSET);
    err_expected(parser->err, "%s", expected);
    if (*at)
        err_found(parser->err, "\"%.40s\"", at);
    else
        err_found(parser->err, "the end");
    err_advise(parser->err, "for example: score >= 0.5 && (width >= 256 || class(\"dog\"))");
    return -EINVAL;
}

static void skip_spaces(struct parser *parser)
{
    parser->at += strspn(parser->at, " \t\r\n");
}

/* Skips spaces, and the token if it comes next. */
static bool take(struct parser *parser, const char *token)
{
    skip_spaces(parser);
    size_t bytes = strlen(token);
    if (strncmp(parser->at, token, bytes) != 0)
        return false;
    parser->at += bytes;
    return true;
}

static int add_term(const struct parser *parser, struct term term)
{
    struct str *terms = &parser->where->terms;
    str_add(terms, &term, sizeof term);
    return str_status(terms) ? err_set(parser->err, -ENOMEM, "out of memory for a condition") : 0;
}

static size_t name_bytes(const char *at)
{
    if (*at >= '0' && *at <= '9')
        return 0;
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

static int find_or_add_field(const struct parser *parser, const char *name, size_t bytes,
                             uint32_t *ret_field)
{
    struct where *where = parser->where;
    uint32_t i = 0;
    if (bytes >= sizeof where->fields[0])
        return fail(parser, name, "the name of an index field");
    while (i < where->fields_count &&
           (strncmp(where->fields[i], name, bytes) != 0 || where->fields[i][bytes]))
        i++;
    if (i == SHARD_NUMBERS_MAX)
        return fail(parser, name, "fewer different index fields");
    if (i == where->fields_count)
        memcpy(where->fields[where->fields_count++], name, bytes);
    *ret_field = i;
    return 0;
}

/* class("NAME"), after the parenthesis. */
static int parse_class(struct parser *parser)
{
    skip_spaces(parser);
    const char *quote = parser->at, *end = *quote == '"' ? strchr(quote + 1, '"') : NULL;
    struct term term = {.operation = EQUAL};
    uint64_t number = 0;
    if (!end)
        return fail(parser, quote, "a class name in double quotes");
    size_t bytes = (size_t)(end - quote) - 1;
    while (
        number < parser->classes_count &&
        (strncmp(parser->classes[number], quote + 1, bytes) != 0 || parser->classes[number][bytes]))
        number++;
    if (number == parser->classes_count)
        return fail(parser, quote,
                    parser->classes_count > 0 ? "the name of a class of the dataset"
                                              : "label == NUMBER: the dataset has no class names");
    parser->at = end + 1;
    if (!take(parser, ")"))
        return fail(parser, parser->at, ")");
    term.number = (double)number;
    int status = find_or_add_field(parser, WHERE_LABEL, strlen(WHERE_LABEL), &term.field);
    return status ? status : add_term(parser, term);
}

static int parse_number(struct parser *parser, double *ret_number)
{
    skip_spaces(parser);
    const char *start = parser->at;
    size_t bytes = strspn(start, "+-.0123456789eE"), name = name_bytes(start);
    char text[64], *end;
    bool is_true = name == 4 && memcmp(start, "true", 4) == 0;
    if (is_true || (name == 5 && memcmp(start, "false", 5) == 0)) {
        *ret_number = is_true;
        parser->at += name;
        return 0;
    }
    if (bytes == 0 || bytes >= sizeof text)
        return fail(parser, start, "a number");
    memcpy(text, start, bytes);
    text[bytes] = '\0';
    *ret_number = strtod(text, &end);
    if (*end || end == text || name_bytes(start + bytes) > 0 || !isfinite(*ret_number))
        return fail(parser, start, "a number");
    parser->at += bytes;
    return 0;
}

static int parse_comparison(struct parser *parser)
{
    /* The longer ones first. */
    static const struct {
        const char *token;
        enum operation operation;
    } comparisons[] = {{"<=", LESS_OR_EQUAL}, {">=", GREATER_OR_EQUAL},
                       {"==", EQUAL},         {"!=", NOT_EQUAL},
                       {"<", LESS},           {">", GREATER}};
    const char *name = parser->at;
    size_t bytes = name_bytes(name), i = 0;
    struct term term;
    if (bytes == 0)
        return fail(parser, name, "the name of an index field, ! or (");
    parser->at += bytes;
    if (bytes == 5 && memcmp(name, "class", 5) == 0)
        return take(parser, "(") ? parse_class(parser) : fail(parser, parser->at, "(\"NAME\")");
    int status = find_or_add_field(parser, name, bytes, &term.field);
    if (status)
        return status;
    while (i < sizeof comparisons / sizeof comparisons[0] && !take(parser, comparisons[i].token))
        i++;
    if (i == sizeof comparisons / sizeof comparisons[0])
        return fail(parser, parser->at, "one of < <= > >= == !=");
    term.operation = comparisons[i].operation;
    status = parse_number(parser, &term.number);
    return status ? status : add_term(parser, term);
}

static int parse_or(struct parser *parser);

static int parse_operand(struct parser *parser)
{
    int status;
    skip_spaces(parser);
    const char *start = parser->at;
    if (*start != '!' && *start != '(')
        return parse_comparison(parser);
    parser->at++;
    if (++parser->nesting > WHERE_NESTING_MAX)
        return fail(parser, start, "fewer nested parentheses");
    if (*start == '!') {
        skip_spaces(parser);
        bool is_operand = *parser->at == '(' || *parser->at == '!' ||
                          (name_bytes(parser->at) == 5 && memcmp(parser->at, "class", 5) == 0);
        status = is_operand ? parse_operand(parser) : fail(parser, parser->at, "( after !");
        if (!status)
            status = add_term(parser, (struct term){.operation = NOT});
    } else {
        status = parse_or(parser);
        if (!status && !take(parser, ")"))
            status = fail(parser, parser->at, "&&, || or )");
    }
    parser->nesting--;
    return status;
}

static int parse_and(struct parser *parser)
{
    int status = parse_operand(parser);
    while (!status && take(parser, "&&")) {
        status = parse_operand(parser);
        if (!status)
            status = add_term(parser, (struct term){.operation = AND});
    }
    return status;
}

static int parse_or(struct parser *parser)
{
    int status = parse_and(parser);
    while (!status && take(parser, "||")) {
        status = parse_and(parser);
        if (!status)
            status = add_term(parser, (struct term){.operation = OR});
    }
    return status;
}

int where_parse(const char *text, char *const *classes, uint64_t classes_count,
                struct where **ret_where, struct err *err)
{
    struct where *where = calloc(1, sizeof *where);
    struct parser parser = {.text = text,
                            .at = text,
                            .classes = classes,
                            .classes_count = classes_count,
                            .where = where,
                            .err = err};
    if (!where)
        return err_set(err, -ENOMEM, "out of memory for a condition");
    int status = strlen(text) < WHERE_BYTES_MAX
                     ? parse_or(&parser)
                     : fail(&parser, text + WHERE_BYTES_MAX, "a shorter condition");
    skip_spaces(&parser);
    if (!status && *parser.at)
        status = fail(&parser, parser.at, "&&, || or the end");
    if (status)
        where_free(where);
    else
        *ret_where = where;
    return status;
}

void where_free(struct where *where)
{
    if (!where)
        return;
    str_deinit(&where->terms);
    free(where);
}

/* ---- Queries. ---- */

uint32_t where_fields(const struct where *where)
{
    return where->fields_count;
}

const char *where_field(const struct where *where, uint32_t field)
{
    return where->fields[field];
}

static bool compare(enum operation operation, double value, double number)
{
    switch (operation) {
    case LESS:
        return value < number;
    case LESS_OR_EQUAL:
        return value <= number;
    case GREATER:
        return value > number;
    case GREATER_OR_EQUAL:
        return value >= number;
    case EQUAL:
        return value == number;
    default:
        return value < number || value > number; /* false for NaN */
    }
}

bool where_matches(const struct where *where, const double *values)
{
    const struct term *terms = (const struct term *)(const void *)where->terms.data;
    uint64_t stack = 0; /* the last operand is bit 0 */
    for (size_t i = 0; i < where->terms.bytes / sizeof *terms; i++) {
        uint64_t last = stack & 1;
        switch (terms[i].operation) {
        case AND:
            stack = stack >> 1 & (last | ~UINT64_C(1));
            break;
        case OR:
            stack = stack >> 1 | last;
            break;
        case NOT:
            stack ^= 1;
            break;
        default:
            stack =
                stack << 1 | compare(terms[i].operation, values[terms[i].field], terms[i].number);
            break;
        }
    }
    return stack & 1;
}

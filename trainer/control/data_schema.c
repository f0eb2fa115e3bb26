/*
 * data_schema — see data_schema.h.
 */
#include "trainer/control/data_schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void data_schema_encode(struct jsonx_writer *w, const struct loader_schema *schema)
{
    jsonx_begin_object(w, "data");
    jsonx_begin_array(w, "classes");
    for (uint64_t i = 0; i < schema->classes_count; i++)
        jsonx_write_string(w, NULL, schema->classes[i]);
    jsonx_end_array(w);
    if (schema->tokenizer) {
        jsonx_write_string(w, "tokenizer", schema->tokenizer);
        jsonx_write_hex64(w, "tokenizer_xxh3", schema->tokenizer_xxh3);
        jsonx_write_u64(w, "vocabulary", schema->vocabulary);
        if (schema->document_end != LOADER_NO_TOKEN)
            jsonx_write_u64(w, "document_end", schema->document_end);
    }
    jsonx_end_object(w);
}

static int bad(const char *what, const char *path, struct err *err)
{
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, path, ERR_NO_OFFSET);
    return -EBADMSG;
}

/* Copies the names into one block: first the pointers, then the texts. The tokenizer is last. */
static int copy_texts(const struct json_t *list, const char *tokenizer, struct data_schema *schema,
                      struct err *err)
{
    size_t count = jsonx_count(list), bytes = (count + 1) * sizeof(char *) + strlen(tokenizer) + 1;
    const char *text;
    for (size_t i = 0; i < count; i++) {
        if (jsonx_text(jsonx_at(list, i), &text))
            return bad("a class name in the checkpoint's state is not a string",
                       schema->schema.path, err);
        bytes += strlen(text) + 1;
    }
    const char **names = malloc(bytes);
    if (!names)
        return err_set(err, -ENOMEM, "out of memory for %zu class names", count);
    char *to = (char *)(names + count + 1);
    for (size_t i = 0; i <= count; i++) {
        text = tokenizer;
        if (i < count)
            jsonx_text(jsonx_at(list, i), &text);
        names[i] = to;
        to = stpcpy(to, text) + 1;
    }
    schema->memory = names;
    schema->schema.classes = names;
    schema->schema.classes_count = count;
    return 0;
}

static int decode_tokens(const struct json_t *node, struct loader_schema *schema, struct err *err)
{
    const char *hex;
    char *end;
    uint64_t vocabulary, document_end = LOADER_NO_TOKEN;
    int status = jsonx_get_string(node, "tokenizer_xxh3", &hex, schema->path, err);
    if (!status)
        status = jsonx_get_u64(node, "vocabulary", &vocabulary, schema->path, err);
    if (!status && jsonx_get(node, "document_end"))
        status = jsonx_get_u64(node, "document_end", &document_end, schema->path, err);
    if (status)
        return status;
    schema->tokenizer_xxh3 = strtoull(hex, &end, 16);
    if (strlen(hex) != 16 || *end || vocabulary > UINT32_MAX || document_end > UINT32_MAX)
        return bad("the tokens in the checkpoint's state are out of range", schema->path, err);
    schema->vocabulary = (uint32_t)vocabulary;
    schema->document_end = (uint32_t)document_end;
    return 0;
}

int data_schema_decode(const struct json_t *state, const char *path, struct data_schema *ret_schema,
                       struct err *err)
{
    const struct json_t *node = jsonx_get(state, "data"),
                        *tokenizer_node = jsonx_get(node, "tokenizer");
    struct data_schema schema = {.schema.path = path, .is_recorded = node != NULL};
    const char *tokenizer = "";
    int status = 0;
    if (tokenizer_node)
        status = jsonx_get_string(node, "tokenizer", &tokenizer, path, err);
    if (!status && tokenizer_node)
        status = decode_tokens(node, &schema.schema, err);
    if (!status)
        status = copy_texts(jsonx_get(node, "classes"), tokenizer, &schema, err);
    if (status)
        return status;
    if (tokenizer_node)
        schema.schema.tokenizer = schema.schema.classes[schema.schema.classes_count];
    *ret_schema = schema;
    return 0;
}

void data_schema_deinit(struct data_schema *schema)
{
    free(schema->memory);
    *schema = (struct data_schema){0};
}

static int differ(const struct loader_schema *saved, const char *what, struct err *err)
{
    err_set(err, -ESTALE, "the training data has different %s than when this checkpoint was saved",
            what);
    err_at(err, saved->path, ERR_NO_OFFSET);
    err_advise(err, "resume with the data that the run began with");
    return -ESTALE;
}

static int compare_classes(const struct loader_schema *saved, const struct loader_schema *now,
                           struct err *err)
{
    uint64_t count =
        saved->classes_count < now->classes_count ? saved->classes_count : now->classes_count;
    for (uint64_t i = 0; i < count; i++) {
        if (strcmp(saved->classes[i], now->classes[i]) == 0)
            continue;
        differ(saved, "classes", err);
        err_expected(err, "class %" PRIu64 " \"%.80s\"", i, saved->classes[i]);
        err_found(err, "\"%.80s\"", now->classes[i]);
        return -ESTALE;
    }
    if (saved->classes_count == now->classes_count)
        return 0;
    differ(saved, "classes", err);
    err_expected(err, "%" PRIu64 " class names", saved->classes_count);
    err_found(err, "%" PRIu64, now->classes_count);
    return -ESTALE;
}

static int compare_tokens(const struct loader_schema *saved, const struct loader_schema *now,
                          struct err *err)
{
    if (strcmp(saved->tokenizer, now->tokenizer) == 0 &&
        saved->tokenizer_xxh3 == now->tokenizer_xxh3 && saved->vocabulary == now->vocabulary &&
        loader_has_same_document_end(saved, now))
        return 0;
    differ(saved, "tokens", err);
    err_expected(err, "tokenizer \"%.40s\", files %016" PRIx64 ", vocabulary %" PRIu32,
                 saved->tokenizer, saved->tokenizer_xxh3, saved->vocabulary);
    err_found(err, "tokenizer \"%.40s\", files %016" PRIx64 ", vocabulary %" PRIu32, now->tokenizer,
              now->tokenizer_xxh3, now->vocabulary);
    return -ESTALE;
}

int data_schema_compare(const struct data_schema *saved, const struct loader_schema *now,
                        struct err *err)
{
    if (!saved->is_recorded)
        return 0;
    int status = compare_classes(&saved->schema, now, err);
    if (status || !saved->schema.tokenizer || !now->tokenizer)
        return status;
    return compare_tokens(&saved->schema, now, err);
}

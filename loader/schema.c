/*
 * schema — the meaning of labels and tokens, and how they match the caller's reference (state.h).
 *
 * Datasets number their classes independently, so the labels of evaluation data are mapped by class
 * name to the numbers of the training data.
 */
#include "loader/state.h"

#include "tokenizer/bpe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loader_schema dataset_schema(const struct dataset *dataset)
{
    bool is_text = dataset->text.element[0] != '\0';
    return (struct loader_schema){.path = dataset->path,
                                  .classes = (const char *const *)dataset->classes,
                                  .classes_count = dataset->classes_count,
                                  .tokenizer = is_text ? dataset->text.tokenizer : NULL,
                                  .tokenizer_xxh3 = dataset->text.tokenizer_xxh3,
                                  .vocabulary = dataset->text.vocabulary,
                                  .document_end = dataset->text.document_end};
}

/* ---- Tokens. ---- */

bool loader_has_same_document_end(const struct loader_schema *a, const struct loader_schema *b)
{
    return a->document_end == b->document_end || a->document_end == LOADER_NO_TOKEN ||
           b->document_end == LOADER_NO_TOKEN;
}

bool schema_has_same_tokens(const struct loader_schema *a, const struct loader_schema *b)
{
    if (!a->tokenizer || !b->tokenizer)
        return true;
    if (a->tokenizer_xxh3 && b->tokenizer_xxh3 && a->tokenizer_xxh3 != b->tokenizer_xxh3)
        return false;
    return strcmp(a->tokenizer, b->tokenizer) == 0 && a->vocabulary == b->vocabulary &&
           loader_has_same_document_end(a, b);
}

const char *schema_describe_tokens(const struct loader_schema *schema, char text[SCHEMA_TEXT_BYTES])
{
    int bytes = snprintf(text, SCHEMA_TEXT_BYTES, "tokenizer \"%.40s\", vocabulary %" PRIu32,
                         schema->tokenizer, schema->vocabulary);
    if (schema->document_end != LOADER_NO_TOKEN)
        bytes += snprintf(text + bytes, SCHEMA_TEXT_BYTES - (size_t)bytes,
                          ", document end %" PRIu32, schema->document_end);
    if (schema->tokenizer_xxh3)
        snprintf(text + bytes, SCHEMA_TEXT_BYTES - (size_t)bytes, ", files %016" PRIx64,
                 schema->tokenizer_xxh3);
    return text;
}

static int check_tokens(const struct loader *loader, struct err *err)
{
    const struct loader_schema *own = &loader->schema, *reference = loader->options.reference;
    uint64_t limit = loader->options.text.vocabulary;
    bool is_record = loader->options.decode == LOADER_RECORD;
    char text[SCHEMA_TEXT_BYTES];
    if (reference && !schema_has_same_tokens(reference, own)) {
        err_set(err, -EINVAL, "the tokens of the dataset differ from those of %.300s",
                reference->path);
        err_at(err, own->path, ERR_NO_OFFSET);
        err_expected(err, "%s", schema_describe_tokens(reference, text));
        err_found(err, "%s", schema_describe_tokens(own, text));
        err_advise(err, "use the same tokenizer for both");
        return -EINVAL;
    }
    if (limit == 0 || own->vocabulary <= limit)
        return 0;
    err_set(err, -EINVAL, "the vocabulary of the %s is larger than the model's",
            is_record ? "tokenizer" : "dataset");
    err_at(err, own->path, ERR_NO_OFFSET);
    err_expected(err, "at most %" PRIu64 " tokens", limit);
    err_found(err, "%" PRIu32, own->vocabulary);
    err_advise(err, "raise model.vocabulary or remove it");
    return -EINVAL;
}

int loader_check_field_tokens(struct loader *loader, struct err *err)
{
    const struct bpe *bpe = field_common_tokenizer(loader);
    struct loader_schema *schema = &loader->schema;
    if (loader->options.decode != LOADER_RECORD || !bpe)
        return 0;
    schema->tokenizer = bpe_name(bpe);
    schema->tokenizer_xxh3 = bpe_identity(bpe);
    schema->vocabulary = bpe_vocabulary_size(bpe);
    schema->document_end = LOADER_NO_TOKEN; /* each sample is one document */
    return check_tokens(loader, err);
}

/* ---- Labels. ---- */

struct named_class {
    const char *name;
    int32_t number;
};

static int compare_names(const void *a, const void *b)
{
    const struct named_class *left = a, *right = b;
    return strcmp(left->name, right->name);
}

static bool has_same_classes(const struct loader_schema *a, const struct loader_schema *b)
{
    bool same = a->classes_count == b->classes_count;
    for (uint64_t i = 0; same && i < a->classes_count; i++)
        same = strcmp(a->classes[i], b->classes[i]) == 0;
    return same;
}

static int repeated_class(const struct loader_schema *reference, const char *name, struct err *err)
{
    err_set(err, -EINVAL, "cannot map labels by name: two classes have the name \"%.80s\"", name);
    err_at(err, reference->path, ERR_NO_OFFSET);
    err_advise(err, "give each class a unique name");
    return -EINVAL;
}

static int unknown_class(const struct loader_schema *reference, const struct loader_schema *own,
                         const char *name, struct err *err)
{
    err_set(err, -EINVAL, "class \"%.80s\" is not among the %" PRIu64 " classes of %.300s", name,
            reference->classes_count, reference->path);
    err_at(err, own->path, ERR_NO_OFFSET);
    err_advise(err, "evaluate only on classes that the model was trained on");
    return -EINVAL;
}

/* sorted_classes: the reference's classes, by name. */
static int fill_label_map(struct loader *loader, const struct named_class *sorted_classes,
                          struct err *err)
{
    const struct loader_schema *own = &loader->schema, *reference = loader->options.reference;
    for (uint64_t i = 1; i < reference->classes_count; i++)
        if (strcmp(sorted_classes[i - 1].name, sorted_classes[i].name) == 0)
            return repeated_class(reference, sorted_classes[i].name, err);
    for (uint64_t i = 0; i < own->classes_count; i++) {
        const struct named_class wanted = {.name = own->classes[i]};
        const struct named_class *found = bsearch(&wanted, sorted_classes, reference->classes_count,
                                                  sizeof *sorted_classes, compare_names);
        if (!found)
            return unknown_class(reference, own, own->classes[i], err);
        loader->label_map[i] = found->number;
    }
    return 0;
}

static int map_labels(struct loader *loader, struct err *err)
{
    const struct loader_schema *own = &loader->schema, *reference = loader->options.reference;
    struct named_class *sorted_classes = calloc(reference->classes_count, sizeof *sorted_classes);
    loader->label_map = calloc(own->classes_count, sizeof *loader->label_map);
    int status = sorted_classes && loader->label_map
                     ? 0
                     : err_set(err, -ENOMEM, "out of memory for %" PRIu64 " class names",
                               own->classes_count + reference->classes_count);
    if (!status) {
        for (uint64_t i = 0; i < reference->classes_count; i++)
            sorted_classes[i] = (struct named_class){reference->classes[i], (int32_t)i};
        qsort(sorted_classes, reference->classes_count, sizeof *sorted_classes, compare_names);
        status = fill_label_map(loader, sorted_classes, err);
    }
    free(sorted_classes);
    return status;
}

static int check_labels(struct loader *loader, struct err *err)
{
    const struct loader_schema *own = &loader->schema, *reference = loader->options.reference;
    uint64_t limit = loader->options.image.classes;
    bool has_names = own->classes_count > 0,
         has_reference = reference && reference->classes_count > 0;
    if (has_names && has_reference && !has_same_classes(reference, own)) {
        int status = map_labels(loader, err);
        if (status)
            return status;
    }
    if (has_reference)
        loader->classes_count = reference->classes_count;
    if (limit > 0 && loader->classes_count > limit) {
        err_set(err, -EINVAL, "%s more classes than the model has",
                has_reference              ? "the training data has"
                : loader->class_list.count ? "the list of class names has"
                                           : "the dataset has");
        err_at(err, has_reference ? reference->path : own->path, ERR_NO_OFFSET);
        err_expected(err, "at most %" PRIu64, limit);
        err_found(err, "%" PRIu64, loader->classes_count);
        err_advise(err, "raise model.classes or remove it");
        return -EINVAL;
    }
    loader->labels_count = has_names ? own->classes_count : loader->classes_count;
    if (loader->labels_count == 0)
        loader->labels_count = limit;
    return 0;
}

int loader_check_schema(struct loader *loader, struct err *err)
{
    loader->schema = dataset_schema(loader->sources[0].dataset);
    if (!label_is_stored_class(&loader->options.image.label)) {
        loader->schema.classes = loader->class_names;
        loader->schema.classes_count = loader->class_list.count;
    }
    loader->classes_count = loader->schema.classes_count;
    switch (loader->options.decode) {
    case LOADER_IMAGE:
        return check_labels(loader, err);
    case LOADER_TOKENS:
        return check_tokens(loader, err);
    case LOADER_BYTES:
    case LOADER_RECORD:
        break;
    }
    return 0;
}

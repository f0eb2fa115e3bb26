/*
 * field_choice — see field_choice.h.
 */
#include "convert/source/field_choice.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "convert/source/file_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_listed(const struct convert_options *options, const char *extension)
{
    for (size_t i = 0; i < options->fields.count; i++) {
        const char *text = options->fields.items[i];
        text += text[0] == '.';
        bool is_jpeg = strcasecmp(text, "jpg") == 0 || strcasecmp(text, "jpeg") == 0;
        if (strcasecmp(text, extension) == 0 ||
            (is_jpeg && (strcmp(extension, "jpg") == 0 || strcmp(extension, "jpeg") == 0)))
            return true;
    }
    return options->fields.count == 0;
}

void field_choice_make(const struct convert_options *options, const struct shard_index *index,
                       struct field_choice *ret_choice)
{
    for (uint32_t i = 0; i < shard_index_fields(index); i++) {
        char name[SHARD_EXTENSION_BYTES_MAX + 1];
        const char *extension = shard_index_extension(index, i);
        snprintf(name, sizeof name, ".%s", extension);
        ret_choice->takes[i] = is_listed(options, extension) && !name_is_ignored(options, name);
    }
}

static void hash_strings(struct hash_stream *hash, const struct convert_string_list *list)
{
    hash_stream_update(hash, &list->count, sizeof list->count);
    for (size_t i = 0; i < list->count; i++)
        hash_stream_update(hash, list->items[i], strlen(list->items[i]) + 1);
}

void field_choice_hash(const struct convert_options *options, struct hash_stream *hash)
{
    hash_strings(hash, &options->fields);
    hash_strings(hash, &options->ignore_globs);
}

/* A sample has few fields, mostly in order. */
static void insert_field(struct chosen_fields *chosen, uint32_t number,
                         const struct shard_field *field)
{
    uint32_t at = chosen->count++;
    for (; at > 0 && chosen->fields[at - 1].data_offset > field->data_offset; at--) {
        chosen->fields[at] = chosen->fields[at - 1];
        chosen->numbers[at] = chosen->numbers[at - 1];
    }
    chosen->fields[at] = *field;
    chosen->numbers[at] = number;
}

void field_choice_find(const struct field_choice *choice, const struct shard_index *index,
                       uint64_t sample, struct chosen_fields *ret_chosen)
{
    ret_chosen->count = 0;
    ret_chosen->begin = UINT64_MAX;
    ret_chosen->end = ret_chosen->bytes = 0;
    for (uint32_t i = 0; i < shard_index_fields(index); i++) {
        struct shard_field field;
        shard_index_field(index, sample, i, &field);
        if (!field.present || !choice->takes[i])
            continue;
        insert_field(ret_chosen, i, &field);
        ret_chosen->begin = bytes_min(ret_chosen->begin, field.data_offset);
        ret_chosen->end = bytes_max(ret_chosen->end, field.data_offset + field.size_bytes);
        ret_chosen->bytes += field.size_bytes;
    }
}

uint64_t field_choice_sample_bytes(const struct field_choice *choice,
                                   const struct shard_index *index, uint64_t sample)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shard_index_fields(index); i++) {
        struct shard_field field;
        shard_index_field(index, sample, i, &field);
        bytes += choice->takes[i] ? field.size_bytes : 0;
    }
    return bytes;
}

int chosen_extensions_add(struct chosen_extensions *extensions, const struct field_choice *choice,
                          const struct shard_index *index, const char *path, struct err *err)
{
    for (uint32_t field = 0; field < shard_index_fields(index); field++) {
        const char *name = shard_index_extension(index, field);
        uint32_t at = 0;
        while (at < extensions->count && strcmp(extensions->names[at], name) != 0)
            at++;
        if (at < extensions->count || !choice->takes[field])
            continue;
        if (extensions->count == SHARD_FIELDS_MAX) {
            err_set(err, -E2BIG, "there are more than %d different extensions", SHARD_FIELDS_MAX);
            err_at(err, path, ERR_NO_OFFSET);
            err_advise(err, "choose some with --fields EXT,EXT");
            return -E2BIG;
        }
        strcpy(extensions->names[extensions->count++], name);
    }
    return 0;
}

int chosen_fields_check(const struct chosen_fields *chosen, const char *path, const char *key,
                        struct err *err)
{
    if (chosen->count > 0)
        return 0;
    err_set(err, -EBADMSG, "a sample has none of the chosen fields");
    err_at(err, path, ERR_NO_OFFSET);
    err_found(err, "the key %.200s", key);
    err_advise(err, "skip such samples with --on-error skip");
    return -EBADMSG;
}

/*
 * unmatched — see file_list.h. Collects files that belong to no sample.
 */
#include "convert/source/file_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int unmatched_add(struct file_list *list, const char *type, const char *relative, struct err *err)
{
    uint32_t at = 0;
    list->unmatched_count++;
    while (at < list->unmatched_types_count && strcmp(list->unmatched[at].type, type) != 0)
        at++;
    if (at == UNMATCHED_TYPES_MAX)
        return 0;
    if (!list->unmatched)
        list->unmatched = calloc(UNMATCHED_TYPES_MAX, sizeof *list->unmatched);
    if (!list->unmatched)
        return err_set(err, -ENOMEM, "out of memory for a list of files");
    struct unmatched_type *unmatched = &list->unmatched[at];
    if (at == list->unmatched_types_count) {
        list->unmatched_types_count++;
        snprintf(unmatched->type, sizeof unmatched->type, "%s", type);
        snprintf(unmatched->example, sizeof unmatched->example, "%s", relative);
    }
    unmatched->count++;
    return 0;
}

static void add_advice(const struct file_list *list, struct err *err)
{
    struct str text = {0};
    bool has_text = false;
    for (uint32_t i = 0; i < list->unmatched_types_count; i++) {
        const char *type = list->unmatched[i].type;
        has_text |= strcmp(type, ".txt") == 0;
        if (type[0] == '.' && text.bytes < ERR_TEXT_BYTES_MAX / 4)
            str_add_format(&text, " --ignore '*%s'", type);
    }
    if (text.bytes == 0)
        str_add_text(&text, " --ignore GLOB");
    err_advise(err, "skip them with%s%s%s", str_text(&text),
               list->is_text || list->is_tokens
                   ? ""
                   : ", or list all field extensions with --fields EXT,EXT",
               has_text ? ", or read text with --tokenizer bytes" : "");
    str_deinit(&text);
}

int unmatched_reject(const struct file_list *list, const struct convert_options *options,
                     struct err *err)
{
    if (list->unmatched_count == 0)
        return 0;
    for (uint32_t i = 0; i < list->unmatched_types_count && list->unmatched_types_count > 1; i++)
        log_line(options->log, LOG_ERROR, "%s: %" PRIu64 " without a sample; the first: %s",
                 list->unmatched[i].type, list->unmatched[i].count, list->unmatched[i].example);
    err_set(err, -ENOTSUP, "files belong to no sample");
    err_at(err, options->source, ERR_NO_OFFSET);
    if (list->is_text)
        err_expected(err, ".txt or .jsonl files");
    else if (list->is_tokens)
        err_expected(err, ".bin files of tokens");
    else if (options->fields.count > 0)
        err_expected(err, "files with the extensions of --fields");
    else
        err_expected(
            err, "photos (jpg, png, webp, ppm) and json, txt, npy or cls files of the same name");
    err_found(err, "%" PRIu64 " in total, %s: %" PRIu64 "; the first: %.120s",
              list->unmatched_count, list->unmatched[0].type, list->unmatched[0].count,
              list->unmatched[0].example);
    add_advice(list, err);
    return -ENOTSUP;
}

/*
 * source_unmatched — collects files that belong to no sample, which fail a conversion before it
 * writes. See source.h.
 */
#include "convert/source/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int source_refuse_kind(const char *path, const char *format, struct err *err)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    err_set(err, -ENOTSUP, "the source format is not supported");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(
        err, "a folder of class folders, a folder of photos, a folder of splits (train, val) of "
             "these, a .txt file or a folder of them");
    err_found(err, "%s", format ? format : "a file of another type");
    if (dot && dot[1])
        err_advise(err, "unpack it into a folder first, or skip it with --ignore '*%s'", dot);
    else
        err_advise(err, "unpack it into a folder first");
    return -ENOTSUP;
}

int source_add_unmatched(struct source *source, const char *type, const char *relative,
                         struct err *err)
{
    uint32_t at = 0;
    source->unmatched_files_count++;
    while (at < source->unmatched_count && strcmp(source->unmatched[at].type, type) != 0)
        at++;
    if (at == SOURCE_UNMATCHED_MAX)
        return 0;
    if (!source->unmatched)
        source->unmatched = calloc(SOURCE_UNMATCHED_MAX, sizeof *source->unmatched);
    if (!source->unmatched)
        return err_set(err, -ENOMEM, "out of memory for a list of files");
    struct source_unmatched *unmatched = &source->unmatched[at];
    if (at == source->unmatched_count) {
        source->unmatched_count++;
        snprintf(unmatched->type, sizeof unmatched->type, "%s", type);
        snprintf(unmatched->example, sizeof unmatched->example, "%s", relative);
    }
    unmatched->count++;
    return 0;
}

/* Lists as many types as fit in the advice. */
static void advise(const struct source *source, struct err *err)
{
    struct str text = {0};
    bool has_text = false;
    for (uint32_t i = 0; i < source->unmatched_count; i++) {
        const char *type = source->unmatched[i].type;
        has_text |= strcmp(type, ".txt") == 0;
        if (type[0] == '.' && text.bytes < ERR_TEXT_BYTES_MAX / 4)
            str_add_format(&text, " --ignore '*%s'", type);
    }
    if (text.bytes == 0)
        str_add_text(&text, " --ignore GLOB");
    bool is_text = source->kind == SOURCE_TEXT;
    err_advise(err, "skip them with%s%s%s", str_text(&text),
               is_text ? "" : ", or list all field extensions with --fields EXT,EXT",
               has_text ? ", or read text with --tokenizer bytes" : "");
    str_deinit(&text);
}

int source_reject_unmatched(const struct source *source, struct err *err)
{
    if (source->unmatched_files_count == 0)
        return 0;
    for (uint32_t i = 0; i < source->unmatched_count && source->unmatched_count > 1; i++)
        log_line(source->options->log, LOG_ERROR, "%s: %" PRIu64 " without a sample; the first: %s",
                 source->unmatched[i].type, source->unmatched[i].count,
                 source->unmatched[i].example);
    err_set(err, -ENOTSUP, "files belong to no sample");
    err_at(err, source->options->source, ERR_NO_OFFSET);
    if (source->kind == SOURCE_TEXT)
        err_expected(err, ".txt files");
    else if (source->options->fields.count > 0)
        err_expected(err, "files with the extensions of --fields");
    else
        err_expected(
            err, "photos (jpg, png, webp, ppm) and json, txt, npy or cls files of the same name");
    err_found(err, "%" PRIu64 " in total, %s: %" PRIu64 "; the first: %.120s",
              source->unmatched_files_count, source->unmatched[0].type, source->unmatched[0].count,
              source->unmatched[0].example);
    advise(source, err);
    return -ENOTSUP;
}

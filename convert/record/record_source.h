/*
 * record_source — what the sources of record files share: each record is an item.
 *
 * A format lists the records of its files, and decodes one. The records keep their order unless the
 * options shuffle. Columns become fields as in lists (record_columns.h). A record's key is its
 * number, unless a column gives it. A class that is an integer is stored as it is. Keys from a
 * column, and class names, need a pass over all records when the source is opened.
 *
 * Memory: 8 bytes per record; keys from a column add their bytes and up to 40, a class name 4.
 */
#ifndef MILLRACE_CONVERT_RECORD_RECORD_SOURCE_H
#define MILLRACE_CONVERT_RECORD_RECORD_SOURCE_H

#include "base/name_set.h"
#include "convert/record/record.h"
#include "convert/source/file_list.h"

struct record_file {
    char *path;              /* owned */
    struct listed_file file; /* size and identity when listed */
    uint64_t first_record, records_count;
    uint64_t *offsets;  /* records_count + 1; owned */
    const void *schema; /* the format's; owned by it */
};

struct record_format {
    const char *name; /* of the files, in messages */
    /* Adds the files of options->source with their records, except first_record, to the source.
     * -EINTR soon after *options->stop is set. Blocks. */
    int (*list)(struct io *io, const struct convert_options *options,
                struct record_file **ret_files, size_t *ret_count, void **ret_state,
                struct err *err);
    void (*free_state)(void *state); /* optional */
    /* Decodes the record in a file's bytes [offsets[i], offsets[i + 1]) into a cleared record. */
    int (*decode)(const struct record_file *file, const uint8_t *data, size_t bytes,
                  struct record *record, struct err *err);
};

/* Frees files that are not part of a source. */
void record_files_free(struct record_file *files, size_t count);

/* The hooks of struct source_ops. open: with the source's format. */
int record_source_open(struct io *io, struct source *source, const struct record_format *format,
                       struct err *err);
void record_source_close(struct source *source);
void record_source_describe(const struct source *source, uint64_t number, struct source_item *item);
int record_source_read(struct source_reader *reader, const struct source_item *item,
                       struct source_sample *sample, struct err *err);
int record_source_reader_open(struct source_reader *reader, struct err *err);
void record_source_reader_close(struct source_reader *reader);

#endif

/*
 * text_line — a line of JSON Lines that is a document: one member of its object is the text.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TEXT_LINE_H
#define MILLRACE_CONVERT_SOURCE_TEXT_LINE_H

#include "convert/source/file_list.h"
#include "tokenizer/bpe.h"

enum { TEXT_LINE_BYTES_MAX = BPE_TEXT_BYTES_MAX };

/* Replaces text by the string in the member `field`. -EBADMSG, with the offset in the line: it is
 * not an object of valid JSON, or the member is missing, repeated or not a string. -ENOMEM. */
int text_line_read(const char *line, size_t bytes, const char *field, struct str *text,
                   struct err *err);

/* Moves an error at an offset of a file there, as PATH:LINE. Reads the file up to the offset. */
void text_line_locate(const struct file_list *files, struct io *io, struct io_queue *queue,
                      uint64_t file, const char *path, uint64_t offset, struct err *err);

#endif

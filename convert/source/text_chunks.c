/*
 * text_chunks — see text_chunks.h.
 */
#include "convert/source/text_chunks.h"

#include "base/bytes.h"
#include "convert/source/text_line.h"

#include <errno.h>
#include <string.h>

enum {
    WINDOW_BYTES = 4096, /* bytes per search for a cut */
    CONTEXT_BYTES = 3,   /* enough for the preceding character */
};

struct cutter {
    struct io *io;
    const struct file_list *files;
    enum text_cut cut;
    const struct bpe *bpe;
    struct io_queue *queue;
    struct str text, chunks; /* struct token_chunk */
    struct err *err;
};

static int read_window(struct cutter *cutter, uint64_t file, const char *path, uint64_t begin,
                       uint64_t end)
{
    str_clear(&cutter->text);
    return file_list_read(cutter->files, cutter->io, cutter->queue, file, path, begin, end - begin,
                          &cutter->text, cutter->err);
}

/* Sets *ret_end to the last character boundary at or before `limit`. */
static int find_character_boundary(struct cutter *cutter, uint64_t file, const char *path,
                                   uint64_t limit, uint64_t *ret_end)
{
    int status = read_window(cutter, file, path, limit - CONTEXT_BYTES, limit + 1);
    if (status)
        return status;
    unsigned back = 0;
    while (back < CONTEXT_BYTES &&
           ((uint8_t)cutter->text.data[CONTEXT_BYTES - back] & 0xc0) == 0x80)
        back++;
    *ret_end = limit - back;
    return 0;
}

static int find_word_cut(struct cutter *cutter, uint64_t file, const char *path, uint64_t begin,
                         uint64_t *ret_end)
{
    uint64_t size = cutter->files->files[file].bytes;
    uint64_t limit = size - begin > TEXT_CHUNK_BYTES_MAX ? begin + TEXT_CHUNK_BYTES_MAX : size;
    for (uint64_t at = begin + TEXT_CHUNK_BYTES; at < limit; at += WINDOW_BYTES) {
        uint64_t end = limit - at > WINDOW_BYTES ? at + WINDOW_BYTES : limit;
        int status = read_window(cutter, file, path, at - CONTEXT_BYTES, end);
        if (status)
            return status;
        size_t cut =
            bpe_find_cut(cutter->bpe, cutter->text.data, cutter->text.bytes, CONTEXT_BYTES);
        if (cut < cutter->text.bytes) {
            *ret_end = at - CONTEXT_BYTES + cut;
            return 0;
        }
    }
    if (limit < size)
        return find_character_boundary(cutter, file, path, limit, ret_end);
    *ret_end = size;
    return 0;
}

static int find_line_end(struct cutter *cutter, uint64_t file, const char *path, uint64_t begin,
                         uint64_t *ret_end)
{
    uint64_t size = cutter->files->files[file].bytes, first = begin + TEXT_CHUNK_BYTES - 1;
    uint64_t limit = bytes_min(size, first + TEXT_LINE_BYTES_MAX + TEXT_CHUNK_BYTES);
    uint64_t window = WINDOW_BYTES;
    for (uint64_t at = first; at < limit; at += window, window *= 2) {
        int status = read_window(cutter, file, path, at, bytes_min(limit, at + window));
        if (status)
            return status;
        const char *newline = memchr(cutter->text.data, '\n', cutter->text.bytes);
        if (newline) {
            *ret_end = at + (uint64_t)(newline - cutter->text.data) + 1;
            return 0;
        }
    }
    *ret_end = size;
    if (limit == size)
        return 0;
    err_set(cutter->err, -EBADMSG, "a line is too long");
    text_line_locate(cutter->files, cutter->io, cutter->queue, file, path, first, cutter->err);
    err_expected(cutter->err, "at most %d bytes", TEXT_LINE_BYTES_MAX);
    return -EBADMSG;
}

static int find_chunk_end(struct cutter *cutter, uint64_t file, const char *path, uint64_t begin,
                          uint64_t *ret_end)
{
    if (cutter->cut == TEXT_CUT_WORDS)
        return find_word_cut(cutter, file, path, begin, ret_end);
    if (cutter->cut == TEXT_CUT_LINES)
        return find_line_end(cutter, file, path, begin, ret_end);
    *ret_end = begin + TEXT_CHUNK_BYTES;
    return 0;
}

static int cut_file(struct cutter *cutter, uint64_t file)
{
    char path[IO_PATH_BYTES_MAX];
    uint64_t size = cutter->files->files[file].bytes, begin = 0;
    int status = file_list_path(cutter->files, file, path, cutter->err);
    while (!status) {
        uint64_t end = size;
        if (size - begin > TEXT_CHUNK_BYTES)
            status = find_chunk_end(cutter, file, path, begin, &end);
        const struct token_chunk chunk = {.file = file, .offset = begin, .bytes = end - begin};
        if (!status)
            str_add(&cutter->chunks, &chunk, sizeof chunk);
        begin = end;
        if (end == size)
            break;
    }
    return status;
}

int text_chunks_cut(struct io *io, const struct file_list *files, enum text_cut cut,
                    const struct bpe *bpe, struct token_chunks *ret_chunks, struct err *err)
{
    struct cutter cutter = {.io = io, .files = files, .cut = cut, .bpe = bpe, .err = err};
    int status = io->ops->queue_open(io, 1, &cutter.queue, err);
    for (uint64_t file = 0; file < files->count && !status; file++)
        status = cut_file(&cutter, file);
    if (cutter.queue)
        io->ops->queue_close(cutter.queue);
    str_deinit(&cutter.text);
    if (!status && str_status(&cutter.chunks))
        status = err_set(err, -ENOMEM, "out of memory for a list of documents");
    /* The chunks take ownership of the memory. */
    ret_chunks->items = (struct token_chunk *)(void *)cutter.chunks.data;
    ret_chunks->count = cutter.chunks.bytes / sizeof *ret_chunks->items;
    return status;
}

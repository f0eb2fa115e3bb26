#include "cli/report/page_tokens.h"

#include "base/bytes.h"
#include "cli/report/page.h"
#include "shards/format/npy.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER_RESERVED_BYTES = 4096, IDS_MAX = 300 };

/* Reads a little-endian token of 2 or 4 bytes. */
static uint32_t token_at(const uint8_t *data, size_t index, unsigned bytes)
{
    const uint8_t *at = data + index * bytes;
    uint32_t low = at[0] | (uint32_t)at[1] << 8;
    return bytes == 2 ? low : low | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bool is_continuation_byte(uint32_t token)
{
    return token < 256 && (token & 0xc0) == 0x80;
}

/* Omits partial characters at both ends. */
static void show_bytes(struct str *out, const uint8_t *data, size_t count, unsigned bytes,
                       uint32_t end_token)
{
    struct str text_bytes = {0};
    size_t first = 0;
    while (first < count && first < 3 && is_continuation_byte(token_at(data, first, bytes)))
        first++;
    size_t last = count;
    while (last > first && count - last < 3 &&
           is_continuation_byte(token_at(data, last - 1, bytes)))
        last--;
    if (last > first && token_at(data, last - 1, bytes) >= 0xc0 &&
        token_at(data, last - 1, bytes) < 256)
        last--;
    else
        last = count;
    for (size_t i = first; i < last; i++) {
        uint32_t token = token_at(data, i, bytes);
        char byte = (char)token;
        if (token < 256 && token != end_token) {
            str_add(&text_bytes, &byte, 1);
            continue;
        }
        page_text_bytes(out, str_text(&text_bytes), text_bytes.bytes);
        str_clear(&text_bytes);
        str_add_text(out, "<mark>");
        page_format(out, token == end_token ? "[end of document]" : "[%" PRIu32 "]", token);
        str_add_text(out, "</mark>");
    }
    page_text_bytes(out, str_text(&text_bytes), text_bytes.bytes);
    str_merge_status(out, &text_bytes);
    str_deinit(&text_bytes);
}

int page_tokens_add(struct survey *survey, const struct survey_sample *sample,
                    const struct dataset_text *text, struct str *out, struct err *err)
{
    const uint8_t *data;
    size_t bytes;
    struct npy npy;
    struct shard_field field;
    int number = shard_index_find(sample->shard->index, "npy");
    int status =
        survey_read(survey, sample, "npy",
                    HEADER_RESERVED_BYTES + PAGE_TOKENS_MAX * sizeof(uint32_t), &data, &bytes, err);
    if (status || bytes == 0)
        return status;
    shard_index_field(sample->shard->index, sample->number_in_shard, (uint32_t)number, &field);
    status = npy_decode_header(data, bytes, field.size_bytes, sample->shard->path, &npy, err);
    if (status)
        return status;
    unsigned element = (unsigned)dtype_bytes(npy.dtype);
    bool is_bytes = text && strcmp(text->tokenizer, "bytes") == 0;
    str_add_text(out, "<div class=\"key\">");
    page_text_bytes(out, sample->key, sample->key_bytes);
    page_format(out, ", %" PRIu64 " tokens", npy.count);
    str_add_text(out, "</div><pre>");
    if (element == 2 || element == 4) {
        size_t read_count = bytes > npy.header_bytes ? (bytes - npy.header_bytes) / element : 0;
        size_t count =
            bytes_min(bytes_min(npy.count, read_count), is_bytes ? PAGE_TOKENS_MAX : IDS_MAX);
        if (is_bytes)
            show_bytes(out, data + npy.header_bytes, count, element, text->document_end);
        for (size_t i = 0; i < count && !is_bytes; i++)
            page_format(out, "%" PRIu32 " ", token_at(data + npy.header_bytes, i, element));
        page_text(out, count < npy.count ? " …" : "");
    }
    str_add_text(out, "</pre>\n");
    return 0;
}

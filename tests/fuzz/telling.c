/*
 * telling — fuzz target: what another rank tells of the arrays that it stores (ckpt/telling.h).
 * What is taken can be walked to its end.
 */
#include "ckpt/telling.h"
#include "ckpt/box.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct err err;
    char *text = malloc(bytes + 1); /* aligned, and with an end that the sanitizer knows */
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    if (telling_check(text, bytes, 3, &err) == 0) {
        const struct telling told = {.all = text, .bytes_max = bytes};
        const struct telling_head *head = telling_of(&told, 0);
        const struct telling_chunk *chunk = telling_first(head);
        for (uint64_t i = 0; i < head->chunks_count; i++, chunk = telling_next(chunk)) {
            const struct box box = box_make(chunk->start, chunk->extent, (uint32_t)chunk->rank);
            if (strlen(telling_name(chunk)) >= chunk->name_bytes || box_check(&box, chunk->shape))
                abort();
        }
        if ((const char *)chunk != text + bytes)
            abort();
    }
    free(text);
    return 0;
}

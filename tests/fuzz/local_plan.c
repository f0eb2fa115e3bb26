/*
 * local_plan — fuzz target: another rank's message about the arrays that it stores
 * (ckpt/save/local_plan.h). An accepted message can be walked to its end.
 */
#include "ckpt/save/local_plan.h"
#include "ckpt/format/box.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct err err;
    char *text = malloc(bytes + 1); /* aligned, and of the exact size for the sanitizer */
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    if (local_plan_check(text, bytes, 3, &err) == 0) {
        const struct local_plan plan = {.texts = text, .bytes_max = bytes};
        const struct local_plan_head *head = local_plan_get(&plan, 0);
        const struct local_plan_chunk *chunk = local_plan_first(head);
        for (uint64_t i = 0; i < head->chunks_count; i++, chunk = local_plan_next(chunk)) {
            const struct box box = box_make(chunk->start, chunk->extent, (uint32_t)chunk->rank);
            if (strlen(local_plan_name(chunk)) >= chunk->name_bytes ||
                box_check(&box, chunk->shape))
                abort();
        }
        if ((const char *)chunk != text + bytes)
            abort();
    }
    free(text);
    return 0;
}

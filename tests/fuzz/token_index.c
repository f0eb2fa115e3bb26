/*
 * token_index — fuzz target: Megatron's index (convert/source/token_index.h), and the header of
 * llm.c's token files (convert/source/token_file.h).
 */
#include "convert/source/token_index.h"
#include "convert/source/token_file.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct memory_io memory;
    struct token_index index;
    const struct token_kind *kind;
    struct err err;
    if (token_file_parse(data, bytes, bytes, "input", &kind, &err) == 0 &&
        (!token_file_detect(data, bytes) || kind->document_end >= kind->vocabulary ||
         (bytes - TOKEN_FILE_HEADER_BYTES) % kind->token_bytes != 0))
        abort();
    memory_io_init(&memory, data, bytes);
    if (token_index_open(&memory.io, "input.idx", &index, &err))
        return 0;
    for (uint64_t i = 0; i < index.ends_count; i++)
        if (index.ends[i] > index.tokens || index.ends[i] <= (i > 0 ? index.ends[i - 1] : 0))
            abort();
    if (index.tokens > 0 && index.ends[index.ends_count - 1] != index.tokens)
        abort();
    token_index_deinit(&index);
    return 0;
}

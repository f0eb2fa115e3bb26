/*
 * url_list — fuzz target: patterns of shard names (shards/dataset/url_list.h). The expansion is
 * bounded.
 */
#include "shards/dataset/url_list.h"
#include "shards/dataset/dataset.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct url_list list = {0};
    struct err err;
    char *text = fuzz_text(data, bytes);
    if (!text)
        return 0;
    if (url_list_expand(&list, text, &err) == 0) {
        if (list.count > DATASET_SHARDS_MAX)
            abort();
        for (size_t i = 0; i < list.count; i++) {
            if (strlen(list.urls[i]) >= IO_PATH_BYTES_MAX)
                abort();
        }
    }
    url_list_deinit(&list);
    free(text);
    return 0;
}

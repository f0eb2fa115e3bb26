/*
 * manifest — fuzz target: manifest.json of a checkpoint (ckpt/manifest.h). Its CRC is made right first.
 */
#include "ckpt/manifest.h"
#include "base/crc.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void mend_sum(char *text, size_t bytes)
{
    static const char head[] = "{\"crc32c\":\"";
    size_t at = sizeof head - 1;
    char digits[9];
    if (bytes < at + 8 || memcmp(text, head, at) != 0)
        return;
    memcpy(text + at, "00000000", 8);
    snprintf(digits, sizeof digits, "%08x", (unsigned)crc32c(0, text, bytes));
    memcpy(text + at, digits, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct manifest manifest;
    struct err err;
    char *text = malloc(bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    mend_sum(text, bytes);
    if (manifest_parse(text, bytes, "manifest.json", &manifest, &err) == 0) {
        for (uint64_t i = 0; i < manifest.tensors_count; i++) {
            if (manifest_find(&manifest, manifest.tensors[i].name) != &manifest.tensors[i])
                abort();
        }
        manifest_deinit(&manifest);
    }
    free(text);
    return 0;
}

/*
 * manifest — fuzz target: manifest.json of a checkpoint (ckpt/format/manifest.h). The target
 * corrects its CRC first.
 */
#include "ckpt/format/manifest.h"
#include "base/crc.h"
#include "base/json/jsonx_scan.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fix_checksum(char *text, size_t bytes)
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

/* A space before the tensors forces the general JSON parser instead of the scanner; the result
 * must be the same. */
static void check_general_parser(const char *text, size_t bytes, const struct manifest *expected)
{
    struct jsonx_span tensors;
    struct manifest found;
    struct err err;
    char *spaced = malloc(bytes + 2);
    if (!spaced)
        return;
    if (!jsonx_scan_member(text, bytes, "tensors", &tensors) || bytes + 1 > MANIFEST_BYTES_MAX) {
        free(spaced);
        return;
    }
    memcpy(spaced, text, tensors.begin + 1);
    spaced[tensors.begin + 1] = ' '; /* after the bracket */
    memcpy(spaced + tensors.begin + 2, text + tensors.begin + 1, bytes - tensors.begin - 1);
    fix_checksum(spaced, bytes + 1);
    if (manifest_parse(spaced, bytes + 1, "manifest.json", &found, &err) ||
        found.tensors_count != expected->tensors_count)
        abort();
    for (uint64_t i = 0; i < found.tensors_count; i++) {
        const struct manifest_tensor *a = &expected->tensors[i], *b = &found.tensors[i];
        if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->rank != b->rank ||
            memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) != 0 ||
            a->chunks_count != b->chunks_count ||
            memcmp(a->chunks, b->chunks, a->chunks_count * sizeof *a->chunks) != 0)
            abort();
    }
    manifest_deinit(&found);
    free(spaced);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct manifest manifest;
    struct err err;
    char *text = fuzz_text(data, bytes);
    if (!text)
        return 0;
    fix_checksum(text, bytes);
    if (manifest_parse(text, bytes, "manifest.json", &manifest, &err) == 0) {
        check_general_parser(text, bytes, &manifest);
        for (uint64_t i = 0; i < manifest.tensors_count; i++) {
            if (manifest_find_tensor(&manifest, manifest.tensors[i].name) != &manifest.tensors[i])
                abort();
        }
        manifest_deinit(&manifest);
    }
    free(text);
    return 0;
}

/*
 * tar — fuzz target: the headers of a plain tar (shards/format/tar.h).
 */
#include "shards/format/tar.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_input(void *context, uint64_t offset, void *data, size_t bytes)
{
    const struct memory_io *memory = context;
    if (offset > memory->bytes || bytes > memory->bytes - offset)
        return -ENODATA;
    memcpy(data, memory->data + offset, bytes);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct memory_io memory;
    struct tar_member member = {.kind = TAR_FILE};
    struct err err;
    memory_io_init(&memory, data, bytes);
    struct tar_scanner scanner = {
        .read = read_input, .context = &memory, .path = "input", .file_bytes = bytes};
    uint64_t before = 0;
    while (tar_scan(&scanner, &member, &err) == 0 && member.kind != TAR_END) {
        /* Each member must start after the previous one and end within the file; otherwise a scan
         * might never end. */
        if (member.data_offset <= before || member.data_offset > bytes ||
            member.size_bytes > bytes - member.data_offset)
            abort();
        before = member.data_offset;
    }
    tar_scanner_deinit(&scanner);
    return 0;
}

/*
 * lease — fuzz target: the file of a lease (io/local/lease.h). An accepted record is written back
 * unchanged.
 */
#include "io/local/lease.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct lease_record record;
    char text[LEASE_TEXT_BYTES_MAX];
    if (lease_parse((const char *)data, bytes, &record) == 0 &&
        (lease_format(&record, text) != bytes || memcmp(text, data, bytes) != 0))
        abort();
    return 0;
}

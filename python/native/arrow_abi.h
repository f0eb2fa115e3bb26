/*
 * arrow_abi — the binary interface of Apache Arrow, by which columns are read without copies
 * (https://arrow.apache.org/docs/format/CDataInterface.html). Names are ours; the layouts are
 * Arrow's.
 */
#ifndef MILLRACE_PYTHON_ARROW_ABI_H
#define MILLRACE_PYTHON_ARROW_ABI_H

#include <stdint.h>

/* Names of the capsules that __arrow_c_array__ returns. Their destructors release the structs. */
#define ARROW_SCHEMA_CAPSULE "arrow_schema"
#define ARROW_ARRAY_CAPSULE  "arrow_array"

struct arrow_schema {
    const char *format; /* the type: "u" is UTF-8 with 32-bit offsets */
    const char *name;
    const char *metadata;
    int64_t flags, children_count;
    struct arrow_schema **children;
    struct arrow_schema *dictionary; /* NULL: values are stored, not their numbers */
    void (*release)(struct arrow_schema *schema);
    void *private_data;
};

struct arrow_array {
    int64_t length, null_count; /* null_count -1: not counted */
    int64_t offset;             /* of the first value in the buffers, in values */
    int64_t buffers_count, children_count;
    const void **buffers; /* the first: a bit for each value, 0: null; NULL: none is null */
    struct arrow_array **children;
    struct arrow_array *dictionary;
    void (*release)(struct arrow_array *array);
    void *private_data;
};

#endif

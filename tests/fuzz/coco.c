/*
 * coco — fuzz target: an annotation file of COCO (convert/source/coco_file.h). Each annotation that
 * the pass finds lies in the file, and is valid when it is read again.
 */
#include "convert/source/coco_file.h"
#include "tests/fuzz/fuzz.h"

static void check(enum coco_kind kind, struct memory_io *memory)
{
    struct coco_file file = {.path = "input", .kind = kind};
    struct coco_listing listing = {0};
    struct coco_object object;
    struct err err;
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        abort();
    if (coco_file_list(&file, &memory->io, NULL, hash, &listing, &err) == 0) {
        const struct coco_reference *references =
            (const struct coco_reference *)(const void *)listing.references.data;
        for (size_t i = 0; i < listing.references.bytes / sizeof *references; i++) {
            const struct coco_reference *reference = &references[i];
            if (reference->offset + reference->bytes > memory->bytes ||
                coco_object_parse(kind, (const char *)memory->data + reference->offset,
                                  reference->bytes, "input", reference->offset, &object, &err) ||
                object.image_id != reference->image_id)
                abort();
            jsonx_free(object.root);
        }
    } else if (err.offset > (int64_t)memory->bytes) {
        abort();
    }
    coco_listing_deinit(&listing);
    hash_stream_close(hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct memory_io memory;
    memory_io_init(&memory, data, bytes);
    check(COCO_OBJECTS, &memory);
    check(COCO_CAPTIONS, &memory);
    return 0;
}

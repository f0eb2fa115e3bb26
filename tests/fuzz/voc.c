/*
 * voc — fuzz target: an annotation file of Pascal VOC (convert/source/voc_object.h), and with it
 * XML (convert/source/xml.h).
 */
#include "convert/source/voc_object.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct voc_annotation annotation = {0};
    struct err err;
    int status = voc_annotation_parse(&annotation, (const char *)data, bytes, "input", &err);
    for (size_t i = 0; i < voc_objects_count(&annotation) && !status; i++) {
        const struct voc_object *object = &voc_objects(&annotation)[i];
        if (object->name_at >= annotation.names.bytes || !annotation.names.data[object->name_at] ||
            object->box[2] < object->box[0] || object->box[3] < object->box[1])
            abort();
    }
    if (status && err.offset > (int64_t)bytes)
        abort();
    voc_annotation_deinit(&annotation);
    return 0;
}

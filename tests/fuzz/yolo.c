/*
 * yolo — fuzz target: a label file of YOLO (convert/source/yolo_label.h).
 */
#include "convert/source/yolo_label.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    enum { CLASSES_COUNT = 10 };
    struct yolo_label label = {0};
    struct err err;
    int status = yolo_label_parse(&label, (const char *)data, bytes, CLASSES_COUNT, "input", &err);
    size_t end = 0;
    for (size_t i = 0; i < yolo_objects_count(&label) && !status; i++) {
        const struct yolo_object *object = &yolo_objects(&label)[i];
        if (object->class_number >= CLASSES_COUNT || object->polygon_at != end ||
            !(object->box[2] >= 0) || !(object->box[3] >= 0))
            abort();
        end += object->polygon_count;
    }
    if (!status && end != label.polygons.bytes / sizeof(double))
        abort();
    yolo_label_deinit(&label);
    return 0;
}

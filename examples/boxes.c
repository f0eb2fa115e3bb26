/*
 * boxes — streams a detection dataset as batches of augmented images with their boxes and classes.
 *
 *     millrace convert dataset coco shards
 *     cc boxes.c $(pkg-config --cflags --libs millrace) -o boxes
 *     ./boxes shards
 *
 * Prints a line for each box of the first epoch: the sample's key, the class, and the corners in
 * pixels of the 224 x 224 image. A training loop would copy the arrays instead.
 */
#include <millrace/loader.h>

#include <inttypes.h>
#include <stdio.h>

/* Item i has the values offsets[i] to offsets[i + 1] - 1: four for each box, one for each class. */
static void print_boxes(const struct batch *batch, const struct loader_schema *schema)
{
    const struct batch_field *boxes = batch_field_named(batch, "boxes");
    const struct batch_field *classes = batch_field_named(batch, "classes");
    for (uint32_t i = 0; i < batch->items_count; i++) {
        const struct batch_item *item = &batch->items[i];
        const float *box = (const float *)boxes->data + boxes->offsets[i];
        const int64_t *class = (const int64_t *)classes->data + classes->offsets[i];
        int64_t count = classes->offsets[i + 1] - classes->offsets[i];
        for (int64_t k = 0; k < count; k++, box += 4)
            printf("%.*s  %s  %.1f %.1f %.1f %.1f\n", (int)item->key_bytes, item->key,
                   class[k] >= 0 && (uint64_t) class[k] < schema -> classes_count
                   ? schema -> classes[class[k]]
                   : "unknown",
                   (double)box[0], (double)box[1], (double)box[2], (double)box[3]);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: boxes DATASET\n");
        return 2;
    }
    const struct loader_field fields[] = {
        {.name = "boxes",
         .from = "json",
         .path = "$.boxes",
         .decode = LOADER_FIELD_BOXES,
         .follows = "image",
         .box_format = LOADER_BOX_XYWH,
         .visible_min = 0.1},
        {.name = "classes",
         .from = "json",
         .path = "$.classes",
         .decode = LOADER_FIELD_ARRAY,
         .dtype = DTYPE_I64,
         .rank = 1,
         .follows = "boxes"},
    };
    struct loader_options options = loader_options_default();
    options.dataset = argv[1];
    options.seed = 7;
    options.epochs_max = 1;
    options.batching = (struct batching){.global = 16, .micro = 8, .ranks = 1};
    options.decode = LOADER_IMAGE;
    options.image.width = options.image.height = 224;
    options.image.crop = crop_options_default(CROP_RANDOM);
    options.image.crop.flip = true;
    options.fields = fields;
    options.fields_count = 2;

    struct err err = {0};
    struct loader *loader = NULL;
    const struct batch *batch;
    int status = loader_open(&options, &loader, &err);
    if (!status)
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            print_boxes(batch, loader_schema(loader));
            loader_release(loader, batch);
        }
    loader_close(loader);
    if (status < 0) {
        char line[ERR_LINE_BYTES_MAX];
        fprintf(stderr, "boxes: %s\n", err_format(&err, line, sizeof line));
        return 1;
    }
    return 0;
}

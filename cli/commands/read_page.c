#include "cli/commands/read_page.h"

#include "cli/core/storage.h"
#include "cli/report/page.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static const char *const crop_names[] = {
    [CROP_NONE] = "none", [CROP_CENTER] = "center", [CROP_RANDOM] = "random"};

static void show_image_options(struct str *out, const struct loader_options *options)
{
    const struct augment_options *augment = &options->image.augment;
    const struct mixup_options *mixup = &options->image.mixup;
    page_fact(out, "image", "%" PRIu32 " x %" PRIu32 " pixels", options->image.width,
              options->image.height);
    page_fact(out, "crop", "%s", crop_names[options->image.crop.kind]);
    page_fact(out, "flip", "%s", options->image.crop.flip ? "with probability 1/2" : "no");
    if (augment->randaugment_ops)
        page_fact(out, "RandAugment", "%" PRIu32 " operations of magnitude %" PRIu32,
                  augment->randaugment_ops, augment->randaugment_magnitude);
    if (augment_has_jitter(augment))
        page_fact(out, "color jitter", "%g, %g, %g, %g", augment->brightness, augment->contrast,
                  augment->saturation, augment->hue);
    if (mixup_is_on(mixup))
        page_fact(out, "mixup, cutmix", "%g, %g", mixup->mixup_alpha, mixup->cutmix_alpha);
}

static void show_facts(struct str *out, const struct page_items *items,
                       const struct loader_options *options, uint64_t samples)
{
    page_facts_begin(out, "Summary");
    page_fact(out, "samples shown", "%" PRIu64 " of %" PRIu64, items->count, samples);
    page_fact(out, "order", "%s", order_kind_name(loader_shape(items->options.loader).order.kind));
    page_fact(out, "seed", "%" PRIu64, options->seed);
    page_fact(out, "epoch", "%" PRIu32, options->epoch);
    if (options->decode == LOADER_IMAGE)
        show_image_options(out, options);
    page_facts_end(out);
}

static void show_sources(struct str *out, const struct loader *loader)
{
    static const struct page_column columns[] = {{"dataset", false}, {"weight", true}};
    const struct loader_dataset *list;
    uint32_t count = loader_datasets(loader, &list);
    if (count == 1)
        return;
    page_table_begin(out, "Datasets", NULL, "Datasets and their weights", columns,
                     sizeof columns / sizeof columns[0]);
    for (uint32_t i = 0; i < count; i++) {
        page_row_begin(out);
        page_cell(out, list[i].path);
        page_count(out, list[i].weight);
        page_row_end(out);
    }
    page_table_end(out);
}

static void show_fields(struct str *out, char *const *specs, uint32_t count)
{
    static const struct page_column columns[] = {{"NAME=SPEC of --field", false}};
    if (count == 0)
        return;
    page_table_begin(out, "Fields", NULL, "Requested fields", columns, 1);
    for (uint32_t i = 0; i < count; i++) {
        page_row_begin(out);
        page_cell(out, specs[i]);
        page_row_end(out);
    }
    page_table_end(out);
}

int read_page_write(const struct page_items *items, const struct loader_options *options,
                    char *const *specs, uint64_t samples, const char *path, bool force,
                    uint64_t *ret_bytes, struct err *err)
{
    const struct loader_dataset *list;
    struct str page = {0};
    struct io *io = NULL;
    loader_datasets(items->options.loader, &list);
    page_begin(&page, "samples as a model gets them", "read", list[0].path);
    show_facts(&page, items, options, samples);
    page_items_show(
        items, "Samples",
        options->decode == LOADER_IMAGE
            ? "Decoded, cropped, flipped and augmented; compressed again as JPEGs. Each "
              "has its position in the epoch and its key."
            : "Each has its position in the epoch and its key.",
        &page);
    show_sources(&page, items->options.loader);
    show_fields(&page, specs, options->fields_count);
    page_end(&page);
    int status = str_status(&page) ? err_set(err, -ENOMEM, "out of memory for a page")
                                   : storage_open_target(path, &io, err);
    if (!status)
        status = io_write_file(io, path, page.data, page.bytes, force, err);
    *ret_bytes = page.bytes;
    io_close(io);
    str_deinit(&page);
    return status;
}

#include "cli/report/page_dataset.h"

#include "base/json/jsonx.h"
#include "cli/report/page.h"
#include "cli/report/page_chart.h"
#include "cli/report/page_items.h"
#include "cli/report/page_sheet.h"
#include "cli/report/page_tokens.h"
#include "cli/report/page_values.h"
#include "cli/report/survey.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    TEXTS_MAX = 6,
    CLASSES_MAX = 200, /* rows */
    SHARDS_MAX = 500,  /* rows */
    SIDE_BINS_MAX = 40,
    SIDE_BINS_TARGET = 16,
    CLASS_NAME_BYTES_MAX = 256,
    ITEMS_MAX = 48, /* samples with requested fields */
    ITEMS_MICRO = 8,
    ITEMS_SIDE_PIXELS = 320,
};

struct source {
    const struct page_dataset_options *options;
    struct dataset *dataset; /* NULL for a shard */
    struct survey survey;
    struct page_sheet sheet;
    struct loader *loader; /* of the requested fields; NULL: none are */
    struct page_items items;
    struct str texts;
    uint64_t texts_count;
};

static const struct dataset_text *text_layout(const struct source *source)
{
    bool has_layout = source->dataset && source->dataset->text.element[0];
    return has_layout ? &source->dataset->text : NULL;
}

static int add_sample(void *context, struct survey *survey, const struct survey_sample *sample,
                      struct err *err)
{
    struct source *source = context;
    if (shard_index_find(sample->shard->index, "npy") < 0)
        return page_sheet_add(&source->sheet, survey, sample, err);
    if (source->texts_count == TEXTS_MAX)
        return 0;
    source->texts_count++;
    return page_tokens_add(survey, sample, text_layout(source), &source->texts, err);
}

static void show_facts(struct str *out, const struct source *source)
{
    const struct survey *survey = &source->survey;
    const struct dataset *dataset = source->dataset;
    char size[STR_SIZE_BYTES];
    uint64_t bytes = 0, file_bytes = dataset ? dataset_file_bytes(dataset) : 0;
    for (uint32_t i = 0; i < survey->fields_count; i++)
        bytes += survey->fields[i].bytes;
    page_facts_begin(out, "Summary");
    page_fact(out, "samples", "%" PRIu64, dataset ? dataset->samples : survey->samples);
    if (dataset) {
        page_fact(out, "shards", "%" PRIu64, dataset->shards_count);
        page_fact(out, "size", "%s", str_format_size(file_bytes, size));
        page_fact(out, "mean sample", "%s", str_format_size(dataset->mean_sample_bytes, size));
        if (dataset->classes_count > 0)
            page_fact(out, "classes", "%" PRIu64, dataset->classes_count);
        page_fact(out, "fingerprint", "%016" PRIx64, dataset->fingerprint);
    } else {
        page_fact(out, "size of all fields", "%s", str_format_size(bytes, size));
    }
    if (text_layout(source)) {
        page_fact(out, "tokens", "%" PRIu64, dataset->text.tokens);
        page_fact(out, "tokenizer", "%s", dataset->text.tokenizer);
        page_fact(out, "vocabulary", "%" PRIu32, dataset->text.vocabulary);
        page_fact(out, "tokens per member", "%" PRIu64, dataset->text.member_tokens);
        page_fact(out, "stored as", "%s", dataset->text.element);
        page_fact(out, "end of document", "token %" PRIu32, dataset->text.document_end);
    }
    page_facts_end(out);
}

static void show_samples(struct str *out, const struct source *source)
{
    const struct page_sheet *sheet = &source->sheet;
    char note[128];
    if (sheet->count > 0) {
        snprintf(note, sizeof note,
                 "%" PRIu64 " of %" PRIu64 " samples, evenly spaced, in shard order.", sheet->count,
                 source->dataset ? source->dataset->samples : source->survey.samples);
        page_section_begin(out, "Samples", note);
        str_add_text(out, "<div class=\"sheet\">\n");
        str_add(out, sheet->figures.data, sheet->figures.bytes);
        str_add_text(out, "</div>\n");
        page_section_end(out);
    }
    if (source->items.count > 0) {
        snprintf(note, sizeof note, "%" PRIu64 " of %" PRIu64 " samples, drawn at random.",
                 source->items.count, loader_shape(source->loader).samples);
        page_items_show(&source->items, "Samples", note, out);
    }
    if (source->texts_count > 0) {
        page_section_begin(out, "Samples of text", "The beginnings of evenly spaced members.");
        str_add(out, str_text(&source->texts), source->texts.bytes);
        page_section_end(out);
    }
}

static const char *bytes_text(double edge, char text[CHART_TICK_BYTES])
{
    char size[STR_SIZE_BYTES];
    snprintf(text, CHART_TICK_BYTES, "%s", str_format_size((uint64_t)(edge + .5), size));
    return text;
}

static void show_sizes(struct str *out, const struct survey *survey)
{
    double edges[SURVEY_SIZE_BINS + 1];
    size_t first = 0, end = SURVEY_SIZE_BINS;
    while (first < end && survey->size_bins[first] == 0)
        first++;
    while (end > first && survey->size_bins[end - 1] == 0)
        end--;
    for (size_t i = first; i <= end; i++)
        edges[i] = exp2((double)i / 2);
    struct chart_histogram histogram = {.title = "Sample size",
                                        .x_name =
                                            "bytes of all fields, in half steps of powers of two",
                                        .edges = edges + first,
                                        .counts = survey->size_bins + first,
                                        .count = end - first,
                                        .edge_text = bytes_text};
    chart_draw_histogram(out, &histogram);
}

static void show_image_sides(struct str *out, const struct survey *survey, bool is_height)
{
    double edges[SIDE_BINS_MAX + 1];
    uint64_t counts[SIDE_BINS_MAX] = {0};
    uint32_t min = UINT32_MAX, max = 0;
    for (uint64_t i = 0; i < survey->image_sizes_count; i++) {
        uint32_t side = is_height ? survey->image_sizes[i].height : survey->image_sizes[i].width;
        min = side < min ? side : min;
        max = side > max ? side : max;
    }
    if (max == 0)
        return;
    double step = fmax(1, chart_tick_spacing(max - min + 1, SIDE_BINS_TARGET)),
           begin = floor(min / step) * step;
    size_t bins = 0;
    for (uint64_t i = 0; i < survey->image_sizes_count; i++) {
        uint32_t side = is_height ? survey->image_sizes[i].height : survey->image_sizes[i].width;
        size_t bin = (size_t)((side - begin) / step);
        bin = bin < SIDE_BINS_MAX ? bin : SIDE_BINS_MAX - 1;
        counts[bin]++;
        bins = bin >= bins ? bin + 1 : bins;
    }
    for (size_t i = 0; i <= bins; i++)
        edges[i] = begin + (double)i * step;
    struct chart_histogram histogram = {.title = is_height ? "Photo height" : "Photo width",
                                        .x_name = "pixels, as stored",
                                        .edges = edges,
                                        .counts = counts,
                                        .count = bins,
                                        .edge_text = chart_format_number};
    chart_draw_histogram(out, &histogram);
}

static void show_histograms(struct str *out, const struct survey *survey)
{
    struct str note = {0};
    str_add_format(&note, "Sizes of %" PRIu64 " samples.", survey->samples);
    if (survey->image_sizes_count > 0 && survey->image_sizes_count < survey->samples)
        str_add_format(&note, " Widths and heights of %" PRIu64 " evenly spaced ones.",
                       survey->image_sizes_count);
    if (survey->images_bad_count > 0)
        str_add_format(&note, " %" PRIu64 " photos have no readable headers.",
                       survey->images_bad_count);
    chart_group_begin(out, "Sizes", str_text(&note));
    str_deinit(&note);
    show_sizes(out, survey);
    show_image_sides(out, survey, false);
    show_image_sides(out, survey, true);
    chart_group_end(out);
}

static void show_classes(struct str *out, const struct source *source)
{
    static const struct page_column columns[] = {
        {"number", true}, {"name", false}, {"samples", true}, {"", false}};
    const struct survey *survey = &source->survey;
    uint64_t classes = source->dataset ? source->dataset->classes_count : 0, max = 1;
    classes = survey->classes_end > classes ? survey->classes_end : classes;
    if (classes == 0)
        return;
    for (uint64_t i = 0; i < survey->classes_end; i++)
        max = survey->class_counts[i] > max ? survey->class_counts[i] : max;
    struct str note = {0};
    str_add_format(&note, "Counted in %" PRIu64 " samples.", survey->labels_count);
    if (survey->labels_bad_count > 0)
        str_add_format(&note, " %" PRIu64 " have no valid number in cls.",
                       survey->labels_bad_count);
    if (classes > CLASSES_MAX)
        str_add_format(&note, " The first %d of %" PRIu64 " are listed.", CLASSES_MAX, classes);
    page_table_begin(out, "Classes", str_text(&note), "Classes and their sample counts", columns,
                     sizeof columns / sizeof columns[0]);
    str_deinit(&note);
    for (uint64_t i = 0; i < classes && i < CLASSES_MAX; i++) {
        char name[CLASS_NAME_BYTES_MAX];
        page_row_begin(out);
        page_count(out, i);
        page_cell(out, page_class_name(source->dataset, (int64_t)i, name, sizeof name));
        page_count(out, survey->class_counts[i]);
        page_bar(out, (double)survey->class_counts[i] / (double)max);
        page_row_end(out);
    }
    page_table_end(out);
}

static void show_fields(struct str *out, const struct survey *survey)
{
    static const struct page_column columns[] = {{"field", false},   {"samples", true},
                                                 {"total", true},    {"mean", true},
                                                 {"smallest", true}, {"largest", true}};
    page_table_begin(out, "Fields", NULL, "Fields and their sizes", columns,
                     sizeof columns / sizeof columns[0]);
    for (uint32_t i = 0; i < survey->fields_count; i++) {
        const struct survey_field *field = &survey->fields[i];
        page_row_begin(out);
        page_cell(out, field->extension);
        page_count(out, field->count);
        page_size(out, field->bytes);
        page_size(out, field->bytes / field->count);
        page_size(out, field->min_bytes);
        page_size(out, field->max_bytes);
        page_row_end(out);
    }
    page_table_end(out);
}

static void show_shards(struct str *out, const struct dataset *dataset, const struct survey *survey)
{
    static const struct page_column columns[] = {
        {"shard", false}, {"samples", true}, {"size", true}, {"xxh3 of the file", false}};
    char hex[17];
    struct str note = {0};
    if (survey->shards_count < dataset->shards_count)
        str_add_format(&note,
                       "Sizes, fields and classes above are those of %" PRIu64
                       " evenly spaced shards. ",
                       survey->shards_count);
    if (dataset->shards_count > SHARDS_MAX)
        str_add_format(&note, "The first %d of %" PRIu64 " are listed.", SHARDS_MAX,
                       dataset->shards_count);
    page_table_begin(out, "Shards", str_text(&note), "Shards and their sizes", columns,
                     sizeof columns / sizeof columns[0]);
    str_deinit(&note);
    for (uint64_t i = 0; i < dataset->shards_count && i < SHARDS_MAX; i++) {
        const struct dataset_shard *shard = &dataset->shards[i];
        page_row_begin(out);
        page_cell(out, shard->url);
        page_count(out, shard->samples);
        page_size(out, shard->file_bytes);
        snprintf(hex, sizeof hex, "%016" PRIx64, shard->xxh3);
        page_cell(out, hex);
        page_row_end(out);
    }
    page_table_end(out);
}

static int show_options(struct str *out, const struct dataset *dataset, struct err *err)
{
    struct json_t *root;
    if (dataset->options_json.bytes == 0)
        return 0;
    int status = jsonx_parse(dataset->options_json.data, dataset->options_json.bytes, dataset->path,
                             0, &root, err);
    if (status)
        return status;
    page_values_table(out, "Converted with", NULL, "Conversion options", root);
    jsonx_free(root);
    return 0;
}

static void show_all(struct str *out, const struct source *source)
{
    page_begin(out, source->dataset ? "dataset" : "shard", "inspect", source->options->path);
    show_facts(out, source);
    show_samples(out, source);
    if (!text_layout(source))
        show_histograms(out, &source->survey);
    show_classes(out, source);
    show_fields(out, &source->survey);
}

/* ---- Requested fields. ---- */

static bool has_images(const struct survey *survey)
{
    for (uint32_t i = 0; i < survey->fields_count; i++)
        for (size_t e = 0; image_extensions[e]; e++)
            if (strcmp(survey->fields[i].extension, image_extensions[e]) == 0)
                return true;
    return false;
}

/* The fields that the loader decodes: images whole, not cropped. */
struct item_fields {
    struct loader_field list[LOADER_FIELDS_MAX];
    struct str stored_names[LOADER_FIELDS_MAX];
    uint32_t count;
};

static void deinit_fields(struct item_fields *fields)
{
    for (uint32_t f = 0; f < LOADER_FIELDS_MAX; f++)
        str_deinit(&fields->stored_names[f]);
}

/* Adds the stored bytes of an image, if there is room: else the page shows what is decoded. */
static int add_stored(struct item_fields *fields, const char *name, const char *from,
                      struct err *err)
{
    if (fields->count == LOADER_FIELDS_MAX)
        return 0;
    struct str *stored_name = &fields->stored_names[fields->count];
    str_add_format(stored_name, PAGE_ITEMS_STORED "%s", name);
    if (str_status(stored_name))
        return err_set(err, -ENOMEM, "out of memory for a field");
    fields->list[fields->count++] =
        (struct loader_field){.name = str_text(stored_name), .from = from};
    return 0;
}

/* Adds the requested fields, and the stored bytes of each image. image: extensions of that of
 * LOADER_IMAGE; NULL: none. */
static int add_fields(const struct page_dataset_options *page, const char *image,
                      struct item_fields *fields, struct err *err)
{
    memcpy(fields->list, page->fields, page->fields_count * sizeof fields->list[0]);
    fields->count = page->fields_count;
    int status = image ? add_stored(fields, "image", image, err) : 0;
    for (uint32_t f = 0; f < page->fields_count && !status; f++) {
        struct loader_field *field = &fields->list[f];
        if (field->decode != LOADER_FIELD_IMAGE)
            continue;
        field->normalize = normalize_options_default();
        status = add_stored(fields, field->name, field->from, err);
        if (field->follows)
            continue;
        field->image.width = field->image.height = ITEMS_SIDE_PIXELS;
        field->image.crop = crop_options_default(CROP_NONE);
        field->image.augment = (struct augment_options){0};
    }
    return status;
}

static int open_items(struct io *io, struct source *source, struct item_fields *fields,
                      struct err *err)
{
    const struct page_dataset_options *page = source->options;
    struct loader_options options = loader_options_default();
    options.dataset = page->path;
    options.io = io;
    options.order = ORDER_FULL;
    options.batching = (struct batching){.global = ITEMS_MAX, .micro = ITEMS_MICRO, .ranks = 1};
    options.positions_max = ITEMS_MAX;
    options.epochs_max = 1;
    options.bad_policy = LOADER_BAD_SKIP;
    options.bad_fraction_max = 1;
    options.log = page->log;
    options.decode = has_images(&source->survey) ? LOADER_IMAGE : LOADER_RECORD;
    options.image.width = options.image.height = ITEMS_SIDE_PIXELS;
    options.image.crop = crop_options_default(CROP_NONE);
    int status =
        add_fields(page, options.decode == LOADER_IMAGE ? options.image.field : NULL, fields, err);
    options.fields = fields->list;
    options.fields_count = fields->count;
    if (!status)
        status = loader_open(&options, &source->loader, err);
    if (status)
        return status;
    struct page_items_options items = {.loader = source->loader,
                                       .fields = page->fields,
                                       .fields_count = page->fields_count,
                                       .has_image = options.decode == LOADER_IMAGE,
                                       .shows_stored = true,
                                       .side_pixels = ITEMS_SIDE_PIXELS};
    return page_items_open(&source->items, &items, err);
}

static int read_items(struct io *io, struct source *source, struct err *err)
{
    const struct batch *batch;
    struct item_fields fields = {0};
    int status = open_items(io, source, &fields, err);
    deinit_fields(&fields);
    while (!status && (status = loader_next(source->loader, &batch, err)) == LOADER_BATCH) {
        status = 0;
        for (uint32_t n = 0; n < batch->items_count && !status; n++)
            status = page_items_add(&source->items, batch, n, err);
        loader_release(source->loader, batch);
    }
    return status;
}

int page_dataset_build(struct io *io, const struct page_dataset_options *options, struct str *out,
                       struct err *err)
{
    struct source source = {.options = options};
    int status = options->is_shard ? 0 : dataset_open(io, options->path, &source.dataset, err);
    if (!status)
        status = page_sheet_open(source.dataset, &source.sheet, err);
    struct survey_options survey = {.dataset = source.dataset,
                                    .path = options->path,
                                    .calls_max = options->fields_count > 0 ? 0
                                                 : text_layout(&source)    ? TEXTS_MAX
                                                                           : SHEET_SAMPLES_MAX,
                                    .on_sample = add_sample,
                                    .context = &source};
    if (!status)
        status = survey_run(io, &survey, &source.survey, err);
    if (!status && options->fields_count > 0)
        status = read_items(io, &source, err);
    if (!status)
        show_all(out, &source);
    if (!status && source.dataset) {
        show_shards(out, source.dataset, &source.survey);
        status = show_options(out, source.dataset, err);
    }
    page_end(out);
    if (!status &&
        (str_status(out) || str_status(&source.texts) || str_status(&source.sheet.figures)))
        status = err_set(err, -ENOMEM, "out of memory for the page of a dataset");
    survey_deinit(&source.survey);
    page_items_close(&source.items);
    loader_close(source.loader);
    page_sheet_close(&source.sheet);
    str_deinit(&source.texts);
    dataset_close(source.dataset);
    return status;
}

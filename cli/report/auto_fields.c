#include "cli/report/auto_fields.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "base/utf8.h"
#include "cli/report/read_fields.h"
#include "image/formats/png.h"
#include "image/pipeline/check.h"
#include "image/rect.h"
#include "io/file_util.h"
#include "io/zstd/seekable_io.h"
#include "shards/dataset/dataset.h"
#include "shards/format/npy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 16, SHARDS_MAX = 64, READ_BYTES_MAX = 4 << 20 };

/* How an extension is decoded. */
struct choice {
    const char *extension;
    uint32_t values_count; /* so far */
    enum loader_field_decode decode;
    enum dtype dtype; /* of arrays and labels */
    uint32_t rank;    /* of arrays */
};

struct look {
    struct io *io;
    struct io_queue *queue;
    struct dataset *dataset;
    struct image_checker *checker;
    struct pixels_memory value, image;
    bool has_image; /* an extension of LOADER_IMAGE */
    bool decodes_images;
    struct choice choices[LOADER_FIELDS_MAX];
    uint32_t count;
};

int auto_fields_check(const struct option_list *specs, bool *ret_is_auto, struct err *err)
{
    *ret_is_auto = false;
    for (size_t i = 0; i < specs->count; i++)
        *ret_is_auto |= strcmp(specs->items[i], "auto") == 0;
    if (!*ret_is_auto || specs->count == 1)
        return 0;
    err_set(err, -EINVAL, "--field auto chooses all fields and cannot be combined with others");
    err_advise(err, "run it alone, and copy the fields that it prints");
    return -EINVAL;
}

/* ---- Values. ---- */

static bool is_kind(const char *extension, const char *kind)
{
    const char *dot = strrchr(extension, '.');
    return strcmp(dot ? dot + 1 : extension, kind) == 0;
}

/* Reads the start of a field. */
static int read_value(struct look *look, const struct shard *shard, const struct shard_field *field,
                      struct pixels_memory *memory, size_t *ret_bytes, struct err *err)
{
    *ret_bytes = bytes_min(field->size_bytes, READ_BYTES_MAX);
    int status = pixels_reserve(memory, *ret_bytes + 1, err);
    return status || *ret_bytes == 0
               ? status
               : io_read_exact(look->queue, look->io, shard->file, shard->path, field->data_offset,
                               memory->data, *ret_bytes, err);
}

/* Sides after the orientation is applied. */
static void turn_upright(struct pixels_info *info)
{
    if (orientation_swaps_sides(info->orientation))
        *info = (struct pixels_info){.width = info->height, .height = info->width};
}

/* *ret_info: zeros if the sample has no image, or a damaged one. */
static int measure_image(struct look *look, const struct shard *shard, uint64_t sample,
                         struct pixels_info *ret_info, struct err *err)
{
    struct shard_field field = {0};
    size_t bytes = 0;
    *ret_info = (struct pixels_info){0};
    for (size_t i = 0; image_extensions[i] && !field.present; i++) {
        int number = shard_index_find(shard->index, image_extensions[i]);
        if (number >= 0)
            shard_index_field(shard->index, sample, (uint32_t)number, &field);
    }
    int status = field.present ? read_value(look, shard, &field, &look->image, &bytes, err) : 0;
    if (!status &&
        image_check_headers(look->checker, look->image.data, bytes, NULL, ret_info, NULL))
        *ret_info = (struct pixels_info){0};
    turn_upright(ret_info);
    return status;
}

/* Chooses labels or an image for a picture that is as large as the image of its sample, and an
 * image of its own size if no sample has one. */
static int look_at_picture(struct look *look, const struct shard *shard, uint64_t sample,
                           size_t bytes, struct choice *value, struct err *err)
{
    struct pixels_info image, picture;
    struct png_traits traits;
    if (image_check_headers(look->checker, look->value.data, bytes, NULL, &picture, NULL))
        return 0;
    bool is_mask = image_kind_of(look->value.data, bytes) == IMAGE_PNG &&
                   png_probe(look->value.data, bytes, &traits) == 0 &&
                   (strcmp(traits.color, "gray") == 0 || strcmp(traits.color, "palette") == 0);
    if (!is_mask)
        turn_upright(&picture);
    if (!look->has_image) {
        value->decode = is_mask ? LOADER_FIELD_BYTES : LOADER_FIELD_IMAGE;
        return 0;
    }
    int status = measure_image(look, shard, sample, &image, err);
    if (status || image.width != picture.width || image.height != picture.height)
        return status;
    value->decode = is_mask ? LOADER_FIELD_LABELS : LOADER_FIELD_IMAGE;
    if (is_mask)
        value->dtype = traits.depth_bits > 8 ? DTYPE_U16 : DTYPE_U8;
    return 0;
}

static bool has_controls(const uint8_t *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && (text[i] >= ' ' || memchr("\t\n\v\f\r", text[i], 5)))
        i++;
    return i < bytes;
}

static enum loader_field_decode kind_of_text(const char *extension, const uint8_t *text,
                                             size_t bytes)
{
    struct json_t *node = NULL;
    enum loader_field_decode decode = LOADER_FIELD_STR;
    if (utf8_valid_bytes(text, bytes) < bytes)
        return LOADER_FIELD_BYTES;
    if (is_kind(extension, "txt"))
        return LOADER_FIELD_STR;
    if (has_controls(text, bytes))
        return LOADER_FIELD_BYTES;
    if (jsonx_parse_value((const char *)text, bytes, "", ERR_NO_OFFSET, &node, NULL))
        return LOADER_FIELD_STR;
    switch (jsonx_kind(node)) {
    case JSON_KIND_INT:
        decode = LOADER_FIELD_INT;
        break;
    case JSON_KIND_REAL:
        decode = LOADER_FIELD_F64;
        break;
    case JSON_KIND_BOOL:
        decode = LOADER_FIELD_BOOL;
        break;
    case JSON_KIND_NULL: /* no value: as JSON, a bad sample */
        break;
    default:
        decode = is_kind(extension, "json") ? LOADER_FIELD_JSON : LOADER_FIELD_STR;
        break;
    }
    jsonx_free(node);
    return decode;
}

/* ---- Choices. ---- */

static bool is_text(enum loader_field_decode decode)
{
    return decode == LOADER_FIELD_STR || decode == LOADER_FIELD_JSON ||
           decode == LOADER_FIELD_INT || decode == LOADER_FIELD_F64 || decode == LOADER_FIELD_BOOL;
}

static bool is_number(enum loader_field_decode decode)
{
    return decode == LOADER_FIELD_INT || decode == LOADER_FIELD_F64;
}

/* How values of both kinds are decoded. */
static enum loader_field_decode widen(const char *extension, enum loader_field_decode a,
                                      enum loader_field_decode b)
{
    if (a == b)
        return a;
    if (!is_text(a) || !is_text(b))
        return LOADER_FIELD_BYTES;
    if (is_number(a) && is_number(b))
        return LOADER_FIELD_F64;
    return is_kind(extension, "json") && a != LOADER_FIELD_STR && b != LOADER_FIELD_STR
               ? LOADER_FIELD_JSON
               : LOADER_FIELD_STR;
}

/* Widens the choice so that it also decodes the value. */
static void add_value(struct choice *choice, const struct choice *value)
{
    if (choice->values_count++ == 0) {
        choice->decode = value->decode;
        choice->dtype = value->dtype;
        choice->rank = value->rank;
    }
    choice->decode = widen(choice->extension, choice->decode, value->decode);
    if (choice->decode == LOADER_FIELD_LABELS && value->dtype == DTYPE_U16)
        choice->dtype = DTYPE_U16;
    if (choice->decode == LOADER_FIELD_ARRAY &&
        (choice->dtype != value->dtype || choice->rank != value->rank))
        choice->decode = LOADER_FIELD_BYTES;
}

static int look_at_value(struct look *look, const struct shard *shard, uint64_t sample,
                         const struct shard_field *field, struct choice *choice, struct err *err)
{
    struct choice value = {.decode = LOADER_FIELD_BYTES};
    struct npy npy;
    size_t bytes;
    int status = read_value(look, shard, field, &look->value, &bytes, err);
    if (status)
        return status;
    const uint8_t *data = look->value.data;
    if (npy_decode_array(data, bytes, field->size_bytes, shard->path, &npy, NULL) == 0) {
        value.decode = LOADER_FIELD_ARRAY;
        value.dtype = npy.dtype;
        value.rank = npy.rank;
    } else if ((look->decodes_images || !look->has_image) &&
               image_kind_of(data, bytes) != IMAGE_UNKNOWN) {
        status = look_at_picture(look, shard, sample, bytes, &value, err);
    } else if (bytes == field->size_bytes) {
        value.decode = kind_of_text(choice->extension, data, bytes);
    }
    add_value(choice, &value);
    return status;
}

static int look_at_shard(struct look *look, const struct shard *shard, struct err *err)
{
    int status = 0;
    for (uint32_t c = 0; c < look->count && !status; c++) {
        struct choice *choice = &look->choices[c];
        int number = shard_index_find(shard->index, choice->extension);
        uint64_t samples = number < 0 ? 0 : shard_index_samples(shard->index);
        for (uint64_t s = 0; s < samples && choice->values_count < VALUES_MAX && !status; s++) {
            struct shard_field field;
            shard_index_field(shard->index, s, (uint32_t)number, &field);
            if (field.present)
                status = look_at_value(look, shard, s, &field, choice, err);
        }
    }
    return status;
}

static bool is_done(const struct look *look)
{
    for (uint32_t c = 0; c < look->count; c++)
        if (look->choices[c].values_count < VALUES_MAX)
            return false;
    return true;
}

static int look_at_dataset(struct look *look, struct err *err)
{
    struct shard *shard;
    int status = look->io->ops->queue_open(look->io, 1, &look->queue, err);
    if (!status)
        status = image_checker_open(&look->checker, err);
    uint64_t shards = bytes_min(look->dataset->shards_count, SHARDS_MAX);
    for (uint64_t i = 0; i < shards && !status && !is_done(look); i++) {
        status = dataset_open_shard(look->io, look->dataset, i, &shard, err);
        if (status)
            break;
        status = look_at_shard(look, shard, err);
        shard_close(shard);
    }
    return status;
}

static bool is_image_or_label(const char *extension)
{
    return strcmp(extension, "cls") == 0 ||
           (is_image_extension(extension) && !strchr(extension, '.'));
}

/* Lists the extensions that are fields. */
static int list_choices(struct look *look, const char *path, const struct log *log, struct err *err)
{
    const struct dataset *dataset = look->dataset;
    struct str others = {0};
    uint32_t count = 0;
    for (uint32_t f = 0; f < dataset->fields_count; f++) {
        const char *extension = dataset->fields[f];
        size_t bytes = strlen(extension);
        if (is_image_or_label(extension)) {
            look->has_image |= is_image_extension(extension);
            str_add_format(&others, "%s%s", others.bytes ? ", " : "", extension);
        } else if (strchr(extension, ';') || utf8_valid_bytes(extension, bytes) < bytes) {
            log_line(log, LOG_WARN, "%s: field \"%s\" is left out: --field cannot name it", path,
                     extension);
        } else if (count++ < LOADER_FIELDS_MAX) {
            look->choices[look->count++].extension = extension;
        }
    }
    int status = 0;
    if (count == 0) {
        status = err_set(err, -EINVAL, "the dataset has no fields besides images and labels");
        err_at(err, path, ERR_NO_OFFSET);
        err_found(err, "%s", str_text(&others));
        err_advise(err, "remove --field auto");
    } else if (count > LOADER_FIELDS_MAX) {
        status = err_set(err, -EINVAL, "the dataset has too many fields to request all");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "at most %d", LOADER_FIELDS_MAX);
        err_found(err, "%" PRIu32, count);
        err_advise(err, "request those that you want with --field NAME=SPEC");
    }
    str_deinit(&others);
    return status;
}

/* ---- Specifications. ---- */

/* A plain YAML scalar, or a quoted one without characters that a shell's '' cannot hold. */
static void add_yaml(struct str *out, const char *text)
{
    bool is_plain = isalnum((unsigned char)text[0]);
    for (size_t i = 0; text[i]; i++)
        is_plain &= isalnum((unsigned char)text[i]) || strchr("._-", text[i]);
    if (!is_plain)
        str_add_text(out, "\"");
    for (size_t i = 0; text[i]; i++) {
        bool is_escaped = iscntrl((unsigned char)text[i]) || strchr("\"\\'", text[i]);
        str_add_format(out, is_escaped ? "\\x%02x" : "%c", (unsigned char)text[i]);
    }
    if (!is_plain)
        str_add_text(out, "\"");
}

static bool is_taken(const struct option_list *specs, const char *name, size_t bytes)
{
    static const char *const others[] = {"image", "label", "partner_label", "label_weight",
                                         "valid"}; /* fields of images */
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strlen(others[i]) == bytes && memcmp(others[i], name, bytes) == 0)
            return true;
    for (size_t i = 0; i < specs->count; i++)
        if (strncmp(specs->items[i], name, bytes) == 0 && specs->items[i][bytes] == '=')
            return true;
    return false;
}

/* Adds the extension, with _ instead of other characters than letters and digits. */
static void add_name(struct str *out, const struct option_list *specs, const char *extension)
{
    for (size_t i = 0; extension[i]; i++) {
        bool is_kept = isalnum((unsigned char)extension[i]) || (extension[i] & 0x80);
        str_add(out, is_kept ? &extension[i] : "_", 1);
    }
    while (is_taken(specs, str_text(out), out->bytes) && !str_status(out))
        str_add_text(out, "_");
}

static int add_spec(const struct look *look, const struct choice *choice, struct option_list *specs,
                    struct err *err)
{
    struct str spec = {0};
    add_name(&spec, specs, choice->extension);
    str_add_text(&spec, "={from: ");
    add_yaml(&spec, choice->extension);
    str_add_format(&spec, ", decode: %s", read_field_decode_name(choice->decode));
    bool is_array = choice->decode == LOADER_FIELD_ARRAY,
         is_mask = choice->decode == LOADER_FIELD_LABELS;
    if (is_mask || choice->decode == LOADER_FIELD_IMAGE)
        str_add_text(&spec, look->has_image ? ", follows: image" : ", size: 224");
    if (is_array || (is_mask && choice->dtype != DTYPE_U8)) {
        str_add_text(&spec, ", dtype: ");
        for (const char *at = dtype_name(choice->dtype); *at; at++)
            str_add_format(&spec, "%c", tolower((unsigned char)*at));
    }
    if (is_array)
        str_add_format(&spec, ", rank: %" PRIu32, choice->rank);
    str_add_text(&spec, "}");
    if (str_status(&spec)) {
        str_deinit(&spec);
        return err_set(err, -ENOMEM, "out of memory for a field");
    }
    specs->items[specs->count++] = spec.data;
    return 0;
}

static int add_specs(const struct look *look, const char *path, const struct log *log,
                     struct option_list *ret_specs, struct err *err)
{
    struct str text = {0};
    int status = 0;
    ret_specs->items = calloc(look->count, sizeof ret_specs->items[0]);
    if (!ret_specs->items)
        return err_set(err, -ENOMEM, "out of memory for fields");
    for (uint32_t c = 0; c < look->count && !status; c++) {
        status = add_spec(look, &look->choices[c], ret_specs, err);
        if (!status)
            str_add_format(&text, " --field '%s'", ret_specs->items[c]);
    }
    if (!status && str_status(&text))
        status = err_set(err, -ENOMEM, "out of memory for fields");
    if (!status)
        log_line(log, LOG_INFO, "%s: fields:%s", path, str_text(&text));
    str_deinit(&text);
    return status;
}

int auto_fields_choose(struct io *io, const char *path, bool decodes_images, const struct log *log,
                       struct option_list *ret_specs, struct err *err)
{
    struct look look = {.decodes_images = decodes_images};
    *ret_specs = (struct option_list){0};
    int status = seekable_io_open(io, 1, &look.io, err);
    if (!status) /* without reports: the loader opens it again */
        status = dataset_open_salvaging(io, path, NULL, &look.dataset, err);
    if (!status)
        status = list_choices(&look, path, log, err);
    if (!status)
        status = look_at_dataset(&look, err);
    if (!status)
        status = add_specs(&look, path, log, ret_specs, err);
    if (look.queue)
        look.io->ops->queue_close(look.queue);
    image_checker_close(look.checker);
    free(look.value.data);
    free(look.image.data);
    dataset_close(look.dataset);
    io_close(look.io);
    return status;
}

void auto_fields_deinit(struct option_list *specs)
{
    for (size_t i = 0; i < specs->count; i++)
        free(specs->items[i]);
    free(specs->items);
}

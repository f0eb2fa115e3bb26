/*
 * dataset_open — see dataset.h. Checks everything that it reads before use.
 */
#include "shards/dataset/dataset.h"

#include "base/json/jsonx_format.h"
#include "base/json/jsonx_scan.h"
#include "io/file_util.h"
#include "shards/dataset/dataset_list.h"
#include "shards/dataset/url_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad_dataset(const struct dataset *dataset, struct err *err, const char *what)
{
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, dataset->path, ERR_NO_OFFSET);
    return -EBADMSG;
}

static int parse_hex(const char *text, size_t digits, uint64_t *ret_value)
{
    if (strlen(text) != digits || strspn(text, "0123456789abcdef") != digits)
        return -EBADMSG;
    *ret_value = strtoull(text, NULL, 16);
    return 0;
}

static int get_hex(const struct dataset *dataset, const struct json_t *object, const char *key,
                   size_t digits, uint64_t *ret_value, struct err *err)
{
    const char *text;
    int status = jsonx_get_string(object, key, &text, dataset->path, err);
    if (!status && parse_hex(text, digits, ret_value)) {
        status = bad_dataset(dataset, err, "bad checksum in dataset.json");
        err_expected(err, "\"%s\" of %zu hexadecimal digits", key, digits);
        err_found(err, "\"%s\"", text);
    }
    return status;
}

/* bytes_max includes the NUL. */
static int get_text(const struct dataset *dataset, const struct json_t *object, const char *key,
                    size_t bytes_max, char *text, struct err *err)
{
    const char *value;
    int status = jsonx_get_string(object, key, &value, dataset->path, err);
    if (!status && strlen(value) >= bytes_max) {
        status = bad_dataset(dataset, err, "string in dataset.json is too long");
        err_expected(err, "\"%s\" of at most %zu bytes", key, bytes_max - 1);
    }
    if (!status)
        strcpy(text, value);
    return status;
}

static int get_number(const struct dataset *dataset, const struct json_t *object, const char *key,
                      uint64_t max, uint64_t *ret_value, struct err *err)
{
    uint64_t value;
    int status = jsonx_get_u64(object, key, &value, dataset->path, err);
    if (!status && value > max) {
        status = bad_dataset(dataset, err, "number in dataset.json is too large");
        err_expected(err, "\"%s\" of at most %" PRIu64, key, max);
        err_found(err, "%" PRIu64, value);
        err_advise(err, "the file was damaged or edited: convert the dataset again");
    }
    if (!status)
        *ret_value = value;
    return status;
}

static int get_u32(const struct dataset *dataset, const struct json_t *object, const char *key,
                   uint32_t *ret_value, struct err *err)
{
    uint64_t value;
    int status = get_number(dataset, object, key, UINT32_MAX, &value, err);
    if (!status)
        *ret_value = (uint32_t)value;
    return status;
}

/* Absent from lists that older versions wrote. */
static int load_index_offset(const struct dataset *dataset, const struct json_t *entry,
                             struct dataset_shard *shard, struct err *err)
{
    uint64_t offset;
    if (!jsonx_get(entry, "index_offset"))
        return 0;
    int status = get_number(dataset, entry, "index_offset", DATASET_SHARD_BYTES_MAX, &offset, err);
    if (status)
        return status;
    if (!shard_index_offset_is_plausible(offset, shard->uncompressed_bytes)) {
        bad_dataset(dataset, err, "bad offset in dataset.json");
        err_expected(err,
                     "\"index_offset\" that is a multiple of 512 from 1024 on, within the last "
                     "1 GiB of the shard's %" PRIu64 " bytes",
                     shard->uncompressed_bytes);
        err_found(err, "%" PRIu64, offset);
        err_advise(err, "the file was damaged or edited: convert the dataset again");
        return -EBADMSG;
    }
    shard->index_offset = offset;
    return 0;
}

static int load_native_shard_keys(const struct dataset *dataset, const struct json_t *entry,
                                  struct dataset_shard *shard, struct err *err)
{
    uint64_t crc;
    int status =
        get_number(dataset, entry, "filesize", DATASET_SHARD_BYTES_MAX, &shard->file_bytes, err);
    shard->uncompressed_bytes = shard->file_bytes;
    if (!status && jsonx_get(entry, "uncompressed_bytes"))
        status = get_number(dataset, entry, "uncompressed_bytes", DATASET_SHARD_BYTES_MAX,
                            &shard->uncompressed_bytes, err);
    if (!status)
        status = get_hex(dataset, entry, "xxh3", 16, &shard->xxh3, err);
    if (!status)
        status = get_hex(dataset, entry, "index_crc32c", 8, &crc, err);
    if (!status)
        shard->index_crc32c = (uint32_t)crc;
    if (!status)
        status = load_index_offset(dataset, entry, shard, err);
    if (!status && jsonx_get(entry, "last_tokens"))
        status = get_number(dataset, entry, "last_tokens", DATASET_SHARD_BYTES_MAX,
                            &shard->last_tokens, err);
    return status;
}

static int load_shard(struct dataset *dataset, const struct json_t *entry, bool is_native,
                      struct dataset_shard *shard, struct err *err)
{
    const char *url;
    int status = jsonx_get_string(entry, "url", &url, dataset->path, err);
    if (!status)
        status = get_number(dataset, entry, "nsamples", UINT32_MAX, &shard->samples, err);
    if (!status && is_native)
        status = load_native_shard_keys(dataset, entry, shard, err);
    if (status)
        return status;
    if (!url[0])
        return bad_dataset(dataset, err, "bad shard in dataset.json");
    shard->url = strdup(url);
    if (!shard->url)
        return err_set(err, -ENOMEM, "out of memory for a list of shards");
    shard->first_sample = dataset->samples;
    dataset->samples += shard->samples; /* at most 2^20 shards of 2^32 samples */
    return dataset->samples <= DATASET_SAMPLES_MAX
               ? 0
               : bad_dataset(dataset, err,
                             "the shards of dataset.json have too many samples in total");
}

static bool count_shards(const char *text, struct jsonx_span list, uint64_t *ret_count)
{
    struct jsonx_span element;
    enum jsonx_scan found;
    uint64_t count = 0;
    while ((found = jsonx_scan_element(text, &list, &element)) == JSON_SCAN_ELEMENT)
        count++;
    *ret_count = count;
    return found == JSON_SCAN_END;
}

/* Parses one element at a time: a JSON tree of all elements would take ten times the memory of
 * the result. */
static int load_shards(struct dataset *dataset, const char *text, struct jsonx_span list,
                       bool is_native, struct err *err)
{
    uint64_t count;
    if (!count_shards(text, list, &count) || count > DATASET_SHARDS_MAX)
        return bad_dataset(dataset, err,
                           "\"shardlist\" of dataset.json is not a list, or is too long");
    dataset->shards = calloc(count + 1, sizeof *dataset->shards);
    if (!dataset->shards)
        return err_set(err, -ENOMEM, "out of memory for a list of shards");
    dataset->shards_count = count;
    int status = 0;
    for (uint64_t i = 0; i < count && !status; i++) {
        struct jsonx_span element;
        struct json_t *entry = NULL;
        jsonx_scan_element(text, &list, &element);
        if (element.end - element.begin > DATASET_SHARD_JSON_BYTES_MAX)
            return bad_dataset(dataset, err, "a shard's entry in dataset.json is too long");
        status = jsonx_parse(text + element.begin, element.end - element.begin, dataset->path,
                             (int64_t)element.begin, &entry, err);
        if (!status)
            status = load_shard(dataset, entry, is_native, &dataset->shards[i], err);
        jsonx_free(entry);
    }
    return status;
}

/* Removes the list's elements from the text and parses the rest. */
static int parse_without_list(struct dataset *dataset, char *text, size_t bytes,
                              struct jsonx_span list, struct json_t **ret_root, struct err *err)
{
    struct err why;
    size_t cut = list.end - list.begin - 2;
    memmove(text + list.begin + 1, text + list.end - 1, bytes - (list.end - 1));
    int status = jsonx_parse(text, bytes - cut, dataset->path, 0, ret_root, &why);
    if (status && why.offset > (int64_t)list.begin)
        why.offset += (int64_t)cut;
    if (status && err)
        *err = why;
    return status;
}

static int load_fields(struct dataset *dataset, const struct json_t *native, struct err *err)
{
    const struct json_t *list = jsonx_get(native, "fields");
    if (!list || jsonx_kind(list) != JSON_KIND_ARRAY || jsonx_count(list) > SHARD_FIELDS_MAX)
        return bad_dataset(dataset, err, "dataset.json has no \"fields\", or too many of them");
    for (size_t i = 0; i < jsonx_count(list); i++) {
        const char *text;
        if (jsonx_text(jsonx_at(list, i), &text) || !text[0] ||
            strlen(text) >= SHARD_EXTENSION_BYTES_MAX)
            return bad_dataset(dataset, err, "bad field name in dataset.json");
        strcpy(dataset->fields[dataset->fields_count++], text);
    }
    return 0;
}

static int load_classes(struct dataset *dataset, const struct json_t *native, struct err *err)
{
    const struct json_t *list = jsonx_get(native, "classes");
    if (!list)
        return 0;
    if (jsonx_kind(list) != JSON_KIND_ARRAY || jsonx_count(list) > DATASET_CLASSES_MAX)
        return bad_dataset(dataset, err,
                           "\"classes\" of dataset.json is not a list, or is too long");
    dataset->classes = calloc(jsonx_count(list) + 1, sizeof *dataset->classes);
    if (!dataset->classes)
        return err_set(err, -ENOMEM, "out of memory for class names");
    for (size_t i = 0; i < jsonx_count(list); i++) {
        const char *text;
        if (jsonx_text(jsonx_at(list, i), &text))
            return bad_dataset(dataset, err, "bad class name in dataset.json");
        dataset->classes[i] = strdup(text);
        if (!dataset->classes[i])
            return err_set(err, -ENOMEM, "out of memory for class names");
        dataset->classes_count = i + 1;
    }
    return 0;
}

static int load_text(struct dataset *dataset, const struct json_t *native, struct err *err)
{
    const struct json_t *node = jsonx_get(native, "text");
    if (!node)
        return 0;
    struct dataset_text *text = &dataset->text;
    int status = get_text(dataset, node, "element", sizeof text->element, text->element, err);
    if (!status)
        status = get_text(dataset, node, "tokenizer", sizeof text->tokenizer, text->tokenizer, err);
    if (!status)
        status = get_u32(dataset, node, "vocabulary", &text->vocabulary, err);
    if (!status)
        status = get_u32(dataset, node, "document_end", &text->document_end, err);
    if (!status)
        status = get_number(dataset, node, "tokens", DATASET_TOKENS_MAX, &text->tokens, err);
    if (!status)
        status = get_number(dataset, node, "member_tokens", DATASET_SHARD_BYTES_MAX,
                            &text->member_tokens, err);
    if (!status)
        status = get_u32(dataset, node, "header_bytes", &text->header_bytes, err);
    const struct json_t *options = jsonx_get(native, "options");
    if (!status && jsonx_get(options, "vocabulary_xxh3"))
        status = get_hex(dataset, options, "vocabulary_xxh3", 16, &text->tokenizer_xxh3, err);
    if (status)
        return status;
    bool known = strcmp(text->element, "uint16") == 0 || strcmp(text->element, "uint32") == 0;
    if (!known || text->vocabulary == 0 || text->document_end >= text->vocabulary ||
        text->member_tokens < 2)
        return bad_dataset(dataset, err, "\"text\" of dataset.json is inconsistent");
    return 0;
}

/* Loads the keys that millrace adds to wids. */
static int load_native_keys(struct dataset *dataset, const struct json_t *root, struct err *err)
{
    const struct json_t *native = jsonx_get(root, "millrace");
    uint64_t version, samples, fingerprint, fingerprint_found = 0;
    int status = jsonx_get_u64(native, "version", &version, dataset->path, err);
    if (status)
        return status;
    if (version != DATASET_VERSION) {
        bad_dataset(dataset, err, "the version of dataset.json is not supported");
        err_expected(err, "version %d", DATASET_VERSION);
        err_found(err, "%" PRIu64, version);
        err_advise(err, "use a newer millrace");
        return -EBADMSG;
    }
    status = jsonx_get_u64(native, "samples", &samples, dataset->path, err);
    if (!status)
        status = get_number(dataset, native, "mean_sample_bytes", DATASET_SHARD_BYTES_MAX,
                            &dataset->mean_sample_bytes, err);
    if (!status)
        status = get_hex(dataset, native, "fingerprint", 16, &fingerprint, err);
    if (!status)
        status = load_fields(dataset, native, err);
    if (!status)
        status = load_classes(dataset, native, err);
    if (!status)
        status = load_text(dataset, native, err);
    if (!status)
        status =
            dataset_fingerprint(dataset->shards, dataset->shards_count, &fingerprint_found, err);
    if (status)
        return status;
    if (samples != dataset->samples || fingerprint != fingerprint_found) {
        bad_dataset(
            dataset, err,
            "dataset.json is inconsistent: its sample count or fingerprint does not match its "
            "shards");
        err_expected(err, "%" PRIu64 " samples, fingerprint %016" PRIx64, samples, fingerprint);
        err_found(err, "%" PRIu64 ", %016" PRIx64, dataset->samples, fingerprint_found);
        return -EBADMSG;
    }
    dataset->fingerprint = fingerprint;
    struct json_t *options = jsonx_get(native, "options");
    if (options) {
        struct jsonx_writer json = {.out = &dataset->options_json};
        jsonx_copy(&json, NULL, options);
        bool keep_order, was_shuffled; /* text has no such option: it is not shuffled */
        dataset->is_shuffled =
            (!jsonx_bool(jsonx_get(options, "keep_order"), &keep_order) && !keep_order) ||
            (!jsonx_bool(jsonx_get(options, "source_was_shuffled"), &was_shuffled) && was_shuffled);
    }
    return str_status(&dataset->options_json)
               ? err_set(err, -ENOMEM, "out of memory for dataset.json")
               : 0;
}

static int load_list(struct io *io, struct dataset *dataset,
                     const struct dataset_scan_options *options, struct err *err)
{
    char *text = NULL;
    size_t bytes;
    struct json_t *root = NULL;
    struct jsonx_span list, extras;
    const char *kind = "";
    bool is_native = false;
    int status = io_read_file(io, dataset->path, DATASET_JSON_BYTES_MAX, &text, &bytes, err);
    if (!status && jsonx_scan_member(text, bytes, "shardlist", &list) && text[list.begin] == '[') {
        is_native = jsonx_scan_member(text, bytes, "millrace", &extras);
        status = load_shards(dataset, text, list, is_native, err);
        if (!status)
            status = parse_without_list(dataset, text, bytes, list, &root, err);
    } else if (!status) {
        status = jsonx_parse(text, bytes, dataset->path, 0, &root, err);
    }
    if (!status)
        status = jsonx_get_string(root, "__kind__", &kind, dataset->path, err);
    if (!status && strcmp(kind, "wids-shard-index-v1") != 0) {
        status = bad_dataset(dataset, err, "the file is not a list of shards");
        err_expected(err, "\"__kind__\": \"wids-shard-index-v1\"");
        err_found(err, "\"%s\"", kind);
    }
    if (!status && (!dataset->shards || is_native != (jsonx_get(root, "millrace") != NULL)))
        status = bad_dataset(dataset, err, "dataset.json has no \"shardlist\"");
    if (!status)
        status = is_native ? load_native_keys(dataset, root, err)
                           : dataset_list_scan(io, dataset, true, options, err);
    jsonx_free(root);
    free(text);
    return status;
}

/* Decides by the file's name, or else by its first byte. */
static int detect_shard(struct io *io, const char *path, bool *ret_is_shard, struct err *err)
{
    struct io_file *file = NULL;
    struct io_queue *queue = NULL;
    char first = '{';
    *ret_is_shard = str_ends_with(path, ".tar") || str_ends_with(path, ".tar.zst");
    if (*ret_is_shard || str_ends_with(path, ".json"))
        return 0;
    int status = io->ops->file_open(io, path, &file, err);
    if (status)
        return status;
    status = io->ops->queue_open(io, 1, &queue, err);
    if (!status && io->ops->file_size(file) > 0)
        status = io_read_exact(queue, io, file, path, 0, &first, 1, err);
    *ret_is_shard = first != '{';
    if (queue)
        io->ops->queue_close(queue);
    io->ops->file_close(file);
    return status;
}

/* Loads one shard, or the expansion of a pattern. The name of an existing file is not a pattern. */
static int scan_shards(struct io *io, const char *path, bool is_pattern, struct dataset *dataset,
                       const struct dataset_scan_options *options, struct err *err)
{
    int status = io_join_path("", path, dataset->path, err);
    if (!status)
        status = dataset_list_urls(dataset, path, is_pattern, err);
    return status ? status : dataset_list_scan(io, dataset, false, options, err);
}

struct dataset_search {
    struct io *io;
    const char *folder;
    char found[IO_PATH_BYTES_MAX];
};

/* Also true if dataset.json cannot be checked. */
static bool dataset_exists(struct io *io, const char *folder)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    return io_join_path(folder, DATASET_FILE_NAME, path, NULL) == 0 &&
           io->names->stat(io, path, &info, NULL) != -ENOENT;
}

static int find_dataset(void *context, const struct io_entry *entry)
{
    struct dataset_search *search = context;
    return entry->kind == IO_ENTRY_FOLDER &&
           io_join_path(search->folder, entry->name, search->found, NULL) == 0 &&
           dataset_exists(search->io, search->found);
}

/* Suggests a dataset within the folder, if any, such as one that --split wrote. */
static int folder_error(struct io *io, const char *folder, struct err *err)
{
    struct dataset_search search = {.io = io, .folder = folder};
    err_set(err, -ENOENT, "the folder is not a dataset");
    err_at(err, folder, ERR_NO_OFFSET);
    err_expected(err, DATASET_FILE_NAME " in it");
    if (io->names->list(io, folder, find_dataset, &search, NULL) > 0)
        err_advise(err, "give a dataset inside it, such as %s", search.found);
    else
        err_advise(err,
                   "create one from a folder of photos or text with `millrace convert dataset`");
    return -ENOENT;
}

static int open_dataset(struct io *io, const char *path, const struct dataset_scan_options *options,
                        struct dataset **ret_dataset, struct err *err)
{
    struct io_stat info;
    struct err absent;
    bool is_shard = false;
    struct dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return err_set(err, -ENOMEM, "out of memory for a dataset");
    int status = io->names->stat(io, path, &info, &absent);
    bool is_pattern = status && url_list_is_pattern(path);
    if (status && !is_pattern && err)
        *err = absent;
    if (!status && info.kind != IO_ENTRY_FOLDER)
        status = detect_shard(io, path, &is_shard, err);
    if (is_pattern || (!status && is_shard)) {
        status = scan_shards(io, path, is_pattern, dataset, options, err);
    } else if (!status && info.kind == IO_ENTRY_FOLDER && !dataset_exists(io, path)) {
        status = folder_error(io, path, err);
    } else if (!status) {
        status = info.kind == IO_ENTRY_FOLDER
                     ? io_join_path(path, DATASET_FILE_NAME, dataset->path, err)
                     : io_join_path("", path, dataset->path, err);
        if (!status)
            io_parent_path(dataset->path, dataset->folder);
        if (!status)
            status = load_list(io, dataset, options, err);
    }
    if (status)
        dataset_close(dataset);
    else
        *ret_dataset = dataset;
    return status;
}

int dataset_open(struct io *io, const char *path, struct dataset **ret_dataset, struct err *err)
{
    return open_dataset(io, path, &(struct dataset_scan_options){0}, ret_dataset, err);
}

int dataset_open_salvaging(struct io *io, const char *path, const struct log *log,
                           struct dataset **ret_dataset, struct err *err)
{
    return open_dataset(io, path, &(struct dataset_scan_options){.salvages = true, .log = log},
                        ret_dataset, err);
}

int dataset_open_tars(struct io *io, const char *name, const struct url_list *paths,
                      struct dataset **ret_dataset, struct err *err)
{
    const struct dataset_scan_options options = {0};
    struct dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return err_set(err, -ENOMEM, "out of memory for a dataset");
    int status = io_join_path("", name, dataset->path, err);
    if (!status)
        status = dataset_list_paths(dataset, paths, err);
    if (!status)
        status = dataset_list_scan(io, dataset, false, &options, err);
    if (status)
        dataset_close(dataset);
    else
        *ret_dataset = dataset;
    return status;
}

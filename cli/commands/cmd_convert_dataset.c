/*
 * cmd_convert_dataset — `millrace convert dataset SRC DST`.
 */
#include "cli/core/error_limit.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"
#include "convert/dataset/dataset.h"
#include "convert/dataset/export_folder.h"
#include "convert/source/sample_stream.h"
#include "convert/source/standard_input.h"
#include "io/file_util.h"
#include "io/zstd/frame_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct convert_dataset_args {
    struct common_args common;
    uint64_t shard_bytes, shard_samples;
    uint32_t format, jpeg, store, on_error, split_folders, order;
    uint64_t zstd_level, max_side, quality, seed, workers, vocab_size;
    bool keep_order, resume, force;
    struct option_list split, ignore, fields, columns, index_fields;
    const char *tokenizer, *vocab, *document_end, *max_errors;
};

static const char *const format_choices[] = {[CONVERT_FORMAT_SHARDS] = "shards",
                                             [CONVERT_FORMAT_TAR] = "tar",
                                             [CONVERT_FORMAT_FOLDER] = "folder",
                                             NULL};
enum { JPEG_AUTO = CONVERT_JPEG_REENCODE + 1 };
static const char *const jpeg_choices[] = {[CONVERT_JPEG_TILE] = "tile",
                                           [CONVERT_JPEG_KEEP] = "keep",
                                           [CONVERT_JPEG_REENCODE] = "reencode",
                                           [JPEG_AUTO] = "auto",
                                           NULL};
static const char *const store_choices[] = {
    [CONVERT_STORE_ENCODED] = "encoded", [CONVERT_STORE_RAW] = "raw", NULL};
static const char *const split_folders_choices[] = {[CONVERT_SPLIT_FOLDERS_AUTO] = "auto",
                                                    [CONVERT_SPLIT_FOLDERS_YES] = "yes",
                                                    [CONVERT_SPLIT_FOLDERS_NO] = "no",
                                                    NULL};
enum { ORDER_AUTO, ORDER_SHUFFLE, ORDER_KEEP };
static const char *const order_choices[] = {"auto", "shuffle", "keep", NULL};
enum { ON_ERROR_STOP, ON_ERROR_SKIP };
static const char *const on_error_choices[] = {"stop", "skip", NULL};

#define AT(member) offsetof(struct convert_dataset_args, member)
static const struct option option_rows[] = {
    {"format", 0, OPTION_CHOICE, AT(format), NULL, "shards",
     "shards: tars with an index; tar: tars without, for other tools; folder: a file for each "
     "field, as CLASS/KEY.jpg if samples have a class and as KEY.jpg, KEY.txt if not",
     format_choices},
    {"shard-bytes", 0, OPTION_SIZE, AT(shard_bytes), "SIZE", "256MiB", "maximum size of a shard"},
    {"shard-samples", 0, OPTION_COUNT, AT(shard_samples), "N", NULL,
     "maximum number of samples in a shard; 0: no limit"},
    {"zstd", 0, OPTION_COUNT, AT(zstd_level), "LEVEL", NULL,
     "compress the shards to .tar.zst, for text, JSON and arrays; photos are compressed already. "
     "LEVEL: 1 (fast) to 22 (small), without it 3. --shard-bytes counts before compression",
     .min = 1, .max = FRAME_WRITER_LEVEL_MAX, .bare_value = "3"},
    {"jpeg", 0, OPTION_CHOICE, AT(jpeg), NULL, "auto",
     "tile: add restart markers losslessly, so that crops decode faster; keep: copy photos "
     "unchanged; reencode: decode, scale down and encode again, unless that takes more bytes; "
     "auto: tile in shards, else keep",
     jpeg_choices},
    {"store", 0, OPTION_CHOICE, AT(store), NULL, "encoded",
     "encoded: image files; raw: images decoded to PPM, to read with less CPU and more disk",
     store_choices},
    {"max-side", 0, OPTION_COUNT, AT(max_side), "PIXELS", "512",
     "with reencode or raw: longest side of an image", .min = 1, .max = 65500},
    {"quality", 0, OPTION_COUNT, AT(quality), "Q", "90", "with reencode: JPEG quality", .min = 1,
     .max = 100},
    {"seed", 0, OPTION_COUNT, AT(seed), "N", "0", "seed of the shuffle and of the split"},
    {"order", 0, OPTION_CHOICE, AT(order), NULL, "auto",
     "auto: keep the order of tars, zips, datasets and records, shuffle photos and other files; "
     "shuffle; "
     "keep",
     order_choices},
    {"keep-order", 0, OPTION_FLAG, AT(keep_order), .help = "the same as --order keep"},
    {"split", 0, OPTION_LIST, AT(split), "NAME=PART,...",
     .help = "write several datasets, DST/NAME each, for example train=0.9,val=0.1; the fractions "
             "sum to 1"},
    {"split-folders", 0, OPTION_CHOICE, AT(split_folders), NULL, "auto",
     "whether each folder in SRC is a split and becomes a dataset; auto: if all have names such as "
     "train, val and test; no: they are classes",
     split_folders_choices},
    {"ignore", 0, OPTION_REPEAT, AT(ignore), "GLOB", NULL,
     "skip files and folders with a matching name; if GLOB has a slash, with a matching path in "
     "SRC"},
    {"fields", 0, OPTION_LIST, AT(fields), "EXT,...",
     .help =
         "extensions that become fields of samples, for example jpg,json,xml; default: a sample is "
         "a photo (jpg, png, webp, ppm) with the json, txt, npy or cls files of the same name"},
    {"column", 0, OPTION_REPEAT, AT(columns), "NAME=FIELD[:KIND]", NULL,
     "of a list, of records or of arrays: column NAME, or in JSON a JSON path, becomes a field. "
     "Kinds: file "
     "(in "
     "a list, a path relative to it; in records, the bytes, or an array as npy; FIELD may be empty "
     "for the file's own extension), image, text, int, "
     "float, bool, json, base64, and without FIELD class and key. By default jpg and other files "
     "are file, txt is text, json is json. NAME * means all other columns, # the row's number. "
     "Arrays: png, npy, int, float, bool, json and class. With --tokenizer: NAME=txt, the member "
     "of JSON Lines with the text; default: text"},
    {"index-field", 0, OPTION_REPEAT, AT(index_fields), "FIELD[:PATH]=NAME", NULL,
     "record a number of each sample in the index, to select samples by it: the value at a JSON "
     "path, the whole field, or with PATH width or height the size of an image. The class number "
     "in field cls is recorded as label without this option"},
    {"tokenizer", 0, OPTION_TEXT, AT(tokenizer), "bytes|gpt2|FILE", NULL,
     "tokenizer for text files and JSON Lines, and of token files; bytes (the default for text "
     "files): each byte is a token; gpt2: the byte-pair encoding of GPT-2; FILE: a tokenizer.json "
     "of GPT-2, Llama 3, Qwen 2 or later"},
    {"vocab", 0, OPTION_TEXT, AT(vocab), "FOLDER", NULL,
     "with gpt2: folder of encoder.json and vocab.bpe"},
    {"vocab-size", 0, OPTION_COUNT, AT(vocab_size), "N", NULL,
     "of token files, if their tokenizer cannot be named: all tokens are below N", .max = 1 << 24},
    {"document-end", 0, OPTION_TEXT, AT(document_end), "TOKEN", NULL,
     "with a tokenizer.json: token after each document; default: <|endoftext|> or "
     "<|end_of_text|>. Of token files without --tokenizer: its number"},
    {"on-error", 0, OPTION_CHOICE, AT(on_error), NULL, "stop",
     "what to do with an item that cannot be used", on_error_choices},
    {"max-errors", 0, OPTION_TEXT, AT(max_errors), "N|P%", NULL,
     "with --on-error skip: stop after more than N items, or P percent of all items; default: no "
     "limit"},
    {"workers", 'j', OPTION_COUNT, AT(workers), "N", NULL, "threads; 0: one per CPU", .max = 256},
    {"resume", 0, OPTION_FLAG, AT(resume),
     .help = "resume an interrupted conversion after its last complete shard"},
    {"force", 0, OPTION_FLAG, AT(force),
     .help = "replace a dataset in DST once the new one is complete; not with --resume"},
};

static int fail_bad_split(const char *item, const char *found, struct err *err)
{
    err_set(err, -EINVAL, "--split has an invalid value");
    err_expected(err, "NAME=FRACTION with fractions that sum to 1, for example train=0.9,val=0.1");
    err_found(err, "%s \"%.200s\"", found, item);
    return EXIT_USAGE;
}

static int parse_splits(const struct option_list *list, struct convert_options *options,
                        struct err *err)
{
    double sum = 0;
    if (list->count > CONVERT_SPLITS_MAX)
        return fail_bad_split(list->items[CONVERT_SPLITS_MAX], "too many splits, the last one",
                              err);
    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i];
        struct convert_split *split = &options->splits[i];
        size_t bytes = strcspn(item, "=");
        char *end;
        if (bytes == 0 || bytes >= sizeof split->name || item[bytes] != '=' ||
            memchr(item, '/', bytes) || item[0] == '.')
            return fail_bad_split(item, "the item", err);
        memcpy(split->name, item, bytes);
        split->name[bytes] = '\0';
        split->fraction = strtod(item + bytes + 1, &end);
        if (end == item + bytes + 1 || *end || !(split->fraction > 0 && split->fraction <= 1))
            return fail_bad_split(item, "the item", err);
        for (size_t j = 0; j < i; j++)
            if (strcmp(options->splits[j].name, split->name) == 0)
                return fail_bad_split(item, "a repeated name,", err);
        sum += split->fraction;
    }
    options->splits_count = (uint32_t)list->count;
    if (list->count > 0 && (sum < 1 - 1e-6 || sum > 1 + 1e-6))
        return fail_bad_split(list->items[list->count - 1], "a sum other than 1 after", err);
    return 0;
}

static void show_progress(void *context, uint64_t items_done, uint64_t items, uint64_t bytes_done,
                          uint64_t bytes)
{
    (void)bytes_done;
    (void)bytes;
    progress_update(context, items_done, items);
}

static int check_tokenizer(const struct convert_dataset_args *args, struct err *err)
{
    bool is_gpt2 = args->tokenizer && strcmp(args->tokenizer, "gpt2") == 0;
    if (is_gpt2 == (args->vocab != NULL))
        return 0;
    err_set(err, -EINVAL,
            is_gpt2 ? "--tokenizer gpt2 needs a vocabulary"
                    : "--vocab is for --tokenizer gpt2 only");
    err_advise(err, is_gpt2 ? "add --vocab FOLDER with GPT-2's encoder.json and vocab.bpe"
                            : "use both options or neither");
    return EXIT_USAGE;
}

static void write_splits(const struct convert_result *result, const char *target,
                         struct jsonx_writer *json)
{
    jsonx_begin_array(json, "splits");
    for (uint32_t i = 0; i < result->splits_count; i++) {
        const struct convert_split_result *split = &result->splits[i];
        char path[IO_PATH_BYTES_MAX];
        if (io_join_path(target, split->name, path, NULL))
            snprintf(path, sizeof path, "%s", split->name);
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "name", split->name);
        jsonx_write_string(json, "dataset", path);
        jsonx_write_u64(json, "samples_count", split->samples_count);
        jsonx_write_u64(json, "skipped_count", split->skipped_count);
        jsonx_write_u64(json, "shards_count", split->shards_count);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

static int print_result(const struct convert_result *result, const char *target, bool reencodes,
                        const struct common_args *common, struct err *err)
{
    struct output output;
    output_begin(&output);
    jsonx_write_string(&output.json, "dataset", target);
    jsonx_write_u64(&output.json, "samples_count", result->samples_count);
    jsonx_write_u64(&output.json, "skipped_count", result->skipped_count);
    if (result->shards_count > 0)
        jsonx_write_u64(&output.json, "shards_count", result->shards_count);
    if (result->classes_count > 0)
        jsonx_write_u64(&output.json, "classes_count", result->classes_count);
    jsonx_write_u64(&output.json, "hidden_count", result->hidden_count);
    jsonx_write_u64(&output.json, "ignored_count", result->ignored_count);
    if (result->splits_count > 0)
        write_splits(result, target, &output.json);
    const struct convert_jpeg_counts *jpegs = &result->jpegs;
    if (jpegs->tiled_count + jpegs->reencoded_count + jpegs->kept_count > 0) {
        if (reencodes)
            jsonx_write_u64(&output.json, "jpegs_reencoded_count", jpegs->reencoded_count);
        else
            jsonx_write_u64(&output.json, "jpegs_tiled_count", jpegs->tiled_count);
        jsonx_write_u64(&output.json, "jpegs_kept_count", jpegs->kept_count);
        jsonx_write_u64(&output.json, "jpegs_source_bytes", jpegs->source_bytes);
        jsonx_write_u64(&output.json, "jpegs_written_bytes", jpegs->written_bytes);
    }
    jsonx_write_u64(&output.json, "source_bytes", result->source_bytes);
    jsonx_write_u64(&output.json, "written_bytes", result->written_bytes);
    jsonx_write_f64(&output.json, "elapsed_seconds", result->seconds);
    return output_end_report(&output, common->json, common->quiet, err);
}

static int read_standard_input(struct io *io, struct standard_input *input,
                               struct convert_options *options, struct err *err)
{
    char head[SAMPLE_STREAM_MAGIC_BYTES];
    size_t bytes;
    int status = standard_input_read(STDIN_FILENO, options->stop, head, sizeof head, &bytes, err);
    if (!status && bytes == sizeof head && sample_stream_detect(head, bytes))
        return sample_stream_open(STDIN_FILENO, STDOUT_FILENO, options->stop, &options->stream,
                                  err);
    if (status)
        return status;
    log_line(options->log, LOG_INFO, "copying standard input to a temporary file next to %s",
             options->target);
    status = standard_input_copy(input, io, head, bytes, STDIN_FILENO, options->target,
                                 options->stop, err);
    options->source = input->path;
    return status;
}

/* The path of the copy means nothing to the user. */
static void name_standard_input(const struct standard_input *input, struct err *err)
{
    size_t bytes = input->path ? strlen(input->path) : 0;
    if (bytes == 0 || !err || strncmp(err->path, input->path, bytes) != 0)
        return;
    memmove(err->path + 1, err->path + bytes, strlen(err->path + bytes) + 1);
    err->path[0] = '-';
}

static enum convert_jpeg choose_jpeg(const struct convert_dataset_args *args)
{
    if (args->jpeg != JPEG_AUTO)
        return (enum convert_jpeg)args->jpeg;
    bool keeps = args->format != CONVERT_FORMAT_SHARDS && args->store == CONVERT_STORE_ENCODED;
    return keeps ? CONVERT_JPEG_KEEP : CONVERT_JPEG_TILE;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct convert_dataset_args *args = invocation->args;
    struct convert_options options = {
        .source = invocation->positional[0],
        .target = invocation->positional[1],
        .shard_bytes = args->shard_bytes,
        .shard_samples = args->shard_samples,
        .zstd_level = (int)args->zstd_level,
        .format = (enum convert_format)args->format,
        .jpeg = choose_jpeg(args),
        .store = (enum convert_store)args->store,
        .max_side = (uint32_t)args->max_side,
        .quality = (uint32_t)args->quality,
        .seed = args->seed,
        .keep_order = args->keep_order || args->order == ORDER_KEEP,
        .shuffle = args->order == ORDER_SHUFFLE,
        .split_folders = (enum convert_split_folders)args->split_folders,
        .ignore_globs = {(const char *const *)args->ignore.items, args->ignore.count},
        .fields = {(const char *const *)args->fields.items, args->fields.count},
        .columns = {(const char *const *)args->columns.items, args->columns.count},
        .index_fields = {(const char *const *)args->index_fields.items, args->index_fields.count},
        .tokenizer = args->tokenizer,
        .vocabulary = args->vocab,
        .document_end = args->document_end,
        .vocabulary_size = (uint32_t)args->vocab_size,
        .skip_errors = args->on_error == ON_ERROR_SKIP,
        .workers = (unsigned)args->workers,
        .resume = args->resume,
        .force = args->force,
        .log = invocation->log,
        .progress = show_progress,
        .progress_context = invocation->console,
    };
    struct convert_result result = {0};
    struct standard_input input = {0};
    struct io *io = NULL;
    int status = parse_splits(&args->split, &options, err);
    if (!status)
        status = check_tokenizer(args, err);
    struct error_limit limit = {.count_max = -1};
    if (!status)
        status = error_limit_parse(args->max_errors, options.skip_errors, &limit, err);
    options.errors_max = limit.count_max;
    options.errors_max_fraction = limit.fraction_max;
    if (!status && args->resume && args->force) {
        err_set(err, -EINVAL, "--resume cannot be combined with --force");
        err_advise(err, "use --resume to continue, or --force to start over");
        status = EXIT_USAGE;
    }
    if (!status)
        status = storage_open_two(options.source, options.target, &options.source_io, &io, err);
    if (status)
        goto out;
    options.stop = signals_install();
    signals_ignore_sigpipe();
    if (strcmp(options.source, "-") == 0)
        status = read_standard_input(io, &input, &options, err);
    if (!status) {
        progress_begin(invocation->console, "converting", PROGRESS_ITEMS);
        status = options.format == CONVERT_FORMAT_FOLDER
                     ? export_folder(io, &options, &result, err)
                     : convert_dataset(io, &options, &result, err);
        progress_end(invocation->console);
    }
    name_standard_input(&input, err);
    if (status == -EINTR && result.is_resumable)
        status = EXIT_STOPPED;
    else if (!status)
        status = print_result(&result, options.target, options.jpeg == CONVERT_JPEG_REENCODE,
                              &args->common, err);
out:
    sample_stream_close(options.stream);
    standard_input_remove(&input);
    storage_close_two(options.source_io, io);
    return status;
}

static const char *const examples[] = {
    "millrace convert dataset photos shards",
    "millrace convert dataset photos same --jpeg keep",
    "millrace convert dataset photos some --ignore '*.tif' --ignore drafts",
    "millrace convert dataset photos split --split train=0.9,val=0.1 --shard-bytes 64MiB",
    "millrace convert dataset photos small --jpeg reencode --max-side 256 -j 2 --on-error skip "
    "--max-errors "
    "1%",
    "millrace convert dataset photos raw --store raw --max-side 256",
    "millrace convert dataset list.csv list --split train=0.9,val=0.1",
    "millrace convert dataset list.jsonl captions --column image=jpg --column caption=txt --column "
    "score=score:float --column id=:key",
    "millrace convert dataset photos sized --index-field 'jpg;png:width=width' --index-field "
    "'jpg;png:height=height'",
    "millrace convert dataset photos.tar from-tar",
    "millrace convert dataset shards resharded --jpeg keep --shard-bytes 64MiB",
    "millrace convert dataset shards tars --format tar",
    "millrace convert dataset shards files --format folder",
    "millrace convert dataset book.txt tokens --split train=0.9,val=0.1",
    "millrace convert dataset list.jsonl documents --tokenizer bytes --column caption=txt",
    NULL,
};

const struct verb verb_convert_dataset = {
    .name = "convert dataset",
    .arguments = {"SRC DST", 2, 2},
    .summary =
        "Convert photos or text into shards: plain tar files with an index, and a dataset.json.",
    .details =

        "SRC is a folder of class folders of photos, a folder of files whose names share a "
        "key (a.jpg, a.json), a list of samples in JSON Lines, CSV or TSV, a folder with "
        "metadata.csv or metadata.jsonl, a COCO, Pascal VOC or YOLO dataset, a folder of NumPy, "
        "idx or CIFAR files, an .npz or .beton file, a text file, a folder of text files, with "
        "--tokenizer also JSON Lines whose lines are texts, token files (.bin) of llm.c or "
        "Megatron-LM, a dataset (to change "
        "the size of its shards), a tar of samples, compressed or not, a zip, a TFRecord file of "
        "tf.train.Example, a folder of these, a folder of MDS shards or "
        "litdata chunks, a "
        "pattern ('a-{0..9}.tar', 'a-*.tar.gz'), or \"-\" for standard input, which is first "
        "copied "
        "to a temporary file next to DST unless it is a stream of samples "
        "(docs/reference/sample-stream.md). Lists, text and records may be compressed (gzip, "
        "bzip2, "
        "xz, zstd, lz4); they are decompressed into a temporary folder there. If SRC holds split "
        "folders (train, val, test), each becomes a dataset, DST/train and so on, with a "
        "common list of classes. Files that belong to no sample stop the conversion before it "
        "writes anything; hidden files and files of the operating system are skipped and "
        "counted. DST must be outside SRC. Samples are shuffled with a seed, except those of tars, "
        "zips, datasets and records, which keep their order. The same "
        "input gives the same bytes for any number of threads. By default, photos get restart "
        "markers, so that training decodes only the part that a crop needs. They add about 1 "
        "% to the size; pixels and metadata do not change, and progressive photos become "
        "baseline. Photos that cannot have restart markers (CMYK) are copied unchanged.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct convert_dataset_args),
    .run = run,
};

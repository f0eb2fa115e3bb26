/*
 * cmd_read — `millrace read DATASET`: reads samples in the order of a training run.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "cli/commands/read_mix.h"
#include "cli/commands/read_page.h"
#include "cli/commands/read_sink.h"
#include "cli/commands/read_stop.h"
#include "cli/commands/stage_advice.h"
#include "cli/core/error_limit.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/storage.h"
#include "cli/report/augment_args.h"
#include "cli/report/auto_fields.h"
#include "cli/report/read_fields.h"
#include "cli/verbs/verbs.h"
#include "io/faults/io_fault.h"
#include "io/path_within.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct read_args {
    struct common_args common;
    struct option_list mix, fields;
    uint32_t order, decode, crop, print, on_error;
    uint64_t seed, epoch, lanes, window, run;
    uint64_t batch, micro, rank, ranks, start, count;
    uint64_t workers, memory_bytes, size, max_pixels, block, timeout_ns;
    uint32_t engine, page_cache, jpeg_decoder, layout, dtype, channels;
    bool flip, force, quality, cold;
    const char *keys, *key_order, *weights, *where, *balance;
    uint64_t repeat;
    const char *out, *html, *max_errors, *fault, *randaugment, *jitter, *mixup, *cutmix;
    const char *mean, *std;
};

static const char *const order_choices[] = {
    [ORDER_SHUFFLE] = "shuffle", [ORDER_FULL] = "full", [ORDER_SEQUENTIAL] = "sequential", NULL};
static const char *const decode_choices[] = {"none", "image", NULL};
static const char *const crop_choices[] = {"random", "center", "none", NULL};
static const char *const print_choices[] = {
    [READ_PRINT_KEYS] = "keys", [READ_PRINT_JSON] = "json", [READ_PRINT_NONE] = "none", NULL};
static const char *const on_error_choices[] = {"stop", "skip", NULL};
static const char *const engine_choices[] = {[IO_ENGINE_AUTO] = "auto",
                                             [IO_ENGINE_URING] = "io_uring",
                                             [IO_ENGINE_THREADS] = "threads",
                                             NULL};
static const char *const page_cache_choices[] = {
    [IO_CACHE_AUTO] = "auto", [IO_CACHE_ALL] = "always", [IO_CACHE_NONE] = "never", NULL};
static const enum loader_bad_policy bad_policies[] = {LOADER_BAD_STOP, LOADER_BAD_SKIP};
static const enum crop_kind crop_kinds[] = {CROP_RANDOM, CROP_CENTER, CROP_NONE};
enum { JPEG_AUTO, JPEG_LIBJPEG };
static const char *const jpeg_decoder_choices[] = {
    [JPEG_AUTO] = "auto", [JPEG_LIBJPEG] = "libjpeg", NULL};
static const char *const layout_choices[] = {
    [IMAGE_LAYOUT_HWC] = "hwc", [IMAGE_LAYOUT_CHW] = "chw", NULL};
static const char *const dtype_choices[] = {"u8", "f32", "f16", "bf16", NULL};
static const enum dtype dtypes[] = {DTYPE_U8, DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const char *const channels_choices[] = {"3", "1", NULL};
static const uint32_t channels_counts[] = {3, 1};
enum { DECODE_NONE, DECODE_IMAGE };
enum { MICRO_DEFAULT_MAX = 32 };

#define AT(member) offsetof(struct read_args, member)
static const struct option option_rows[] = {
    {"mix", 0, OPTION_REPEAT, AT(mix), "DATASET=WEIGHT", NULL,
     "add a dataset to sample from with this weight; the argument DATASET has weight 1"},
    {"order", 0, OPTION_CHOICE, AT(order), NULL, "shuffle", "order of the samples", order_choices},
    {"seed", 0, OPTION_COUNT, AT(seed), "N", "0", "seed of the order and of every random crop"},
    {"epoch", 0, OPTION_COUNT, AT(epoch), "N", "0", "epoch to read", .max = UINT32_MAX},
    {"lanes", 0, OPTION_COUNT, AT(lanes), "L", NULL,
     "shuffle lanes; 0: B, or four times that for a dataset that convert did not shuffle"},
    {"window", 0, OPTION_COUNT, AT(window), "W", NULL,
     "samples per lane that are shuffled together; 0: 1, no window"},
    {"run", 0, OPTION_COUNT, AT(run), "C", NULL,
     "adjacent samples on disk that a lane reads together, in an order of its own; 0: about 1 MiB"},
    {"keys", 0, OPTION_TEXT, AT(keys), "FILE", NULL,
     "read only the samples with these keys, one per line"},
    {"key-order", 0, OPTION_TEXT, AT(key_order), "FILE", NULL,
     "read the samples with these keys, one per line, in the order of the file"},
    {"weights", 0, OPTION_TEXT, AT(weights), "FILE", NULL,
     "draw samples with replacement by weight; each line has a key, a tab and a weight"},
    {"where", 0, OPTION_TEXT, AT(where), "CONDITION", NULL,
     "read only the samples whose index fields meet the condition, such as 'score >= 0.5 && "
     "!(width < 256 || class(\"dog\"))'"},
    {"balance", 0, OPTION_TEXT, AT(balance), "FIELD", NULL,
     "draw samples with replacement so that all classes are equally likely; FIELD: class, or an "
     "index field with integers"},
    {"repeat", 0, OPTION_COUNT, AT(repeat), "N", "1", "how often the epoch repeats each sample",
     .min = 1, .max = UINT32_MAX},
    {"batch", 0, OPTION_COUNT, AT(batch), "B", "256", "samples per global batch", .min = 1,
     .max = BATCHING_SAMPLES_MAX},
    {"micro", 0, OPTION_COUNT, AT(micro), "b", NULL,
     "samples per micro-batch; divides B; 0: the largest divisor up to 32 that gives each rank at "
     "least one micro-batch",
     .max = BATCHING_SAMPLES_MAX},
    {"rank", 0, OPTION_COUNT, AT(rank), "R", "0", "read the samples of rank R of --ranks",
     .max = UINT32_MAX},
    {"ranks", 0, OPTION_COUNT, AT(ranks), "W", "1", "number of ranks that share the micro-batches",
     .min = 1, .max = UINT32_MAX},
    {"start", 0, OPTION_COUNT, AT(start), "POSITION", "0", "start at this position of the epoch"},
    {"count", 0, OPTION_COUNT, AT(count), "N", NULL,
     "stop after this many global positions; 0: at the end of the epoch"},
    {"workers", 'j', OPTION_COUNT, AT(workers), "N", NULL, "decoding threads; 0: one per CPU",
     .max = 256},
    {"memory", 0, OPTION_SIZE, AT(memory_bytes), "SIZE", "1GiB",
     "memory budget for batches and read-ahead"},
    {"decode", 0, OPTION_CHOICE, AT(decode), NULL, "none",
     "none: fields as stored; image: decode photos to pixels", decode_choices},
    {"size", 0, OPTION_COUNT, AT(size), "PIXELS", "224",
     "with --decode image: width and height of the output", .min = 1, .max = 4096},
    {"max-pixels", 0, OPTION_COUNT, AT(max_pixels), "PIXELS", NULL,
     "with --decode image: a photo with more pixels is a bad sample; 0: 134217728",
     .max = LOADER_PIXELS_MAX},
    {"jpeg-decoder", 0, OPTION_CHOICE, AT(jpeg_decoder), NULL, "auto",
     "with --decode image: libjpeg: decode JPEGs with libjpeg; auto: with millrace's "
     "decoder: the same pixels, faster",
     jpeg_decoder_choices},
    {"crop", 0, OPTION_CHOICE, AT(crop), NULL, "random",
     "with --decode image: how to crop the photo", crop_choices},
    {"flip", 0, OPTION_FLAG, AT(flip),
     .help = "with --decode image: mirror photos with probability 1/2"},
    {"randaugment", 0, OPTION_TEXT, AT(randaugment), "OPS,MAGNITUDE", NULL,
     "with --decode image: apply OPS random operations of strength MAGNITUDE, at most 30, to each "
     "image"},
    {"jitter", 0, OPTION_TEXT, AT(jitter), "B,C,S,H", NULL,
     "with --decode image: vary brightness, contrast, saturation and hue at random, each by up to "
     "this fraction"},
    {"mixup", 0, OPTION_TEXT, AT(mixup), "ALPHA", NULL,
     "with --decode image: blend each image with the previous one of the micro-batch, in a "
     "proportion from Beta(ALPHA, ALPHA)"},
    {"cutmix", 0, OPTION_TEXT, AT(cutmix), "ALPHA", NULL,
     "with --decode image: paste a box of the previous image instead; with --mixup as well, for "
     "half of the images"},
    {"layout", 0, OPTION_CHOICE, AT(layout), NULL, "hwc",
     "with --decode image: order of rows, columns and channels; chw: a plane for each channel",
     layout_choices},
    {"dtype", 0, OPTION_CHOICE, AT(dtype), NULL, "u8",
     "with --decode image: type of the pixels; floats are (x / 255 - mean) / std", dtype_choices},
    {"mean", 0, OPTION_TEXT, AT(mean), "R,G,B", NULL,
     "with --dtype f32, f16 or bf16: subtract this mean, in units of 0 to 1; one number is for all "
     "channels; default: 0"},
    {"std", 0, OPTION_TEXT, AT(std), "R,G,B", NULL,
     "with --dtype f32, f16 or bf16: divide by this standard deviation; default: 1"},
    {"channels", 0, OPTION_CHOICE, AT(channels), NULL, "3",
     "with --decode image: 1: gray, as Pillow's convert(\"L\")", channels_choices},
    {"field", 0, OPTION_REPEAT, AT(fields), "NAME=SPEC", NULL,
     "read only fields named so, or with --decode image, also the images; auto: chooses them by "
     "their first 16 values, and prints them; SPEC: an extension, or "
     "{from: EXTENSIONS, decode: bytes|str|json|array|int|f32|f64|bool, path: $.KEY, default: "
     "VALUE}; "
     "for an array also dtype and rank; decode: tokens with tokenizer: FILE, and for padding "
     "length: N and pad: TOKEN; decode: labels|boxes|keypoints|image with follows: image gives "
     "what belongs to the images; decode: image without follows needs size: PIXELS, and may have "
     "crop: random|center|none and flip: true"},
    {"block", 0, OPTION_COUNT, AT(block), "TOKENS", NULL,
     "text: read windows of TOKENS + 1 as a training run does; 0: whole members", .max = 1 << 24},
    {"print", 0, OPTION_CHOICE, AT(print), NULL, "none",
     "print one line per sample on stdout: position<TAB>key, or JSON", print_choices},
    {"on-error", 0, OPTION_CHOICE, AT(on_error), NULL, "stop",
     "what to do with an unusable sample or a damaged tar; skip: name, count and omit bad samples",
     on_error_choices},
    {"max-errors", 0, OPTION_TEXT, AT(max_errors), "N|P%", NULL,
     "with --on-error skip: stop after more than N bad samples, or P percent of an epoch; default: "
     "no limit"},
    {"quality", 0, OPTION_FLAG, AT(quality),
     .help = "read no samples; report how well batches are mixed compared with a full shuffle, and "
             "how to improve that"},
    {"out", 'o', OPTION_TEXT, AT(out), "DIR", NULL,
     "write the fields of each sample as files, images as .ppm, or those of --decode image as "
     ".image.npy unless --layout, --dtype and --channels are the defaults, windows as .npy; with "
     "--mix, "
     "samples of dataset N in its epoch E go to DIR/N-E"},
    {"html", 0, OPTION_TEXT, AT(html), "OUT", NULL,
     "write a self-contained HTML page of the first 32 samples, or of --count of them, up to 1024, "
     "and stop"},
    {"force", 0, OPTION_FLAG, AT(force), .help = "replace existing files in DIR, or OUT"},
    {"cold", 0, OPTION_FLAG, AT(cold),
     .help = "drop the dataset's files from the page cache first"},
    {"page-cache", 0, OPTION_CHOICE, AT(page_cache), NULL, "auto",
     "whether to read through the page cache; auto: for shards that are mostly cached",
     page_cache_choices},
    {"engine", 0, OPTION_CHOICE, AT(engine), NULL, "auto",
     "engine that reads local files; auto: io_uring if the kernel permits it", engine_choices},
    {"timeout", 0, OPTION_DURATION, AT(timeout_ns), "DURATION", NULL,
     "longest wait for data before the read fails; 0: no limit"},
    {"fault", 0, OPTION_TEXT, AT(fault), "RULES", NULL, "inject read faults for testing"},
};

static enum loader_decode choose_decode(const struct read_args *args)
{
    return args->block                    ? LOADER_TOKENS
           : args->decode == DECODE_IMAGE ? LOADER_IMAGE
           : args->fields.count > 0       ? LOADER_RECORD
                                          : LOADER_BYTES;
}

/* The default of --micro. 1 with more ranks than samples: batching_check reports that. */
static uint64_t choose_micro(uint64_t batch, uint64_t ranks)
{
    uint64_t micro = bytes_min(batch, MICRO_DEFAULT_MAX);
    while (micro > 1 && (batch % micro != 0 || batch / micro < ranks))
        micro--;
    return micro;
}

/* Positions to read; 0: to the end of the epoch. */
static uint64_t count_wanted(const struct read_args *args)
{
    return args->html && args->count == 0 ? READ_PAGE_SAMPLES_DEFAULT : args->count;
}

static bool wants_stop(const void *flag)
{
    return atomic_load((const atomic_int *)flag);
}

static struct loader_options make_options(const struct invocation *invocation)
{
    const struct read_args *args = invocation->args;
    struct loader_options options = loader_options_default();
    options.order = (enum order_kind)args->order;
    options.seed = args->seed;
    options.lanes = args->lanes;
    options.window = args->window;
    options.run = args->run;
    options.selection = (struct loader_selection){.keys = args->keys,
                                                  .order = args->key_order,
                                                  .weights = args->weights,
                                                  .where = args->where,
                                                  .balance = args->balance,
                                                  .repeat = args->repeat};
    options.epoch = (uint32_t)args->epoch;
    options.position = args->start;
    options.positions_max = count_wanted(args);
    options.epochs_max = 1;
    options.drop_last = false;
    options.batching = (struct batching){
        .global = args->batch,
        .micro = args->micro ? args->micro : choose_micro(args->batch, args->ranks),
        .rank = (uint32_t)args->rank,
        .ranks = (uint32_t)args->ranks};
    options.decode = choose_decode(args);
    options.image.width = options.image.height = (uint32_t)args->size;
    options.image.pixels_max = args->max_pixels;
    options.image.libjpeg_only = args->jpeg_decoder == JPEG_LIBJPEG;
    options.image.crop = crop_options_default(crop_kinds[args->crop]);
    options.image.crop.flip = args->flip;
    options.image.normalize.layout = (enum image_layout)args->layout;
    options.image.normalize.dtype = dtypes[args->dtype];
    options.image.normalize.channels = channels_counts[args->channels];
    if (args->block)
        options.text.block = (uint32_t)args->block;
    options.bad_policy = bad_policies[args->on_error];
    options.bad_fraction_max = 1;
    options.workers = (unsigned)args->workers;
    options.memory_bytes = args->memory_bytes;
    options.log = invocation->log;
    options.single_pass = true;
    options.timeout_ns = args->timeout_ns;
    options.wants_stop = wants_stop;
    options.stop_context = signals_stop_flag();
    options.order_only = args->quality;
    return options;
}

struct read_job {
    struct read_mix mix;
    struct option_list auto_specs; /* of --field auto */
    struct read_fields fields;
    struct loader *loader;
    struct io *io;
    struct read_sink sink;
    struct page_items page;
    uint64_t page_bytes;
};

static int print_summary(const struct read_args *args, const struct read_job *job,
                         uint64_t elapsed_ns, struct err *err)
{
    struct loader *loader = job->loader;
    const struct read_sink *sink = &job->sink;
    struct loader_shape shape = loader_shape(loader);
    struct loader_stats stats = loader_stats(loader);
    double seconds = clock_seconds(elapsed_ns ? elapsed_ns : 1);
    struct output output;
    struct jsonx_writer *json = &output.json;
    output_begin(&output);
    jsonx_write_u64(json, "samples_count", sink->samples_count);
    if (bad_policies[args->on_error] == LOADER_BAD_SKIP)
        jsonx_write_u64(json, "skipped_count", sink->skipped_count);
    if (stats.left_out_count)
        jsonx_write_u64(json, "left_out_count", stats.left_out_count);
    jsonx_write_u64(json, "batches_count", stats.batches_count);
    jsonx_write_hex64(json, "once", sink->set_digest);
    jsonx_write_hex64(json, "order", sink->sequence_digest);
    jsonx_write_u64(json, "epoch", args->epoch);
    jsonx_write_u64(json, "epoch_samples_count", shape.samples);
    jsonx_write_hex64(json, "dataset_fingerprint", shape.fingerprint);
    jsonx_write_string(json, "order_kind", order_kind_name(shape.order.kind));
    read_mix_write_order(json, loader);
    jsonx_write_f64(json, "elapsed_seconds", seconds);
    jsonx_write_f64(json, "first_batch_seconds", clock_seconds(stats.first_batch_ns));
    jsonx_write_f64(json, "samples_per_second", (double)sink->samples_count / seconds);
    jsonx_write_u64(json, "read_bytes", stats.read_bytes);
    jsonx_write_f64(json, "read_bytes_per_second", (double)stats.read_bytes / seconds);
    jsonx_write_u64(json, "reads_count", stats.reads_count);
    jsonx_write_u64(json, "wanted_bytes", stats.wanted_bytes);
    jsonx_write_f64(json, "decode_cpu_seconds", clock_seconds(stats.decode_cpu_ns));
    jsonx_write_u64(json, "memory_bytes", shape.memory_bytes);
    jsonx_write_string(json, "engine", shape.engine);
    jsonx_write_u64(json, "workers_count", shape.workers);
    jsonx_write_string(json, "limited_by", loader_stage_name(stats.limit));
    jsonx_write_string(json, "advice", stage_advice(stats.limit));
    if (stats.jpeg_warnings_count)
        jsonx_write_u64(json, "jpeg_warnings_count", stats.jpeg_warnings_count);
    if (args->fault && *args->fault)
        jsonx_write_u64(json, "faults_count", io_fault_counts(job->io).hits);
    if (args->out)
        jsonx_write_u64(json, "files_count", sink->files_count);
    if (args->html) {
        jsonx_write_string(json, "page", args->html);
        jsonx_write_u64(json, "written_bytes", job->page_bytes);
    }
    bool to_stdout = args->print == READ_PRINT_NONE;
    if (!to_stdout && args->common.quiet) {
        output_abort(&output);
        return 0;
    }
    return output_end(&output, args->common.json, to_stdout ? stdout : stderr, err);
}

/* An estimate for the progress bar. */
static uint64_t estimate_samples(const struct read_args *args, const struct batching *batching,
                                 uint64_t samples)
{
    uint64_t positions_left = args->start < samples ? samples - args->start : 0,
             count = count_wanted(args);
    if (count && count < positions_left)
        positions_left = count;
    return (uint64_t)((double)positions_left * (double)batching_owned_count(batching) /
                      (double)batching_micros(batching));
}

static int read_all(const struct invocation *invocation, struct loader *loader,
                    const struct batching *batching, const struct error_limit *limit,
                    struct read_sink *sink, struct err *err)
{
    const struct read_args *args = invocation->args;
    struct read_stop stop = {.stop_flag = signals_install(),
                             .epoch = args->epoch,
                             .start = args->start,
                             .count = count_wanted(args),
                             .repeat_option = args->out && !args->force ? " --force" : "",
                             .is_step_complete = true};
    uint64_t samples = loader_shape(loader).samples,
             total = estimate_samples(args, batching, samples);
    uint64_t left_out = loader_stats(loader).left_out_count;
    const struct loader_dataset *list;
    uint32_t datasets_count = loader_datasets(loader, &list);
    const struct batch *batch;
    int status;
    bool prints_to_terminal = args->print != READ_PRINT_NONE && isatty(STDOUT_FILENO);
    /* printed lines show progress, and a bar would interfere with them */
    if (!prints_to_terminal)
        progress_begin(invocation->console, "reading", PROGRESS_SAMPLES);
    do {
        status = loader_next(loader, &batch, err);
        if (status == LOADER_BATCH) {
            stop.is_step_complete = batch->last_of_step;
            status = read_sink_write(sink, batch, err);
            loader_release(loader, batch);
            progress_update(invocation->console, sink->samples_count + sink->skipped_count, total);
            if (!status)
                status = error_limit_check(limit, sink->skipped_count + left_out, samples,
                                           datasets_count == 1 ? list[0].path : NULL, err);
            if (!status && ferror(stdout))
                status = output_flush(err);
        } else if (status == -EINTR) { /* stopped during a wait */
            err_clear(err);
            status = 0;
        } else {
            break;
        }
        if (!status)
            status = read_stop_poll(&stop, loader, sink->samples_count, err);
    } while (!status);
    progress_end(invocation->console);
    return status;
}

static int print_quality(const struct read_args *args, const struct loader *loader, struct err *err)
{
    struct output output;
    output_begin(&output);
    int status = read_mix_write_quality(&output.json, loader, args->batch, err);
    if (!status)
        return output_end(&output, args->common.json, stdout, err);
    output_abort(&output);
    return status;
}

static int check_usage(const struct read_args *args, const struct batching *batching,
                       struct err *err)
{
    if (args->block && args->decode == DECODE_IMAGE) {
        err_set(err, -EINVAL, "--block is for text, --decode image for photos");
        err_advise(err, "remove one of the options");
        return EXIT_USAGE;
    }
    if (args->block && args->fields.count > 0) {
        err_set(err, -EINVAL, "--block is for text, --field for other data");
        err_advise(err, "remove one of the options");
        return EXIT_USAGE;
    }
    if (args->html && choose_decode(args) != LOADER_IMAGE && choose_decode(args) != LOADER_RECORD) {
        err_set(err, -EINVAL, "--html shows images and fields");
        err_advise(err, "add --decode image or --field");
        return EXIT_USAGE;
    }
    if (args->html && args->quality) {
        err_set(err, -EINVAL, "--html shows samples, but --quality reads none");
        err_advise(err, "remove one of the options");
        return EXIT_USAGE;
    }
    if (args->html && args->count > READ_PAGE_SAMPLES_MAX) {
        err_set(err, -EINVAL, "--html shows fewer samples");
        err_expected(err, "--count: at most %d", READ_PAGE_SAMPLES_MAX);
        err_found(err, "%" PRIu64, args->count);
        return EXIT_USAGE;
    }
    return batching_check(batching, err) ? EXIT_USAGE : 0;
}

/* Parses mean and std, and refuses outputs that cannot have such images. */
static int parse_normalize(const struct read_args *args, struct normalize_options *normalize,
                           struct err *err)
{
    if (normalize_args_parse("--", args->mean, args->std, normalize, err))
        return EXIT_USAGE;
    bool is_on = normalize_is_on(normalize);
    if ((is_on || args->mean || args->std) && args->decode != DECODE_IMAGE) {
        err_set(err, -EINVAL, "--layout, --dtype, --mean, --std and --channels are for images");
        err_advise(err, "add --decode image");
        return EXIT_USAGE;
    }
    if (is_on && args->html) {
        err_set(err, -EINVAL, "--html shows images of bytes");
        err_advise(err, "remove --layout, --dtype, --mean, --std and --channels");
        return EXIT_USAGE;
    }
    if (normalize->dtype == DTYPE_BF16 && args->out) {
        err_set(err, -EINVAL, "--out writes NumPy files, which cannot hold bf16");
        err_advise(err, "use --dtype f32, or f16");
        return EXIT_USAGE;
    }
    return 0;
}

static int open_io(const struct read_args *args, struct read_job *job, struct err *err)
{
    const char *path = job->mix.sources[0].path;
    struct io_options options = {.engine = (enum io_engine)args->engine,
                                 .cache = (enum io_cache)args->page_cache};
    int status = args->cold ? read_mix_drop_cache(&job->mix, err) : 0;
    return status ? status : storage_open_with_faults(path, &options, args->fault, &job->io, err);
}

/* Rejects a folder inside a dataset, where the next read would include the output. */
static int open_out(const struct read_args *args, struct read_job *job, struct err *err)
{
    struct io **io = &job->sink.io;
    int status = storage_open_target(args->out, io, err);
    for (uint32_t i = 0; i < job->mix.count && !status; i++) {
        if (!io_is_within(args->out, job->mix.sources[i].path))
            continue;
        err_set(err, -EINVAL, "--out is inside the dataset being read");
        err_at(err, args->out, ERR_NO_OFFSET);
        err_advise(err, "give a folder outside %.120s", job->mix.sources[i].path);
        status = -EINVAL;
    }
    return status;
}

static int open_page(struct read_job *job, const struct loader_options *options, struct err *err)
{
    const struct page_items_options page = {.loader = job->loader,
                                            .fields = options->fields,
                                            .fields_count = options->fields_count,
                                            .has_image = options->decode == LOADER_IMAGE,
                                            .shows_positions = true};
    job->sink.page = &job->page;
    return page_items_open(&job->page, &page, err);
}

/* The values of --field, or what --field auto chose. */
static const struct option_list *requested_fields(const struct read_job *job,
                                                  const struct read_args *args)
{
    return job->auto_specs.count ? &job->auto_specs : &args->fields;
}

static int parse_fields(const struct invocation *invocation, struct read_job *job, struct err *err)
{
    const struct read_args *args = invocation->args;
    const char *path = job->mix.sources[0].path;
    struct io *io = NULL;
    bool is_auto;
    if (auto_fields_check(&args->fields, &is_auto, err))
        return EXIT_USAGE;
    if (is_auto && job->mix.count > 1) {
        err_set(err, -EINVAL, "--field auto looks at one dataset only");
        err_advise(err, "run it on one of them, and copy the fields that it prints");
        return EXIT_USAGE;
    }
    int status = is_auto ? storage_open(path, NULL, &io, err) : 0;
    if (is_auto && !status)
        status = auto_fields_choose(io, path, args->decode == DECODE_IMAGE, invocation->log,
                                    &job->auto_specs, err);
    io_close(io);
    if (!status && (read_fields_parse(&job->fields, requested_fields(job, args), err) ||
                    (args->html && read_fields_check_page(&job->fields, err)) ||
                    (args->out && read_fields_check_files(&job->fields, err))))
        status = EXIT_USAGE;
    return status;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct read_args *args = invocation->args;
    struct loader_options options = make_options(invocation);
    struct read_job job = {.sink = {.print = (enum read_print)args->print,
                                    .is_terminal = isatty(STDOUT_FILENO),
                                    .decode = options.decode,
                                    .is_normalized = normalize_is_on(&options.image.normalize),
                                    .fields = &job.fields,
                                    .folder = args->out,
                                    .force = args->force}};
    struct error_limit limit;
    int status = check_usage(args, &options.batching, err);
    if (!status &&
        augment_args_parse("--", args->randaugment, args->jitter, &options.image.augment, err))
        status = EXIT_USAGE;
    if (!status && mixup_args_parse("--", args->mixup, args->cutmix, &options.image.mixup, err))
        status = EXIT_USAGE;
    if (!status)
        status = parse_normalize(args, &options.image.normalize, err);
    const char *dataset = invocation->positional_count ? invocation->positional[0] : NULL;
    if (!status && read_mix_init(&job.mix, dataset, &args->mix, err))
        status = EXIT_USAGE;
    if (!status)
        status = parse_fields(invocation, &job, err);
    if (!status)
        status =
            error_limit_parse(args->max_errors, options.bad_policy == LOADER_BAD_SKIP, &limit, err);
    if (status) {
        read_fields_deinit(&job.fields);
        auto_fields_deinit(&job.auto_specs);
        read_mix_deinit(&job.mix);
        return status;
    }
    read_mix_apply(&job.mix, &options);
    options.fields = job.fields.list;
    options.fields_count = job.fields.count;
    job.sink.is_mix = job.mix.count > 1;
    if (args->out)
        status = open_out(args, &job, err);
    if (!status)
        status = open_io(args, &job, err);
    options.io = job.io;
    uint64_t began_ns = clock_now_ns();
    if (!status)
        status = loader_open(&options, &job.loader, err);
    if (!status && args->html)
        status = open_page(&job, &options, err);
    if (!status && args->quality) {
        status = print_quality(args, job.loader, err);
    } else if (!status) {
        status = read_all(invocation, job.loader, &options.batching, &limit, &job.sink, err);
        uint64_t elapsed_ns = clock_now_ns() - began_ns;
        if (!status && args->html)
            status = read_page_write(&job.page, &options, requested_fields(&job, args)->items,
                                     loader_shape(job.loader).samples, args->html, args->force,
                                     &job.page_bytes, err);
        if (!status)
            status = print_summary(args, &job, elapsed_ns, err);
    }
    page_items_close(&job.page);
    loader_close(job.loader);
    io_close(job.io);
    io_close(job.sink.io);
    read_sink_deinit(&job.sink);
    read_fields_deinit(&job.fields);
    auto_fields_deinit(&job.auto_specs);
    read_mix_deinit(&job.mix);
    return status;
}

static const char *const examples[] = {
    "millrace read shards --print keys --count 20",
    "millrace read shards --rank 1 --ranks 4 --print keys",
    "millrace read shards --decode image --size 224 --crop random --flip --json",
    "millrace read shards --decode image --randaugment 2,9 --jitter 0.4,0.4,0.4,0.1",
    "millrace read shards --decode image --mixup 0.8 --cutmix 1 --count 8 --micro 8 -o mixed",
    "millrace read shards --decode image --layout chw --dtype f16 --mean 0.485,0.456,0.406 --std "
    "0.229,0.224,0.225 --count 8 -o arrays",
    "millrace read shards --order sequential --count 5 -o first-five",
    "millrace read captions.tar --field auto --print json",
    "millrace read captions.tar --field 'caption={from: txt, decode: str}' --print json",
    "millrace read captions.tar --field "
    "'score={from: json, path: $.score, decode: f32, default: 0}' --print json",
    "millrace read shards --decode image --flip --randaugment 2,9 --html augmented.html",
    "millrace read shards --keys keys.txt --print keys",
    "millrace read shards --where 'label <= 2 && !(class(\"ring\"))' --balance class --print keys",
    "millrace read tokens/train --block 64 --count 100 --print json",
    "millrace read --mix split/train=3 --mix split/val=1 --count 64 --print json",
    "millrace read shards --quality",
    "millrace read shards --cold --json",
    "millrace read shards --fault read:delay=20ms%10",
    NULL,
};

const struct verb verb_read = {
    .name = "read",
    .arguments = {"[DATASET]", 0, 1},
    .summary = "Stream one epoch of samples in the order that a training run would see them.",
    .details =
        "DATASET is a dataset.json or its folder, one tar, or a pattern of tars such as "
        "`train-{000000..000099}.tar`. The order depends only on the seed, the epoch, the dataset "
        "and the lanes, which follow from --batch: ranks divide it by micro-batches, and their "
        "digests add up (mod 2^64) to those of one rank. The set digest `once` depends on which "
        "samples were read, the sequence digest `order` also on their order. With --print, the "
        "summary goes to stderr. Several datasets are mixed by weight: an epoch has as many "
        "samples as all datasets together, and each dataset goes through its own epochs in its "
        "own order. --quality divides the dataset into as many regions as a batch has samples, "
        "counts the regions that a batch touches, and compares the count with that of a full "
        "shuffle; it also does so for 16 consecutive batches together, which matter if the "
        "dataset is sorted by class. --html shows images with their labels, and the fields of "
        "--field: masks, boxes and keypoints over the images, other images beside them, texts and "
        "numbers below. See `millrace help formats` for the rules of --fault.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct read_args),
    .run = run,
};

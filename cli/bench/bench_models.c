#include "cli/bench/bench_models.h"

#include "base/philox.h"
#include "base/str.h"
#include "convert/dataset/dataset.h"
#include "convert/dataset/synthetic_photos.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { LETTERS = 26, TEXT_BYTES = 4 << 20, PHOTOS_COUNT = 64 };

static const char TEXT_NAME[] = "text.txt", TOKENS_NAME[] = "tokens", PHOTOS_NAME[] = "photos.tar";

static const struct {
    const char *name, *data, *config;
} models[BENCH_MODEL_COUNT] = {
    [BENCH_GPT2] = {"gpt2", TOKENS_NAME,
                    "  text: {block: 256}\n"
                    "model: {type: gpt2, layers: 6, heads: 6, width: 384}\n"},
    [BENCH_LLAMA] =
        {"llama", TOKENS_NAME,
         "  text: {block: 256}\n"
         "model: {type: llama, layers: 6, heads: 6, kv_heads: 2, width: 384, mlp_width: 1024}\n"},
    [BENCH_VIT] = {"vit", PHOTOS_NAME,
                   "  image: {size: 224}\n"
                   "model: {type: vit, layers: 6, heads: 6, width: 384, patch: 16, classes: 10}\n"},
};

const char *bench_model_name(enum bench_model model)
{
    return models[model].name;
}

int bench_model_configure(enum bench_model model, const struct bench_model_options *options,
                          struct train_config *ret_config, struct err *err)
{
    struct str text = {0};
    str_add_format(&text, "run: {dir: %s/run-%s, seed: 1, steps: 1000000}\n", options->folder,
                   models[model].name);
    str_add_format(&text, "data:\n  train: %s/%s\n  memory: 128MiB\n%s", options->folder,
                   models[model].data, models[model].config);
    str_add_format(&text, "batch: {micro: %" PRIu64 ", global: %" PRIu64 "}\n", options->batch,
                   options->batch * options->accumulation * options->ranks);
    int status = str_status(&text);
    if (status)
        err_set(err, status, "out of memory for a configuration");
    else
        status = config_parse(str_text(&text), text.bytes, "the built-in configuration",
                              options->sets, options->sets_count, ret_config, err);
    str_deinit(&text);
    return status;
}

static int write_letters(struct io *io, const char *path, struct err *err)
{
    char *letters = malloc(TEXT_BYTES);
    if (!letters)
        return err_set(err, -ENOMEM, "out of memory for the text");
    for (uint64_t i = 0; i < TEXT_BYTES; i += 4) {
        struct philox_block random = philox(1, 0, i);
        for (int k = 0; k < 4; k++)
            letters[i + (uint64_t)k] = (char)('a' + random.word[k] % LETTERS);
    }
    int status = io_write_file(io, path, letters, TEXT_BYTES, false, err);
    free(letters);
    return status;
}

static int generate_tokens(struct io *io, const char *folder, const char *target,
                           const atomic_int *stop, const struct log *log, struct err *err)
{
    char source[IO_PATH_BYTES_MAX];
    struct convert_result result;
    int status = io_join_path(folder, TEXT_NAME, source, err);
    if (!status)
        status = write_letters(io, source, err);
    struct convert_options options = {
        .source = source, .target = target, .errors_max = -1, .stop = stop, .log = log};
    return status ? status : convert_dataset(io, &options, &result, err);
}

int bench_model_generate_data(enum bench_model model, struct io *io, const char *folder,
                              const atomic_int *stop, const struct log *log, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat existing;
    int status = io_join_path(folder, models[model].data, path, err);
    if (status || io->names->stat(io, path, &existing, NULL) == 0) /* models share data */
        return status;
    return model == BENCH_VIT ? synthetic_photos_write(io, path, PHOTOS_COUNT, stop, err)
                              : generate_tokens(io, folder, path, stop, log, err);
}

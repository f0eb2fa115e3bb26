/*
 * flipped_bit — tests that a bit flip in a run's memory between two updates ends the run, if checks
 * are enabled.
 */
#include "ckpt/format/safetensors.h"
#include "tests/trainer/text_case.h"
#include "trainer/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATTERN_WORDS = 32,
    WINDOW_WORDS = 1 << 18,
    REGION_BYTES_MAX = 128 << 20, /* sanitizers reserve larger regions */
    STEPS = 6,
    FLIP_STEP = 4,
    FLIP_MASK = 0x400
};

static const char tensor_name[] = "blocks.0.mlp.fc.weight";
static char folder[TEST_PATH_BYTES_MAX], shards[2 * TEST_PATH_BYTES_MAX];
static struct io *io;
/* The contents that the tensor begins with, stored inverted so that the search does not find this
 * copy. */
static uint32_t pattern[PATTERN_WORDS];
static unsigned flips_count;

/* Uses a learning rate of 0, so that the weights do not change. */
static int run(const char *name, const char *steps, const char *check_sync,
               void (*report)(void *, const struct trainer_report *), struct trainer_result *result,
               struct err *err)
{
    char train[3 * TEST_PATH_BYTES_MAX], dir[3 * TEST_PATH_BYTES_MAX];
    snprintf(train, sizeof train, "data.train=%s/dataset.json", shards);
    snprintf(dir, sizeof dir, "run.dir=%s/%s", folder, name);
    const char *sets[] = {train,
                          dir,
                          steps,
                          check_sync,
                          "model.type=gpt2",
                          "model.layers=2",
                          "model.width=32",
                          "model.heads=2",
                          "data.text.block=32",
                          "batch.global=4",
                          "batch.micro=4",
                          "optimizer.lr=0",
                          "schedule.min_lr=0",
                          "data.memory=8MiB",
                          "log.every=1",
                          "checkpoint.every=0"};
    struct train_config config;
    assert_ok(config_parse("", 0, "none", sets, sizeof sets / sizeof sets[0], &config, err), err);
    struct trainer_options options = {.config = &config, .io = io, .report = report};
    return trainer_run(&options, result, err);
}

/* Reads the start of the tensor from the only file in a run's last checkpoint. */
static void read_tensor_start(const char *name, unsigned step, uint32_t ret_words[PATTERN_WORDS])
{
    char path[3 * TEST_PATH_BYTES_MAX];
    struct safetensors file;
    struct err err;
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s/ckpt/step-%08u/rank-00000.safetensors", folder, name, step);
    assert_ok(safetensors_read(io, path, &file, &err), &err);
    unsigned char *content = (unsigned char *)test_read_file(path, &bytes);
    for (uint64_t i = 0; i < file.count; i++)
        if (strcmp(file.entries[i].name, tensor_name) == 0)
            memcpy(ret_words, content + file.entries[i].offset_bytes, sizeof pattern);
    memset(content, 0, bytes);
    free(content);
    safetensors_deinit(&file);
}

static void store_pattern(const char *name, unsigned step)
{
    read_tensor_start(name, step, pattern);
    for (int i = 0; i < PATTERN_WORDS; i++)
        pattern[i] = ~pattern[i];
    assert_int_not_equal(pattern[0], pattern[1]);
}

static bool is_pattern(const uint32_t *words)
{
    size_t same = 0;
    while (same < PATTERN_WORDS && words[same] == ~pattern[same])
        same++;
    return same == PATTERN_WORDS;
}

/* Flips a bit without the program's knowledge, as a cosmic ray does: at each address that holds the
 * pattern, including this window. */
static void flip_region(int memory, uint64_t begin, uint64_t end)
{
    static uint32_t window[WINDOW_WORDS];
    for (uint64_t at = begin; at < end; at += sizeof window - sizeof pattern) {
        ssize_t got =
            pread(memory, window, end - at < sizeof window ? end - at : sizeof window, (off_t)at);
        for (ssize_t i = 0; (i + PATTERN_WORDS) * (ssize_t)sizeof *window <= got; i++) {
            uint32_t flipped = window[i] ^ FLIP_MASK;
            if (window[i] != ~pattern[0] || !is_pattern(window + i))
                continue;
            assert_int_equal(pwrite(memory, &flipped, sizeof flipped,
                                    (off_t)(at + (uint64_t)i * sizeof flipped)),
                             sizeof flipped);
            flips_count++;
        }
    }
}

static void flip_after_the_step(void *context, const struct trainer_report *report)
{
    char line[1024], access[8];
    uint64_t begin, end;
    (void)context;
    if (report->event != TRAINER_PROGRESS || report->step != FLIP_STEP)
        return;
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_true(memory >= 0 && maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &begin, &end, access) == 3 &&
            access[0] == 'r' && access[1] == 'w' && end - begin <= REGION_BYTES_MAX)
            flip_region(memory, begin, end);
    fclose(maps);
    close(memory);
}

static int set_up(void **state)
{
    struct trainer_result result;
    struct err err;
    (void)state;
    test_make_folder(folder);
    assert_ok(io_open(folder, NULL, &io, &err), &err);
    text_case_make(io, folder, shards);
    assert_ok(run("first", "run.steps=1", "parallel.check_sync=0", NULL, &result, &err), &err);
    store_pattern("first", 1);
    flips_count = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    io_close(io);
    test_remove_folder(folder);
    return 0;
}

static void a_checked_bit_flip_ends_the_run(void **state)
{
    char expected[128];
    struct trainer_result result;
    struct err err = {0};
    (void)state;
    assert_ok(run("intact", "run.steps=6", "parallel.check_sync=2", NULL, &result, &err), &err);
    int status =
        run("flipped", "run.steps=6", "parallel.check_sync=2", flip_after_the_step, &result, &err);
    assert_true(flips_count > 0);
    assert_int_equal(status, -EBADMSG);
    snprintf(expected, sizeof expected, "after step %d %s changed without an update", FLIP_STEP,
             tensor_name);
    assert_string_equal(err.what, expected);
}

static void an_unchecked_bit_flip_reaches_the_weights(void **state)
{
    uint32_t words[PATTERN_WORDS] = {0};
    struct trainer_result result;
    struct err err = {0};
    (void)state;
    assert_ok(
        run("flipped", "run.steps=6", "parallel.check_sync=0", flip_after_the_step, &result, &err),
        &err);
    assert_true(flips_count > 0);
    assert_int_equal(result.step, STEPS);
    read_tensor_start("flipped", STEPS, words);
    assert_int_equal(words[0], ~pattern[0] ^ FLIP_MASK);
    for (int i = 1; i < PATTERN_WORDS; i++)
        assert_int_equal(words[i], ~pattern[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_checked_bit_flip_ends_the_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unchecked_bit_flip_reaches_the_weights, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

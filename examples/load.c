/*
 * load — streams a dataset made by `millrace convert dataset` as batches of pictures.
 *
 *     cc load.c $(pkg-config --cflags --libs millrace) -o load
 *     ./load DATASET [SIDE]
 *
 * Prints the number of samples, their classes and the mean of their pixels for each micro-batch,
 * and at the end the loader's statistics. The order and the crops, and therefore all numbers, are
 * the same on each run and machine.
 *
 * Another thread prints a batch and releases it, while this one waits for the next. After the
 * first batch, in the middle of a step, the loader is closed, and another one resumes there.
 */
#include <millrace/loader.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The library never prints; it calls this function. */
static void print_line(void *context, enum log_level level, const char *line)
{
    (void)context;
    (void)level;
    fprintf(stderr, "load: %s\n", line);
}

/* A field has a dtype, a shape, strides and data. Here the fields are "image", U8 [items, height,
 * width, 3], and "label", I32 [items]. */
static void print_batch(const struct batch *batch)
{
    const struct batch_field *image = batch_field_named(batch, "image");
    const struct batch_field *label = batch_field_named(batch, "label");
    uint64_t sum = 0, bytes = image->shape[1] * image->shape[2] * image->shape[3];
    printf("step %" PRIu64 ", micro-batch %" PRIu64 ": %" PRIu32 " pictures, classes", batch->step,
           batch->micro, batch->items_count);
    for (uint32_t i = 0; i < batch->items_count; i++) {
        const uint8_t *pixels = (const uint8_t *)image->data + (int64_t)i * image->stride_bytes[0];
        for (uint64_t k = 0; k < bytes; k++)
            sum += pixels[k];
        printf(" %" PRId32, ((const int32_t *)label->data)[i]);
    }
    printf(", mean %.2f\n",
           batch->items_count > 0 ? (double)sum / (double)(bytes * batch->items_count) : 0.0);
}

/* ---- A thread for each batch. ---- */

struct print_job {
    struct loader *loader;
    const struct batch *batch;
    pthread_t thread;
    bool is_running;
};

static void *print_and_release(void *argument)
{
    struct print_job *job = argument;
    print_batch(job->batch);
    loader_release(job->loader, job->batch);
    return NULL;
}

static void wait_for(struct print_job *job)
{
    if (job->is_running)
        pthread_join(job->thread, NULL);
    job->is_running = false;
}

/* Holds the batch until the thread has printed it. */
static void start(struct print_job *job, struct loader *loader, const struct batch *batch)
{
    wait_for(job); /* batches are printed in order */
    job->loader = loader;
    job->batch = batch;
    job->is_running = pthread_create(&job->thread, NULL, print_and_release, job) == 0;
    if (!job->is_running)
        print_and_release(job);
}

/* ---- Streaming. ---- */

static void print_end(struct loader *loader, uint64_t samples)
{
    struct loader_shape shape = loader_shape(loader);
    struct cursor cursor = loader_cursor(loader);
    printf("%" PRIu64 " samples of %" PRIu64 " by %s, %" PRIu64 " bad ones replaced\n", samples,
           shape.samples, shape.engine, loader_stats(loader).bad_samples_count);
    printf("once %016" PRIx64 "  order %016" PRIx64 "\n", cursor.set_digest,
           cursor.sequence_digest);
}

/* Delivers up to batches_max batches from the cursor on, counts their samples, and moves the
 * cursor. Returns LOADER_BATCH if there may be more, LOADER_END, or an error. */
static int stream(struct loader_options options, uint64_t batches_max, struct cursor *cursor,
                  uint64_t *samples, struct err *err)
{
    struct print_job job = {0};
    struct loader *loader = NULL;
    const struct batch *batch;
    options.epoch = cursor->epoch;
    options.position = cursor->position;
    options.micros_done = cursor->micros_done;
    options.set_digest = cursor->set_digest;
    options.sequence_digest = cursor->sequence_digest;
    int status = loader_open(&options, &loader, err);
    if (!status)
        status = LOADER_BATCH;
    for (uint64_t n = 0; status == LOADER_BATCH && n < batches_max; n++) {
        status = loader_next(loader, &batch, err);
        if (status != LOADER_BATCH)
            break;
        *samples += batch->items_count;
        start(&job, loader, batch);
    }
    wait_for(&job);
    if (status >= 0)
        *cursor = loader_cursor_in_step(loader);
    if (status == LOADER_END)
        print_end(loader, *samples);
    loader_close(loader);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: load DATASET [SIDE]\n");
        return 2;
    }
    struct log log = {.write = print_line, .level_min = LOG_WARN};
    struct loader_options options = loader_options_default();
    options.dataset = argv[1];
    options.seed = 7;
    options.epochs_max = 1;
    options.batching = (struct batching){.global = 16, .micro = 8, .ranks = 1};
    options.decode = LOADER_IMAGE;
    options.image.width = options.image.height =
        argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 64;
    options.image.crop = crop_options_default(CROP_RANDOM);
    options.memory_bytes = 64 << 20;
    options.log = &log;

    struct err err = {0};
    struct cursor cursor = {0};
    uint64_t samples = 0;
    int status = stream(options, 1, &cursor, &samples, &err);
    if (status == LOADER_BATCH) {
        printf("stopped after %" PRIu64 " micro-batches of the step at position %" PRIu64 "\n",
               cursor.micros_done, cursor.position);
        status = stream(options, UINT64_MAX, &cursor, &samples, &err);
    }
    if (status < 0) {
        char line[ERR_LINE_BYTES_MAX];
        fprintf(stderr, "load: %s\n", err_format(&err, line, sizeof line));
        return 1;
    }
    return 0;
}

/*
 * run_data — see run_data.h.
 */
#include "trainer/run/parts/run_data.h"

#include <assert.h>

void run_data_close(struct run_data *data)
{
    batch_upload_deinit(&data->upload);
    loader_close(data->loader);
    data_schema_deinit(&data->saved_schema);
}

void run_data_set_batch(struct run_data *data, const struct train_config *original_config,
                        uint64_t epoch)
{
    data->epochs = (struct epochs){.initial_batch = original_config->batch.global};
    int status = epochs_parse(original_config->batch.schedule, &data->epochs, NULL);
    assert(status == 0); /* config_check has accepted it */
    (void)status;
    data->batching.global =
        original_config->batch.global * epochs_batch_multiplier(&data->epochs, epoch);
}

void run_data_set_shape(struct run_data *data, const struct loader_shape *shape,
                        struct train_config *config)
{
    data->shape = *shape;
    if (config->model.classes == 0)
        config->model.classes = shape->classes_count;
    if (config->model.vocabulary == 0)
        config->model.vocabulary = shape->vocabulary;
}

int run_data_cursor(const struct run_data *data, const struct run_ranks *ranks,
                    struct cursor *ret_cursor, struct err *err)
{
    *ret_cursor = loader_cursor(data->loader);
    int64_t digests[] = {(int64_t)ret_cursor->set_digest, (int64_t)ret_cursor->sequence_digest};
    int status = run_ranks_reduce(ranks, digests, 2, COMM_SUM, "the digests of the data", err);
    ret_cursor->set_digest = (uint64_t)digests[0];
    ret_cursor->sequence_digest = (uint64_t)digests[1];
    return status;
}

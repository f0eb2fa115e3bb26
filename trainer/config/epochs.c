/*
 * epochs — see epochs.h.
 */
#include "trainer/config/epochs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int reject(const char *text, bool is_epoch_zero, struct err *err)
{
    err_set(err, -EINVAL, "batch.schedule is not a list of EPOCH:TIMES");
    err_expected(err,
                 "comma-separated EPOCH:TIMES such as \"4:2, 8:4\": at most %d ascending epochs "
                 "from 1 on, times from 1 to %d",
                 EPOCHS_CHANGES_MAX, EPOCHS_MULTIPLIER_MAX);
    err_found(err, "%.200s", text);
    if (is_epoch_zero)
        err_advise(err, "set the batch of epoch 0 with batch.global");
    return -EINVAL;
}

int epochs_parse(const char *text, struct epochs *epochs, struct err *err)
{
    const char *rest = text;
    uint64_t last = 0;
    uint32_t count = 0;
    while (*rest) {
        char epoch_text[10], times_text[8];
        int length = 0;
        if (sscanf(rest, " %9[0-9]:%7[0-9] %n", epoch_text, times_text, &length) != 2)
            return reject(text, false, err);
        uint64_t epoch = strtoull(epoch_text, NULL, 10), times = strtoull(times_text, NULL, 10);
        if (epoch <= last || times < 1 || times > EPOCHS_MULTIPLIER_MAX ||
            count == EPOCHS_CHANGES_MAX)
            return reject(text, epoch == 0, err);
        epochs->changes[count++] = (struct epochs_change){epoch, times};
        last = epoch;
        rest += length;
        if (*rest && (*rest++ != ',' || !*rest))
            return reject(text, false, err);
    }
    epochs->changes_count = count;
    return 0;
}

uint64_t epochs_batch_multiplier(const struct epochs *epochs, uint64_t epoch)
{
    uint64_t multiplier = 1;
    for (uint32_t i = 0; i < epochs->changes_count && epochs->changes[i].epoch <= epoch; i++)
        multiplier = epochs->changes[i].multiplier;
    return multiplier;
}

uint64_t epochs_steps_in_epoch(const struct epochs *epochs, uint64_t epoch)
{
    return epochs->samples / (epochs->initial_batch * epochs_batch_multiplier(epochs, epoch));
}

uint64_t epochs_next_change(const struct epochs *epochs, uint64_t epoch)
{
    for (uint32_t i = 0; i < epochs->changes_count; i++)
        if (epochs->changes[i].epoch > epoch &&
            epochs->changes[i].multiplier !=
                epochs_batch_multiplier(epochs, epochs->changes[i].epoch - 1))
            return epochs->changes[i].epoch;
    return UINT64_MAX;
}

uint64_t epochs_first_step(const struct epochs *epochs, uint64_t epoch)
{
    uint64_t steps = 0;
    for (uint64_t at = 0; at < epoch;) {
        uint64_t next = epochs_next_change(epochs, at), end = next < epoch ? next : epoch, more;
        if (__builtin_mul_overflow(end - at, epochs_steps_in_epoch(epochs, at), &more) ||
            __builtin_add_overflow(steps, more, &steps))
            return UINT64_MAX;
        at = end;
    }
    return steps;
}

uint64_t epochs_epoch_at_step(const struct epochs *epochs, uint64_t step)
{
    uint64_t at = 0, first = 0;
    for (;;) {
        uint64_t next = epochs_next_change(epochs, at);
        uint64_t epoch = at + (step - first) / epochs_steps_in_epoch(epochs, at);
        if (epoch < next)
            return epoch;
        first += (next - at) * epochs_steps_in_epoch(epochs, at);
        at = next;
    }
}

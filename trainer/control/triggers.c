/*
 * triggers — see triggers.h.
 */
#include "trainer/control/triggers.h"

#include "base/clock.h"

enum {
    GUESSED_NS_PER_BYTE = 10, /* 100 MB/s, until a save is measured */
    STEP_DECAY = 16,          /* each faster step reduces the estimate by a sixteenth */
};

void triggers_init(struct triggers *triggers, const struct triggers_options *options)
{
    *triggers = (struct triggers){.options = *options,
                                  .saved_ns = options->began_ns,
                                  .save_ns = options->state_bytes * GUESSED_NS_PER_BYTE};
}

void triggers_change_batch(struct triggers *triggers, const struct triggers_options *options)
{
    triggers->options = *options;
}

bool triggers_save_by_step(const struct triggers *triggers, uint64_t step)
{
    const struct triggers_options *o = &triggers->options;
    bool by_count = o->every.steps > 0 && step % o->every.steps == 0;
    bool by_epoch =
        o->on_epoch_end && o->epoch_steps > 0 && (step - o->first_step) % o->epoch_steps == 0;
    return by_count || by_epoch;
}

bool triggers_save_by_clock(const struct triggers *triggers, uint64_t now_ns)
{
    uint64_t every_ns = triggers->options.every.ns;
    return every_ns > 0 && now_ns - triggers->saved_ns >= every_ns;
}

bool triggers_must_stop(const struct triggers *triggers, uint64_t now_ns)
{
    const struct triggers_options *o = &triggers->options;
    uint64_t steps_ns = (1 + o->steps_ahead) * triggers->step_ns;
    uint64_t reserve_ns = steps_ns + 2 * triggers->save_ns + CLOCK_NS_PER_S;
    uint64_t passed_ns = o->before_ns + (now_ns - o->began_ns);
    return o->max_time_ns > 0 && triggers->has_step && passed_ns + reserve_ns >= o->max_time_ns;
}

void triggers_begin_step(struct triggers *triggers, uint64_t now_ns)
{
    triggers->has_step = true;
    triggers->step_began_ns = now_ns;
}

void triggers_end_step(struct triggers *triggers, uint64_t now_ns)
{
    uint64_t ns = now_ns - triggers->step_began_ns;
    uint64_t decayed_ns = triggers->step_ns - triggers->step_ns / STEP_DECAY;
    triggers->step_ns = ns > decayed_ns ? ns : decayed_ns;
}

void triggers_note_save_begun(struct triggers *triggers, uint64_t now_ns)
{
    triggers->saved_ns = now_ns;
}

void triggers_note_save(struct triggers *triggers, uint64_t ns)
{
    if (!triggers->has_saved || ns > triggers->save_ns)
        triggers->save_ns = ns;
    triggers->has_saved = true;
}

void triggers_note_failed_save(struct triggers *triggers, uint64_t ns)
{
    if (ns > triggers->save_ns)
        triggers->save_ns = ns;
}

/*
 * power — see power.h.
 *
 * Names: a single pass in order. An operation takes effect if it is chosen and all earlier
 * operations on its names took effect. Files: the durable operations are applied first, then the
 * pending ones in order. Each unit of the file, and its size, sees a randomly chosen number of the
 * first pending operations.
 */
#include "tests/crash/power.h"

#include "base/bytes.h"
#include "base/philox.h"

#include <stdlib.h>
#include <string.h>

/* A state under construction. */
struct state_builder {
    const struct history *history;
    uint32_t instant;
    struct power_choice choice;
    bool *takes_effect_by_op; /* [operation]: whether it is on names and takes effect */
    double probability;       /* that an operation takes effect, for POWER_SOME */
    uint64_t unit_bytes;
    bool has_garbage; /* bytes that were never written hold garbage */
    struct tree *tree;
};

enum draw { DRAW_STYLE, DRAW_NAME, DRAW_UNIT, DRAW_SIZE, DRAW_GARBAGE };

static struct philox_block draw_random(const struct state_builder *state_builder, enum draw what,
                                       uint64_t a, uint64_t b)
{
    return philox(state_builder->choice.seed, (uint64_t)what << 56 | a, b);
}

bool power_is_pending(const struct history_op *op, uint32_t instant)
{
    return op->begin <= instant && op->durable_at > instant && op->kind < HISTORY_SYNC;
}

static bool names_equal(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static bool share_a_name(const struct history_op *a, const struct history_op *b)
{
    return names_equal(a->name, b->name) || names_equal(a->name, b->other) ||
           names_equal(a->other, b->name) || names_equal(a->other, b->other);
}

/* ---- Names. ---- */

/* Whether `later` cannot take effect without `earlier`. Both are on names. */
static bool depends_on(const struct state_builder *state_builder, uint32_t later, uint32_t earlier)
{
    const struct history_op *a = &state_builder->history->ops[earlier],
                            *b = &state_builder->history->ops[later];
    return history_is_name_op(a) && a->node == b->node && share_a_name(a, b);
}

/* Sets required[op] for the chosen operation and for all that it directly or indirectly depends on.
 * */
static void mark_required(const struct state_builder *state_builder, bool *required)
{
    uint32_t chosen = state_builder->choice.op;
    required[chosen] = true;
    for (uint32_t later = chosen + 1; later-- > 0;)
        for (uint32_t earlier = 0; required[later] && earlier < later; earlier++)
            required[earlier] = required[earlier] || depends_on(state_builder, later, earlier);
}

static bool takes_effect(const struct state_builder *state_builder, uint32_t op,
                         const bool *required)
{
    switch (state_builder->choice.kind) {
    case POWER_NONE:
        return false;
    case POWER_ALL:
        return true;
    case POWER_ALL_BUT:
        return op != state_builder->choice.op;
    case POWER_ONLY:
        return required[op];
    case POWER_SOME:
        break;
    }
    return philox_uniform(draw_random(state_builder, DRAW_NAME, 0, op).word[0]) <
           state_builder->probability;
}

static void choose_names(struct state_builder *state_builder)
{
    const struct history *history = state_builder->history;
    bool *required = calloc(history->ops_count + 1, sizeof *required);
    if (state_builder->choice.kind == POWER_ONLY &&
        history_is_name_op(&history->ops[state_builder->choice.op]))
        mark_required(state_builder, required);
    for (uint32_t i = 0; i < history->ops_count && history->ops[i].begin <= state_builder->instant;
         i++) {
        const struct history_op *op = &history->ops[i];
        if (!history_is_name_op(op))
            continue;
        bool takes_effect_by_op = !power_is_pending(op, state_builder->instant) ||
                                  takes_effect(state_builder, i, required);
        for (uint32_t earlier = 0; earlier < i && takes_effect_by_op; earlier++)
            takes_effect_by_op = state_builder->takes_effect_by_op[earlier] ||
                                 !depends_on(state_builder, i, earlier);
        state_builder->takes_effect_by_op[i] = takes_effect_by_op;
        if (takes_effect_by_op)
            history_apply(op, state_builder->tree);
    }
    free(required);
}

/* ---- Files. ---- */

/* The pending operations on one file, in order. */
struct pending_ops {
    uint32_t file;
    const struct history_op **ops;
    uint32_t count;
    uint32_t chosen; /* index of the choice in ops; count: the choice is not in ops */
};

static bool touches(const struct history_op *op, uint64_t begin, uint64_t end)
{
    return op->kind == HISTORY_WRITE && op->offset < end && begin < op->offset + op->bytes;
}

/* How many of the pending operations a part of the file has seen. is_chosen: whether the choice
 * affects this part. what, at: identify the random draw. */
static uint32_t seen_ops_count(const struct state_builder *state_builder,
                               const struct pending_ops *pending, bool is_chosen, enum draw what,
                               uint64_t at)
{
    switch (state_builder->choice.kind) {
    case POWER_NONE:
        return 0;
    case POWER_ALL:
        return pending->count;
    case POWER_ALL_BUT:
        return is_chosen ? pending->chosen : pending->count;
    case POWER_ONLY:
        return is_chosen ? pending->chosen + 1 : 0;
    case POWER_SOME:
        break;
    }
    struct philox_block random = draw_random(state_builder, what, pending->file, at);
    return philox_uniform(random.word[0]) < state_builder->probability
               ? pending->count
               : random.word[1] % (pending->count + 1);
}

static uint32_t seen_by_unit(const struct state_builder *state_builder,
                             const struct pending_ops *pending, uint64_t unit)
{
    uint64_t begin = unit * state_builder->unit_bytes, end = begin + state_builder->unit_bytes;
    bool is_touched =
        pending->chosen < pending->count && touches(pending->ops[pending->chosen], begin, end);
    return seen_ops_count(state_builder, pending, is_touched, DRAW_UNIT, unit);
}

static uint32_t seen_by_size(const struct state_builder *state_builder,
                             const struct pending_ops *pending)
{
    return seen_ops_count(state_builder, pending, pending->chosen < pending->count, DRAW_SIZE, 0);
}

static uint64_t size_after(const struct history_op *op, uint64_t bytes)
{
    switch (op->kind) {
    case HISTORY_WRITE:
        return op->offset + op->bytes > bytes ? op->offset + op->bytes : bytes;
    case HISTORY_GROW:
        return op->bytes > bytes ? op->bytes : bytes;
    case HISTORY_SIZE:
        return op->bytes;
    default:
        return bytes;
    }
}

static void fill_with_garbage(const struct state_builder *state_builder, uint32_t file,
                              uint64_t from)
{
    struct tree_node *node = &state_builder->tree->nodes[file];
    for (uint64_t at = from; at < node->bytes; at++)
        node->data[at] = (unsigned char)(draw_random(state_builder, DRAW_GARBAGE, file, at / 16)
                                             .word[at / 4 % 4] >>
                                         at % 4 * 8);
}

/* Writes the data of pending operation `number` to the units that have seen it. */
static void write_units(const struct state_builder *state_builder,
                        const struct pending_ops *pending, uint32_t number)
{
    const struct history_op *op = pending->ops[number];
    uint64_t end = op->offset + op->bytes;
    for (uint64_t at = op->offset, next; at < end; at = next) {
        uint64_t unit = at / state_builder->unit_bytes;
        next = bytes_min((unit + 1) * state_builder->unit_bytes, end);
        if (number < seen_by_unit(state_builder, pending, unit))
            tree_write(state_builder->tree, pending->file, at, op->data + (at - op->offset),
                       next - at);
    }
}

static void build_file(const struct state_builder *state_builder, const struct pending_ops *pending)
{
    uint64_t old_bytes = state_builder->tree->nodes[pending->file].bytes, bytes = old_bytes,
             most_bytes = old_bytes;
    uint32_t sizes = seen_by_size(state_builder, pending);
    for (uint32_t i = 0; i < pending->count; i++) {
        bytes = i < sizes ? size_after(pending->ops[i], bytes) : bytes;
        most_bytes = size_after(pending->ops[i], most_bytes) > most_bytes
                         ? size_after(pending->ops[i], most_bytes)
                         : most_bytes;
    }
    tree_set_size(state_builder->tree, pending->file, most_bytes);
    if (state_builder->has_garbage)
        fill_with_garbage(state_builder, pending->file, old_bytes);
    for (uint32_t i = 0; i < pending->count; i++)
        if (pending->ops[i]->kind == HISTORY_WRITE)
            write_units(state_builder, pending, i);
    tree_set_size(state_builder->tree, pending->file, bytes);
}

static void build_pending_file(struct state_builder *state_builder, uint32_t file)
{
    const struct history *history = state_builder->history;
    struct pending_ops pending = {.file = file,
                                  .ops = calloc(history->ops_count + 1, sizeof *pending.ops)};
    bool is_chosen = false;
    for (uint32_t i = 0; i < history->ops_count && history->ops[i].begin <= state_builder->instant;
         i++) {
        const struct history_op *op = &history->ops[i];
        if (op->node != file || history_is_name_op(op) || op->kind >= HISTORY_SYNC)
            continue;
        if (!power_is_pending(op, state_builder->instant)) {
            history_apply(op, state_builder->tree);
            continue;
        }
        if (!is_chosen && i == state_builder->choice.op) {
            pending.chosen = pending.count;
            is_chosen = true;
        }
        pending.ops[pending.count++] = op;
    }
    if (!is_chosen)
        pending.chosen = pending.count;
    if (pending.count > 0)
        build_file(state_builder, &pending);
    free(pending.ops);
}

void power_state(const struct history *history, uint32_t instant, struct power_choice choice,
                 struct tree *ret_tree)
{
    static const double shares[] = {0.1, 0.3, 0.5, 0.7, 0.9};
    static const uint64_t units_bytes[] = {512, 4096, 4096, 1 << 20};
    struct state_builder state_builder = {
        .history = history, .instant = instant, .choice = choice, .tree = ret_tree};
    struct philox_block style = draw_random(&state_builder, DRAW_STYLE, 0, 0);
    state_builder.probability = shares[style.word[0] % 5];
    state_builder.unit_bytes = choice.kind == POWER_SOME ? units_bytes[style.word[1] % 4] : 512;
    state_builder.has_garbage = choice.kind == POWER_SOME && style.word[2] % 4 == 0;
    state_builder.takes_effect_by_op =
        calloc(history->ops_count + 1, sizeof *state_builder.takes_effect_by_op);
    tree_copy(ret_tree, &history->base);
    choose_names(&state_builder);
    for (uint32_t node = 0; node < ret_tree->count; node++)
        if (!ret_tree->nodes[node].is_folder)
            build_pending_file(&state_builder, node);
    free(state_builder.takes_effect_by_op);
}

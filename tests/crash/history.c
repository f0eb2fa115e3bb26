/*
 * history — see history.h.
 */
#include "tests/crash/history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    [HISTORY_LINK] = "link",         [HISTORY_UNLINK] = "unlink", [HISTORY_RENAME] = "rename",
    [HISTORY_EXCHANGE] = "exchange", [HISTORY_WRITE] = "write",   [HISTORY_SIZE] = "size",
    [HISTORY_GROW] = "grow",         [HISTORY_SYNC] = "fsync",    [HISTORY_NOTE] = "note",
};

bool history_is_name_op(const struct history_op *op)
{
    return op->kind <= HISTORY_EXCHANGE;
}

uint32_t history_add(struct history *history, struct history_op op)
{
    if ((history->ops_count & (history->ops_count - 1)) == 0) {
        size_t room = history->ops_count > 0 ? 2 * (size_t)history->ops_count : 1;
        history->ops = realloc(history->ops, room * sizeof *history->ops);
        if (!history->ops)
            abort();
    }
    op.begin = ++history->instants_count;
    op.end = history_is_name_op(&op) || op.kind == HISTORY_NOTE ? op.begin : HISTORY_NEVER;
    op.durable_at = HISTORY_NEVER;
    history->ops[history->ops_count] = op;
    return history->ops_count++;
}

void history_end(struct history *history, uint32_t op)
{
    history->ops[op].end = ++history->instants_count;
}

/* Ranks that write to one file may be on different machines, and an fsync on one machine does not
 * cover what another has in memory. */
static bool sync_covers(const struct history_op *sync, const struct history_op *op)
{
    return sync->kind == HISTORY_SYNC && sync->node == op->node && sync->begin > op->end &&
           (history_is_name_op(op) || sync->opener == op->opener);
}

void history_close(struct history *history)
{
    for (uint32_t i = 0; i < history->ops_count; i++) {
        struct history_op *op = &history->ops[i];
        for (uint32_t s = i + 1; s < history->ops_count; s++) {
            const struct history_op *sync = &history->ops[s];
            if (sync_covers(sync, op) && sync->end < op->durable_at)
                op->durable_at = sync->end;
        }
    }
}

void history_deinit(struct history *history)
{
    for (uint32_t i = 0; i < history->ops_count; i++) {
        free(history->ops[i].name);
        free(history->ops[i].other);
        free(history->ops[i].data);
    }
    free(history->ops);
    tree_deinit(&history->base);
    *history = (struct history){0};
}

void history_apply(const struct history_op *op, struct tree *tree)
{
    switch (op->kind) {
    case HISTORY_LINK:
        tree_link(tree, op->node, op->name, op->child);
        break;
    case HISTORY_UNLINK:
        tree_unlink(tree, op->node, op->name);
        break;
    case HISTORY_RENAME:
        tree_rename(tree, op->node, op->name, op->other);
        break;
    case HISTORY_EXCHANGE:
        tree_exchange(tree, op->node, op->name, op->other);
        break;
    case HISTORY_WRITE:
        tree_write(tree, op->node, op->offset, op->data, op->bytes);
        break;
    case HISTORY_SIZE:
        tree_set_size(tree, op->node, op->bytes);
        break;
    case HISTORY_GROW:
        if (tree->nodes[op->node].bytes < op->bytes)
            tree_set_size(tree, op->node, op->bytes);
        break;
    case HISTORY_SYNC:
    case HISTORY_NOTE:
        break;
    }
}

void history_visible_tree(const struct history *history, uint32_t instant, struct tree *ret_tree)
{
    tree_copy(ret_tree, &history->base);
    for (uint32_t i = 0; i < history->ops_count && history->ops[i].begin <= instant; i++)
        history_apply(&history->ops[i], ret_tree);
}

void history_print(const struct history *history, uint32_t instant, FILE *to)
{
    for (uint32_t i = 0; i < history->ops_count && history->ops[i].begin <= instant; i++) {
        const struct history_op *op = &history->ops[i];
        fprintf(to, "%5" PRIu32 "  %-8s node %" PRIu32, op->begin, kind_names[op->kind], op->node);
        if (op->kind == HISTORY_LINK)
            fprintf(to, " child %" PRIu32, op->child);
        if (op->name)
            fprintf(to, " %s%s%s", op->name, op->other ? " -> " : "", op->other ? op->other : "");
        if (op->kind == HISTORY_WRITE)
            fprintf(to, " offset %" PRIu64, op->offset);
        if (op->bytes > 0)
            fprintf(to, " %" PRIu64 " bytes", op->bytes);
        fprintf(to, op->end <= instant ? "" : " (in progress)");
        fprintf(to, op->durable_at <= instant && op->kind < HISTORY_SYNC ? " durable\n" : "\n");
    }
}

/*
 * existing — compares and removes an existing step that is saved again; see commit.h.
 */
#include "base/json/jsonx_format.h"
#include "ckpt/ckpt.h"
#include "ckpt/collective.h"
#include "ckpt/format/folder.h"
#include "ckpt/save/commit.h"
#include "ckpt/tools/prune.h"
#include "ckpt/tools/verify.h"

#include <stdlib.h>
#include <string.h>

static bool has_same_arrays(const struct manifest *a, const struct manifest *b,
                            const struct str *b_tensors)
{
    struct str tensors = {0};
    bool same = a->files_count == b->files_count && strcmp(a->numerics_id, b->numerics_id) == 0;
    for (uint64_t i = 0; i < b->files_count && same; i++) {
        const struct manifest_file *x = &a->files[i], *y = &b->files[i];
        same = strcmp(x->name, y->name) == 0 && x->is_elsewhere == y->is_elsewhere &&
               x->size_bytes == y->size_bytes &&
               memcmp(x->block_crc32c, y->block_crc32c,
                      x->blocks_count * sizeof *x->block_crc32c) == 0;
    }
    if (!same)
        return false;
    manifest_encode_tensors(a, &tensors);
    same = str_status(&tensors) == 0 && strcmp(str_text(&tensors), str_text(b_tensors)) == 0;
    str_deinit(&tensors);
    return same;
}

static bool is_same_value(struct json_t *a, struct json_t *b)
{
    struct str x = {0}, y = {0};
    bool same = a && b && jsonx_format(a, &x) == 0 && jsonx_format(b, &y) == 0 &&
                strcmp(str_text(&x), str_text(&y)) == 0;
    str_deinit(&x);
    str_deinit(&y);
    return same;
}

/* Whether the new state contains the old one, apart from annotations. */
static bool is_superseded_by(struct json_t *old_state, struct json_t *new_state)
{
    struct jsonx_member *members;
    size_t count;
    bool same = true;
    if (jsonx_members(old_state, &members, &count))
        return false;
    for (size_t i = 0; i < count && same; i++) {
        const char *key = members[i].key;
        same = manifest_is_annotation(key) ||
               is_same_value(members[i].value, jsonx_get(new_state, key));
    }
    free(members);
    return same;
}

/* Compares manifests only. */
static enum commit_comparison compare_manifests(const struct commit *commit, const char *path,
                                                const char *state_json)
{
    const struct global_plan *global = commit->global;
    struct manifest found;
    struct json_t *state = NULL;
    enum commit_comparison comparison = COMMIT_DIFFERENT;
    if (folder_read_step(commit->io, path, &found, NULL, NULL))
        return comparison;
    if (found.step == commit->step &&
        has_same_arrays(&found, &global->manifest, &global->tensors_text) &&
        jsonx_parse(state_json, strlen(state_json), "state", 0, &state, NULL) == 0) {
        if (is_same_value(found.state, state))
            comparison = COMMIT_SAME;
        else if (is_superseded_by(found.state, state))
            comparison = COMMIT_SAME_ARRAYS;
        jsonx_free(state);
    }
    manifest_deinit(&found);
    return comparison;
}

static void log_damage(void *context, const struct err *detail)
{
    const struct commit *commit = context;
    log_err(commit->log, LOG_WARN, detail, "replacing a damaged step with the new one");
}

/* Reads the existing step back, since a damaged one must be replaced. Each rank of a node reads
 * about as much as it wrote, so that no rank waits long. */
static bool is_intact(struct commit *commit)
{
    const struct comm *node = commit->nodes->node;
    const struct verify_options options = {.io = commit->io,
                                           .step_path = commit->path,
                                           .share = {(uint32_t)node->rank, (uint32_t)node->ranks},
                                           .bad = log_damage,
                                           .context = commit};
    return verify_share(&options, NULL) == 0;
}

int commit_compare_existing(struct commit *commit, const char *state_json, struct err *err)
{
    static const char operation[] = "comparing with the existing step";
    struct comm *node = commit->nodes->node;
    commit->global->manifest.numerics_id = commit->numerics_id;
    if (nodes_is_first_rank(commit->nodes))
        commit->comparison = compare_manifests(commit, commit->path, state_json);
    bool is_same = commit->comparison == COMMIT_SAME;
    int status = collective_any(node, &is_same, operation, err);
    if (status || !is_same)
        return status;
    bool is_damaged = !is_intact(commit);
    status = collective_any(node, &is_damaged, operation, err);
    if (!status && is_damaged)
        commit->comparison = COMMIT_DIFFERENT;
    return status;
}

void commit_prune_backup(const struct commit *commit, const char *state_json)
{
    struct io_stat info;
    bool existed = commit->comparison == COMMIT_SAME, has_reader = false;
    bool has_backup = commit->io->names->stat(commit->io, commit->backup_path, &info, NULL) == 0;
    if (existed && !has_backup)
        return;
    enum commit_comparison comparison =
        existed ? compare_manifests(commit, commit->backup_path, state_json) : commit->comparison;
    if (!has_backup)
        log_line(commit->log, LOG_WARN,
                 "%s existed with different contents, which could not be set aside as %s: they "
                 "stay under a name " IO_TEMPORARY_PREFIX "* until the next sweep",
                 commit->path, commit->backup_path);
    else if (comparison == COMMIT_SAME_ARRAYS &&
             prune_remove_unread(commit->io, commit->lock, commit->backup_path, &has_reader,
                                 NULL) == 0 &&
             !has_reader)
        log_line(commit->log, LOG_INFO,
                 "replaced %s, which had the same arrays and different metrics", commit->path);
    else
        log_line(commit->log, LOG_WARN,
                 "%s existed with different contents, which were set aside: %s", commit->path,
                 commit->backup_path);
}

/*
 * check — see check.h.
 */
#include "tests/crash/check.h"

#include "ckpt/ckpt.h"
#include "io/file_util.h"

#include <errno.h>
#include <string.h>

#define BACKUP_PREFIX "aside-step-"

struct check_context {
    const struct plan *plan;
    struct io *io;
    const char *folder;
    struct step_set *found;
    unsigned listed_count, temporaries_count;
    char *why;
};

static bool set_why(char *why, const char *what, const struct err *err)
{
    char line[ERR_LINE_BYTES_MAX];
    snprintf(why, CHECK_WHY_BYTES, "%s: %s", what, err_format(err, line, sizeof line));
    return false;
}

static int load_step(void *context, uint64_t step, const char *path)
{
    struct check_context *check_context = context;
    struct err err = {0};
    struct plan_save found = {.step = step};
    int status = workload_load(check_context->plan, check_context->io, path, &found.version, &err);
    if (status) {
        set_why(check_context->why, "a step is there that can't be loaded", &err);
        return status;
    }
    if (check_context->found->count == STEP_SET_MAX)
        return -E2BIG;
    check_context->found->steps[check_context->found->count++] = found;
    return 0;
}

/* Loads the step that was replaced by one with the same number. */
static int load_backup(void *context, const struct io_entry *entry)
{
    struct check_context *check_context = context;
    char path[IO_PATH_BYTES_MAX];
    uint64_t version;
    struct err err = {0};
    if (strncmp(entry->name, BACKUP_PREFIX, strlen(BACKUP_PREFIX)) != 0)
        return 0;
    int status = io_join_path(check_context->folder, entry->name, path, &err);
    if (!status)
        status = workload_load(check_context->plan, check_context->io, path, &version, &err);
    if (status)
        set_why(check_context->why, "what was put aside can't be loaded", &err);
    return status;
}

static int count_listed(void *context, const struct ckpt_entry *entry)
{
    (void)entry;
    ((struct check_context *)context)->listed_count++;
    return 0;
}

bool check_steps(const struct plan *plan, struct io *io, const char *folder,
                 struct step_set *ret_found, char why[CHECK_WHY_BYTES])
{
    struct check_context check_context = {
        .plan = plan, .io = io, .folder = folder, .found = ret_found, .why = why};
    struct err err = {0};
    ret_found->count = 0;
    if (ckpt_for_each_step(io, folder, load_step, &check_context, &err))
        return *why ? false : set_why(why, "the steps could not be walked", &err);
    if (io->names->list(io, folder, load_backup, &check_context, &err))
        return *why ? false : set_why(why, "the folder could not be listed", &err);
    if (ckpt_list(io, folder, count_listed, &check_context, NULL, &err))
        return set_why(why, "the folder could not be listed", &err);
    if (check_context.listed_count == ret_found->count)
        return true;
    snprintf(why, CHECK_WHY_BYTES, "%u steps are listed, but %u load", check_context.listed_count,
             ret_found->count);
    return false;
}

static bool check_newest(struct io *io, const char *folder, const struct step_set *found, char *why)
{
    char path[IO_PATH_BYTES_MAX];
    uint64_t step = 0;
    struct err err = {0};
    int status = ckpt_find(io, folder, path, &step, NULL, &err);
    if (found->count == 0 && status == -ENOENT)
        return true;
    if (status)
        return set_why(why, "no newest step", &err);
    if (found->count > 0 && step == found->steps[found->count - 1].step)
        return true;
    snprintf(why, CHECK_WHY_BYTES, "step %llu is reported as the newest", (unsigned long long)step);
    return false;
}

static int count_temporary(void *context, const struct io_entry *entry)
{
    struct check_context *check_context = context;
    check_context->temporaries_count +=
        strncmp(entry->name, IO_TEMPORARY_PREFIX, strlen(IO_TEMPORARY_PREFIX)) == 0;
    return 0;
}

bool check_no_leftovers(struct io *io, const char *folder, char why[CHECK_WHY_BYTES])
{
    struct check_context check_context = {0};
    struct err err = {0};
    if (io->names->list(io, folder, count_temporary, &check_context, &err))
        return set_why(why, "the folder could not be listed", &err);
    if (check_context.temporaries_count == 0)
        return true;
    snprintf(why, CHECK_WHY_BYTES, "%u temporaries are left", check_context.temporaries_count);
    return false;
}

/* Checks invariant 4. */
static bool check_next_owner(const struct expected *expected, struct io *io, const char *folder,
                             char *why)
{
    struct step_set found;
    struct err err = {0};
    if (workload_acquire_once(expected->plan, io, folder, &err))
        return set_why(why, "the next owner is refused", &err);
    return check_no_leftovers(io, folder, why) &&
           check_steps(expected->plan, io, folder, &found, why) &&
           expected_allows(expected, &found, why, CHECK_WHY_BYTES);
}

/* Checks invariant 5. */
static bool check_next_save(const struct plan *plan, struct io *io, const char *folder,
                            struct step_set *found, char *why)
{
    struct plan_save further = {.step = 1000000, .version = 1000000};
    struct step_set after;
    struct err err = {0};
    if (workload_save_once(plan, io, folder, further, &err))
        return set_why(why, "a further save failed", &err);
    step_set_save(found, further, plan->keep);
    if (!check_no_leftovers(io, folder, why) || !check_steps(plan, io, folder, &after, why))
        return false;
    if (step_set_equals(&after, found))
        return true;
    snprintf(why, CHECK_WHY_BYTES, "%u steps are kept after another save, not %u", after.count,
             found->count);
    return false;
}

bool check_folder(const struct expected *expected, struct io *io, const char *folder,
                  char why[CHECK_WHY_BYTES])
{
    struct step_set found;
    *why = '\0';
    /* until the next sweep, a step's name may be missing (docs/explanation/io.md) */
    bool has_gap = expected->plan->refuses_rename_flags;
    if (!check_steps(expected->plan, io, folder, &found, why))
        return false;
    if (!has_gap && !expected_allows(expected, &found, why, CHECK_WHY_BYTES))
        return false;
    return check_newest(io, folder, &found, why) && check_next_owner(expected, io, folder, why) &&
           check_steps(expected->plan, io, folder, &found, why) &&
           check_next_save(expected->plan, io, folder, &found, why);
}

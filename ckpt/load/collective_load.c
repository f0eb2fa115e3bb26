/*
 * collective_load — finds and loads checkpoints on ranks that must agree (ckpt.h).
 *
 * Each rank searches by itself and exchanges reports with the others. All reach the same verdict
 * from the same reports:
 *
 *     some could not read        all fail: only damage permits an older step
 *     some found damage          damage for all (-EBADMSG)
 *     different steps            all search again, up to the lowest of these steps
 *     different saves of a step  all open the save that every rank has, possibly as a backup;
 *                                if none exists, they search for an earlier step
 */
#include "base/hash.h"
#include "base/json/jsonx_format.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "ckpt/collective.h"
#include "ckpt/format/folder.h"
#include "ckpt/load/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERRNO_MAX = 4095 /* largest on Linux */ };

/* The result of a rank's search or load. */
struct rank_report {
    int64_t status;    /* 0 also if the rank found no step */
    uint8_t is_absent; /* 0 or 1: found no step */
    uint64_t step;
    struct hash128 content, warnings;
    uint8_t has_backup; /* 0 or 1: has a complete backup that this step replaced */
    struct hash128 backup_content;
    struct err detail;
};

static int alloc_reports(struct comm *comm, const char *operation, struct rank_report **ret_all,
                         struct err *err)
{
    struct rank_report *all = calloc((size_t)comm->ranks, sizeof *all);
    int status = all ? 0 : err_set(err, -ENOMEM, "out of memory for %d ranks", comm->ranks);
    status = collective_agree(comm, status, operation, err);
    if (status)
        free(all);
    else
        *ret_all = all;
    return status;
}

/* Received bytes are not trusted. */
static int check_report(struct rank_report *report, int rank, const char *operation,
                        struct err *err)
{
    struct err *detail = &report->detail;
    if (report->status > 0 || report->status < -ERRNO_MAX || report->is_absent > 1 ||
        report->has_backup > 1)
        return err_set(err, -EPROTO, "%s: rank %d sent an invalid report", operation, rank);
    char *const texts[] = {detail->what, detail->expected, detail->found, detail->advice};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        texts[i][ERR_TEXT_BYTES_MAX - 1] = '\0';
    detail->path[ERR_PATH_BYTES_MAX - 1] = '\0';
    return 0;
}

/* Takes ownership of `all` on failure. */
static int exchange_reports(struct comm *comm, const char *operation, struct rank_report *all,
                            struct err *err)
{
    int status = collective_gather(comm, all, sizeof *all, operation, err);
    if (status) {
        comm_retain(all);
        return status;
    }
    for (int r = 0; r < comm->ranks && !status; r++)
        status = check_report(&all[r], r, operation, err);
    if (status)
        free(all);
    return status;
}

/* Returns the deciding rank: the first with a failure other than damage, else the first with
 * damage. -1: none. */
static int find_failed_rank(const struct rank_report *all, int ranks)
{
    int first = -1;
    for (int r = 0; r < ranks; r++)
        if (all[r].status &&
            (first < 0 || (all[first].status == -EBADMSG && all[r].status != -EBADMSG)))
            first = r;
    return first;
}

/* Returns -EBADMSG on all ranks or on none. */
static int combine_statuses(const struct rank_report *all, const struct comm *comm, struct err *err)
{
    int first = find_failed_rank(all, comm->ranks);
    if (first < 0)
        return 0;
    const struct rank_report *own = &all[comm->rank], *failed = &all[first];
    bool is_damage = failed->status == -EBADMSG;
    if (own->status && (own->status == -EBADMSG) == is_damage) {
        if (err)
            *err = own->detail;
        return (int)own->status;
    }
    int status = is_damage ? -EBADMSG : -EREMOTEIO;
    if (err) {
        *err = failed->detail;
        err->code = status;
        snprintf(err->what, sizeof err->what, "rank %d: %.200s", first, failed->detail.what);
    }
    return status;
}

struct collective_search {
    struct io *io;
    const char *path;
    struct ckpt_find_options options;
    struct comm *comm;
    const struct log *log;
    struct rank_report *all;
    struct str warnings; /* of this rank's search, each with its NUL */
    struct ckpt_reader *reader;
    bool has_found;         /* all ranks found a step in an earlier round */
    bool is_chosen;         /* all agreed on a save of the previous round's step */
    struct hash128 content; /* identifies the chosen save */
};

/* Hashes what identifies a save on any node: the files' names, sizes and hashes, and the state
 * without `config`. Unlike commit, includes metrics, because all ranks evaluate together. */
static int hash_save(const struct manifest *manifest, struct hash128 *ret_content, struct err *err)
{
    struct jsonx_member *members;
    struct str text = {0};
    size_t count;
    int status = jsonx_members(manifest->state, &members, &count);
    if (status)
        return err_set(err, status, "not enough memory to compare checkpoints");
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].key, "config") == 0)
            continue;
        str_add(&text, members[i].key, strlen(members[i].key) + 1);
        jsonx_format(members[i].value, &text);
    }
    free(members);
    for (uint64_t i = 0; i < manifest->files_count; i++) {
        const struct manifest_file *file = &manifest->files[i];
        struct hash128 hash = manifest_file_hash(file);
        str_add(&text, file->name, strlen(file->name) + 1);
        str_add(&text, &file->size_bytes, sizeof file->size_bytes);
        str_add(&text, &hash, sizeof hash);
    }
    status = str_status(&text);
    if (status)
        err_set(err, status, "not enough memory to compare checkpoints");
    else
        *ret_content = hash_128(text.data, text.bytes);
    str_deinit(&text);
    return status;
}

static void collect_warning(void *context, enum log_level level, const char *line)
{
    struct str *warnings = context;
    (void)level;
    str_add(warnings, line, strlen(line) + 1);
}

static bool is_same_hash(const struct hash128 *a, const struct hash128 *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Looks for a complete backup that this rank's step replaced. */
static void find_backup(const struct collective_search *search, struct rank_report *own)
{
    char path[IO_PATH_BYTES_MAX];
    struct manifest manifest;
    if (folder_backup_path(search->path, own->step, path, NULL) ||
        folder_read_step(search->io, path, &manifest, NULL, NULL))
        return;
    own->has_backup =
        manifest.step == own->step && hash_save(&manifest, &own->backup_content, NULL) == 0;
    manifest_deinit(&manifest);
}

static int open_backup(struct collective_search *search, struct rank_report *own)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_shared_lock *lock;
    ckpt_reader_close(search->reader);
    search->reader = NULL;
    int status = folder_backup_path(search->path, own->step, path, &own->detail);
    if (!status)
        status = reader_lock(search->io, path, &lock, &own->detail);
    if (!status)
        status = reader_open_locked(search->io, path, lock, &search->reader, &own->detail);
    if (!status)
        status = hash_save(&search->reader->manifest, &own->content, &own->detail);
    return status;
}

/* Searches on this rank and fills its report. */
static void search_folder(struct collective_search *search)
{
    struct rank_report *own = &search->all[search->comm->rank];
    struct log log = {
        .write = collect_warning, .context = &search->warnings, .level_min = LOG_WARN};
    char path[IO_PATH_BYTES_MAX];
    struct io_shared_lock *lock;
    *own = (struct rank_report){0};
    str_deinit(&search->warnings);
    ckpt_reader_close(search->reader);
    search->reader = NULL;
    int status =
        reader_find(search->io, search->path, &search->options, path, &lock, &log, &own->detail);
    own->is_absent = status == -ENOENT;
    if (!status)
        status = reader_open_locked(search->io, path, lock, &search->reader, &own->detail);
    if (!status)
        status = hash_save(&search->reader->manifest, &own->content, &own->detail);
    if (!status) {
        own->step = ckpt_reader_step(search->reader);
        if (strcmp(path, search->path) != 0) /* else search->path is itself a step */
            find_backup(search, own);
        if (search->is_chosen && own->has_backup &&
            !is_same_hash(&own->content, &search->content) &&
            is_same_hash(&own->backup_content, &search->content))
            status = open_backup(search, own);
    }
    own->status = own->is_absent ? 0 : status;
    own->warnings = hash_128(search->warnings.data, search->warnings.bytes);
}

/* Of ranks with identical warnings, only the first logs them. */
static void log_warnings(const struct collective_search *search)
{
    const struct rank_report *all = search->all, *own = &all[search->comm->rank];
    if (search->warnings.bytes == 0)
        return;
    for (int r = 0; r < search->comm->rank; r++)
        if (memcmp(&all[r].warnings, &own->warnings, sizeof own->warnings) == 0)
            return;
    const char *end = search->warnings.data + search->warnings.bytes;
    for (const char *line = search->warnings.data; line < end; line += strlen(line) + 1)
        log_line(search->log, LOG_WARN, "%s", line);
}

static int no_common_step_error(const struct collective_search *search, struct err *err)
{
    err_set(err, -ESTALE, "there are checkpoints, but none that is present on all ranks");
    err_at(err, search->path, ERR_NO_OFFSET);
    err_advise(err, "give all ranks the same folder, restore a node's folder from a copy, or move "
                    "the folders away");
    return -ESTALE;
}

static bool all_ranks_have(const struct collective_search *search, const struct hash128 *content)
{
    const struct rank_report *all = search->all;
    int rank = 0;
    while (rank < search->comm->ranks &&
           (is_same_hash(&all[rank].content, content) ||
            (all[rank].has_backup && is_same_hash(&all[rank].backup_content, content))))
        rank++;
    return rank == search->comm->ranks;
}

/* Chooses between different saves of one step. After a commit on only some nodes, those have the
 * previous save as a backup, and the others have it as the step. False: no save exists on all
 * ranks, or the chosen save could not be opened. */
static bool choose_save(struct collective_search *search)
{
    const struct rank_report *first = &search->all[0];
    const struct hash128 *content =
        all_ranks_have(search, &first->content) ? &first->content
        : first->has_backup && all_ranks_have(search, &first->backup_content)
            ? &first->backup_content
            : NULL;
    if (search->is_chosen || !content)
        return false;
    search->has_found = search->is_chosen = true;
    search->content = *content;
    if (search->comm->rank == 0)
        log_line(search->log, LOG_WARN,
                 "step %" PRIu64 " was saved again, but not on all nodes: using the previous save, "
                 "which some of them set aside",
                 first->step);
    return true;
}

/* Returns the same result on all ranks. 0: all have the same save. 1: search again. */
static int compare_reports(struct collective_search *search, struct err *err)
{
    const struct rank_report *all = search->all;
    int ranks = search->comm->ranks, lowest = 0, highest = 0, differing_rank = -1, absent_count = 0;
    int status = combine_statuses(all, search->comm, err);
    if (status)
        return status;
    for (int r = 0; r < ranks; r++) {
        absent_count += all[r].is_absent;
        lowest = all[r].step < all[lowest].step ? r : lowest;
        highest = all[r].step > all[highest].step ? r : highest;
        if (differing_rank < 0 &&
            memcmp(&all[r].content, &all[0].content, sizeof all[r].content) != 0)
            differing_rank = r;
    }
    if (absent_count == ranks && !search->has_found) {
        if (err)
            *err = all[search->comm->rank].detail;
        return -ENOENT;
    }
    if (absent_count > 0)
        return no_common_step_error(search, err);
    bool is_one_step = all[lowest].step == all[highest].step;
    if (is_one_step && differing_rank < 0)
        return 0;
    if (is_one_step && choose_save(search))
        return 1;
    if (all[highest].step >= search->options.below) /* search->path is itself a step */
        return no_common_step_error(search, err);
    if (search->comm->rank == 0 && is_one_step)
        log_line(search->log, LOG_WARN,
                 "step %" PRIu64 " is skipped: rank %d has a different save of it than rank 0",
                 all[0].step, differing_rank);
    else if (search->comm->rank == 0)
        log_line(search->log, LOG_WARN,
                 "step %" PRIu64 " of rank %d is skipped: rank %d has none after step %" PRIu64,
                 all[highest].step, highest, lowest, all[lowest].step);
    search->has_found = true;
    search->is_chosen = false;
    search->options.below = is_one_step ? all[lowest].step : all[lowest].step + 1;
    return 1;
}

int ckpt_reader_open_collective(struct io *io, const char *path_or_folder,
                                const struct ckpt_find_options *options, struct comm *comm,
                                struct ckpt_reader **ret_reader, const struct log *log,
                                struct err *err)
{
    static const char operation[] = "looking for a checkpoint that all ranks have";
    struct collective_search search = {
        .io = io, .path = path_or_folder, .options = *options, .comm = comm, .log = log};
    int status = alloc_reports(comm, operation, &search.all, err);
    if (status)
        return status;
    do {
        search_folder(&search);
        status = exchange_reports(comm, operation, search.all, err);
        if (status) {
            search.all = NULL;
            break;
        }
        log_warnings(&search);
        status = compare_reports(&search, err);
    } while (status > 0);
    if (status)
        ckpt_reader_close(search.reader);
    else
        *ret_reader = search.reader;
    str_deinit(&search.warnings);
    free(search.all);
    return status;
}

int ckpt_find_collective(struct io *io, const char *path_or_folder,
                         const struct ckpt_find_options *options, struct comm *comm, char *path,
                         uint64_t *ret_step, const struct log *log, struct err *err)
{
    struct ckpt_reader *reader;
    int status = ckpt_reader_open_collective(io, path_or_folder, options, comm, &reader, log, err);
    if (status)
        return status;
    strcpy(path, ckpt_reader_path(reader));
    if (ret_step)
        *ret_step = ckpt_reader_step(reader);
    ckpt_reader_close(reader);
    return 0;
}

int ckpt_reader_load_collective(struct ckpt_reader *reader, struct comm *comm,
                                const struct ckpt_tensor *wanted, uint64_t wanted_count,
                                struct device *device, struct err *err)
{
    static const char operation[] = "loading a checkpoint";
    struct rank_report *all;
    int status = alloc_reports(comm, operation, &all, err);
    if (status)
        return status;
    struct rank_report *own = &all[comm->rank];
    own->status = ckpt_reader_load(reader, wanted, wanted_count, device, &own->detail);
    status = exchange_reports(comm, operation, all, err);
    if (status)
        return status;
    status = combine_statuses(all, comm, err);
    free(all);
    return status;
}

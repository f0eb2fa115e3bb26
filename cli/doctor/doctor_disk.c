/*
 * doctor_disk — checks the file system of a folder, using io_probe.h. See doctor.h.
 */
#include "cli/core/storage.h"
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define FREE_BYTES_MIN (UINT64_C(1) << 30)

static const char *status_text(int status)
{
    return status ? strerror(-status) : "yes";
}

static enum doctor_state missing_state(const struct doctor_folder *folder)
{
    return folder->for_outputs ? DOCTOR_MISSING : DOCTOR_NOTE;
}

static void check_type(struct doctor_finding *finding)
{
    const struct doctor_folder *folder = finding->folder;
    const struct io_probe *probe = &folder->probe;
    if (folder->status) {
        doctor_report_error(finding, DOCTOR_MISSING, &folder->err);
        return;
    }
    doctor_report(finding, "%s, %s", probe->type,
                  probe->is_network        ? "network"
                  : probe->is_memory       ? "in memory, lost when the machine restarts"
                  : probe->is_type_unknown ? "unknown whether local"
                                           : "local");
    if (!probe->exists)
        doctor_report(finding, "; does not exist yet; would be created in %s", probe->folder);
    jsonx_write_string(&finding->json, "type", probe->type);
    jsonx_write_bool(&finding->json, "is_network", probe->is_network);
    jsonx_write_bool(&finding->json, "is_memory", probe->is_memory);
    if (folder->for_outputs && probe->is_memory)
        doctor_advise(finding, DOCTOR_NOTE, "keep checkpoints on a disk");
}

static void check_space(struct doctor_finding *finding)
{
    const struct io_probe *probe = &finding->folder->probe;
    char available[STR_SIZE_BYTES], total[STR_SIZE_BYTES];
    doctor_report(finding, "%s free of %s", str_format_size(probe->free_bytes, available),
                  str_format_size(probe->total_bytes, total));
    jsonx_write_u64(&finding->json, "free_bytes", probe->free_bytes);
    jsonx_write_u64(&finding->json, "total_bytes", probe->total_bytes);
    jsonx_write_u64(&finding->json, "free_files_count", probe->free_files);
    if (probe->free_bytes < FREE_BYTES_MIN && !probe->write_status)
        doctor_advise(finding, DOCTOR_NOTE,
                      "free some space: shards and checkpoints will soon fill the disk");
}

static void check_read_ahead(struct doctor_finding *finding)
{
    uint64_t bytes = finding->folder->probe.read_ahead_bytes;
    char size[STR_SIZE_BYTES];
    doctor_report(finding, "%s", bytes ? str_format_size(bytes, size) : "unknown");
    if (bytes > 0)
        jsonx_write_u64(&finding->json, "read_ahead_bytes", bytes);
    else
        jsonx_write_null(&finding->json, "read_ahead_bytes");
}

static void check_writing(struct doctor_finding *finding)
{
    const struct doctor_folder *folder = finding->folder;
    int status = folder->probe.write_status;
    doctor_report(finding, status ? "refused: %s" : "%s", status_text(status));
    jsonx_write_bool(&finding->json, "is_writable", status == 0);
    if (status)
        doctor_advise(finding, missing_state(folder), "%s",
                      status == -ENOSPC || status == -EDQUOT
                          ? "free some space or choose another folder for outputs"
                      : status == -EROFS
                          ? "data can be read here; for outputs, choose a folder that is not "
                            "mounted read-only"
                          : "data can be read here; for outputs, check owner and permissions");
}

/* Missing features are notes, because io/ has fallbacks (docs/explanation/io.md). */
static void check_renames(struct doctor_finding *finding)
{
    const struct io_probe *probe = &finding->folder->probe;
    doctor_report(finding, "no-replace: %s; exchange: %s", status_text(probe->noreplace_status),
                  status_text(probe->exchange_status));
    jsonx_write_bool(&finding->json, "has_no_replace", probe->noreplace_status == 0);
    jsonx_write_bool(&finding->json, "has_exchange", probe->exchange_status == 0);
    if (probe->noreplace_status || probe->exchange_status)
        doctor_advise(finding, DOCTOR_NOTE,
                      "outputs are still atomic, except that a kill while a folder is replaced "
                      "(--force) may leave neither the old nor the new one under its name");
}

static void check_locks(struct doctor_finding *finding)
{
    const struct doctor_folder *folder = finding->folder;
    int status = folder->probe.lock_status;
    doctor_report(finding, status ? "refused: %s" : "%s", status_text(status));
    jsonx_write_bool(&finding->json, "has_locks", status == 0);
    if (status)
        doctor_advise(finding, missing_state(folder),
                      "enable file locking on the file system, or keep checkpoints elsewhere: a "
                      "run cannot lock its checkpoint folder here");
}

static void check_fallocate(struct doctor_finding *finding)
{
    int status = finding->folder->probe.fallocate_status;
    doctor_report(finding, status ? "fallocate refused: %s" : "fallocate: %s", status_text(status));
    jsonx_write_bool(&finding->json, "has_fallocate", status == 0);
    if (status)
        doctor_advise(finding, DOCTOR_NOTE,
                      "keep enough free space: a full disk is detected while writing, not before");
}

static void check_direct(struct doctor_finding *finding)
{
    const struct io_probe *probe = &finding->folder->probe;
    jsonx_write_bool(&finding->json, "has_direct", probe->direct_status == 0);
    if (probe->direct_status) {
        doctor_report(finding, "O_DIRECT refused: %s", status_text(probe->direct_status));
        return;
    }
    doctor_report(finding, "O_DIRECT supported");
    if (probe->direct_offset_align_bytes > 0) {
        doctor_report(finding, ", offsets aligned to %" PRIu32 " bytes, memory to %" PRIu32,
                      probe->direct_offset_align_bytes, probe->direct_memory_align_bytes);
        jsonx_write_u64(&finding->json, "offset_align_bytes", probe->direct_offset_align_bytes);
        jsonx_write_u64(&finding->json, "memory_align_bytes", probe->direct_memory_align_bytes);
    }
}

static void check_sync(struct doctor_finding *finding)
{
    const struct doctor_folder *folder = finding->folder;
    const struct io_probe *probe = &folder->probe;
    if (probe->sync_status) {
        doctor_report(finding, "refused: %s", status_text(probe->sync_status));
        doctor_advise(finding, missing_state(folder),
                      "choose another folder: writes cannot be made durable here");
        return;
    }
    doctor_report(finding, "%.2f ms for 4 KiB; an output needs several",
                  (double)probe->sync_ns / 1e6);
    jsonx_write_f64(&finding->json, "fsync_seconds", (double)probe->sync_ns / 1e9);
}

/* Numbers of leading checks that apply to such folders. */
enum { CHECKS_INACCESSIBLE = 1, CHECKS_READ_ONLY = 4 };
static const struct doctor_check checks[] = {
    {"file system", check_type},    {"space", check_space},     {"read-ahead", check_read_ahead},
    {"writing", check_writing},     {"renames", check_renames}, {"locks", check_locks},
    {"reserving", check_fallocate}, {"direct", check_direct},   {"fsync", check_sync},
};

const struct doctor_group doctor_disk = {"folder", checks, sizeof checks / sizeof checks[0]};

void doctor_probe_folder(const char *path, bool outputs, struct doctor_folder *ret_folder)
{
    struct io *io;
    *ret_folder = (struct doctor_folder){.path = path, .for_outputs = outputs};
    struct err *err = &ret_folder->err;
    ret_folder->status = storage_open(path, NULL, &io, err);
    if (!ret_folder->status) {
        io_close(io);
        ret_folder->status = io_probe_folder(path, outputs, &ret_folder->probe, err);
    }
    ret_folder->checks_count = ret_folder->status               ? CHECKS_INACCESSIBLE
                               : ret_folder->probe.write_status ? CHECKS_READ_ONLY
                                                                : sizeof checks / sizeof checks[0];
}

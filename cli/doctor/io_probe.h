/*
 * io_probe — tests the features of a file system and of the kernel that io/ uses.
 *
 *     io_probe_folder("runs/a", true, &probe, err);
 *     probe.exchange_status  // 0, or the -errno that file_commit.c would get
 *
 * Uses a file, unnamed (O_TMPFILE) if possible, and for renames a folder `.tmp-doctor-*`. The
 * folder exists for a few milliseconds; any sweep would remove it.
 */
#ifndef MILLRACE_CLI_DOCTOR_IO_PROBE_H
#define MILLRACE_CLI_DOCTOR_IO_PROBE_H

#include "io/io.h"

enum { IO_PROBE_TYPE_BYTES = 64 };

struct io_probe {
    char folder[IO_PATH_BYTES_MAX];
    bool exists; /* folder is the requested path, or contains the requested file */
    /* as in mount(8): "ext4", "nfs4", "fuse.sshfs"; or from the magic number; or "unknown" */
    char type[IO_PROBE_TYPE_BYTES];
    bool is_network, is_memory; /* is_memory: contents are lost on reboot */
    bool is_type_unknown;       /* also for a bare "fuse" */
    uint64_t free_bytes, total_bytes;
    uint64_t free_files;       /* 0: unknown, or none */
    uint64_t read_ahead_bytes; /* of the page cache; 0: unknown */

    /* 0, or the error of creating files; then the members below are unset */
    int write_status;

    int noreplace_status;                                          /* RENAME_NOREPLACE */
    int exchange_status;                                           /* RENAME_EXCHANGE */
    int lock_status;                                               /* open-file-description locks */
    int fallocate_status;                                          /* fallocate */
    int direct_status;                                             /* O_DIRECT, in IO_ALIGN_BYTES */
    uint32_t direct_memory_align_bytes, direct_offset_align_bytes; /* from statx; 0: unknown */
    int sync_status;
    uint64_t sync_ns; /* median fsync after appending 4 KiB */
};

/* Probes the folder at path, or the folder of a file; if will_be_created, the nearest existing
 * ancestor. Blocks for about eight fsyncs. -ENOENT, -EACCES, ...: cannot be opened. */
int io_probe_folder(const char *path, bool will_be_created, struct io_probe *ret_probe,
                    struct err *err);

/* 0 if this process may use io_uring; -ENOSYS, -EPERM, ... */
int io_probe_uring(void);
/* 0 if an io_uring may register IO_PROBE_REGISTERED_BYTES of buffers; -ENOMEM beyond
 * RLIMIT_MEMLOCK; or the error of io_probe_uring. */
enum { IO_PROBE_REGISTERED_BYTES = 16 << 20 };
int io_probe_uring_buffers(void);

#endif

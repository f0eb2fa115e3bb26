/*
 * probe — what a folder's file system, and the kernel's ways to it, offer to the engines and
 * transactions of this folder.
 *
 *     io_probe_folder("runs/a", true, &probe, err);
 *     probe.exchange_status  // 0, or the -errno that file_transaction.c would meet
 *
 * Each question is put to the kernel by doing the thing to a file of the probe's own. Where the
 * file system has files without names they are used; renaming needs a folder `.tmp-doctor-*` of a
 * few milliseconds' life, which any sweep would take.
 */
#ifndef MILLRACE_IO_PROBE_H
#define MILLRACE_IO_PROBE_H

#include "io/io.h"

enum { IO_PROBE_TYPE_BYTES = 64 };

struct io_probe {
    char folder[IO_PATH_BYTES_MAX]; /* that was looked at */
    bool is_made;                   /* it is the one that was asked about, or a file's there */
    char type
        /* as mount(8) names it: "ext4", "nfs4", "fuse.sshfs"; else by its magic number;
         * "unknown" */
        [IO_PROBE_TYPE_BYTES];
    bool is_network,
        is_memory; /* bytes go over a network; they are gone when the machine restarts */
    bool is_vague; /* neither is told: the type is not known, or a bare "fuse" */
    uint64_t free_bytes, total_bytes;
    uint64_t free_files;       /* that can still be created; 0: not told, or none */
    uint64_t read_ahead_bytes; /* of the page cache; 0: not told */

    /* 0, or why nothing can be created here: -EACCES, -EROFS, -ENOSPC; then nothing below is
     * told */
    int write_status;

    int rename_new_status;                                         /* RENAME_NOREPLACE */
    int exchange_status;                                           /* RENAME_EXCHANGE */
    int lock_status;                                               /* open-file-description locks */
    int reserve_status;                                            /* fallocate */
    int direct_status;                                             /* O_DIRECT, in IO_ALIGN_BYTES */
    uint32_t direct_memory_align_bytes, direct_offset_align_bytes; /* by statx; 0: not told */
    int sync_status;
    uint64_t sync_ns; /* the median fsync of 4 KiB appended */
};

/* Looks at the folder at path, or at the one that a file lies in; where nothing is there yet and
 * is_to_be_made, at the nearest one above, in which it would be made. Blocks for as long as eight
 * fsyncs take. -ENOENT, -EACCES, ... where it can't be looked at. */
int io_probe_folder(const char *path, bool is_to_be_made, struct io_probe *ret_probe,
                    struct err *err);

/* Whether the kernel lets this process have an io_uring: 0, -ENOSYS, -EPERM, ... */
int io_probe_uring(void);
/* Whether it lets an io_uring of this process know IO_PROBE_REGISTERED_BYTES of memory beforehand
 * (registered buffers): 0, -ENOMEM beyond RLIMIT_MEMLOCK, or why there is no io_uring. */
enum { IO_PROBE_REGISTERED_BYTES = 16 << 20 };
int io_probe_registering(void);

#endif

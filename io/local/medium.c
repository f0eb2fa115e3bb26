/*
 * medium — which gaps between the ranges of a local file are worth reading (io.h, gap_bytes).
 *
 *     medium                      latency x bandwidth      gap
 *     SSD                         0.1 ms x 0.6 GB/s        64 KiB (IO_GAP_BYTES_DEFAULT)
 *     rotational disk             8 ms x 0.13 GB/s         1 MiB
 *     network, parallel or FUSE   1 ms x 1 GB/s            1 MiB
 *
 * These are typical values, not measurements. Memory, unknown media and file systems without a
 * block device of their own (overlay, btrfs) get the default. So do virtio disks, because Linux
 * reports them as rotational unless the host says otherwise.
 */
#include "io/local/file_local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

enum { SLOW_GAP_BYTES = 1 << 20 };

static bool is_remote(uint32_t kind)
{
    static const uint32_t kinds[] = {
        0x00006969 /* nfs */,     0xff534d42 /* cifs */, 0xfe534d42 /* smb3 */,
        0x0bd00bd0 /* lustre */,  0x00c36400 /* ceph */, 0x47504653 /* gpfs */,
        0x19830326 /* beegfs */,  0x65735546 /* fuse */, 0x01021997 /* 9p */,
        0x5346414f /* openafs */, 0x6b414653 /* afs */,
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kind == kinds[i])
            return true;
    return false;
}

/* Whether the file exists and begins with "1". */
static bool is_set(const char *folder, const char *name)
{
    char path[IO_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    bool result = file && fgetc(file) == '1';
    if (file)
        fclose(file);
    return result;
}

static bool is_rotational(dev_t device)
{
    char link[64];
    snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(device), minor(device));
    char *folder = realpath(link, NULL);
    /* a partition's folder is within its disk's */
    bool result = folder && !strstr(folder, "/virtio") &&
                  (is_set(folder, "queue/rotational") || is_set(folder, "../queue/rotational"));
    free(folder);
    return result;
}

uint64_t local_gap_bytes(struct io *io, const char *path)
{
    (void)io;
    struct statfs system;
    struct stat info;
    if (local_path(path, &path, NULL) || statfs(path, &system) || stat(path, &info))
        return IO_GAP_BYTES_DEFAULT;
    return is_remote((uint32_t)system.f_type) || is_rotational(info.st_dev) ? SLOW_GAP_BYTES
                                                                            : IO_GAP_BYTES_DEFAULT;
}

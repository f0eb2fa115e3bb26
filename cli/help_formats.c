/*
 * help_formats — see help_formats.h.
 */
#include "cli/help_formats.h"

#include <stdio.h>

static const char text[] =
    "Shard: shard-000000.tar\n"
    "  A plain POSIX tar. A sample is the neighbouring members of one key: photos/dress/17.jpg and "
    "photos/dress/17.cls have\n"
    "  the key photos/dress/17; a name splits at the first dot after its last slash. After the archive's "
    "end, where tar\n"
    "  readers have stopped, stands an index, and in the last 512 bytes a trailer (little-endian):\n"
    "     0 magic[8]   8 u32 version   12 u32 flags   16 u64 index_offset   24 u64 index_bytes   32 u64 "
    "file_bytes\n"
    "    40 u64 archive_end   48 u64 samples   56 u32 index_crc32c   60 u32 fields   508 u32 crc32c of bytes "
    "0..507\n"
    "  One read of the last 1 MiB makes a shard random-access.\n"
    "  Tars of other tools are read too; their index is kept in $XDG_CACHE_HOME/millrace/index "
    "(~/.cache).\n"
    "\n"
    "Dataset: dataset.json beside its shards\n"
    "  A wids shard list (url, nsamples, filesize) with our keys beside it: checksums, fields, class names, "
    "options.\n"
    "  Elsewhere too: one tar, train-{000000..000099}.tar, a.tar::b.tar, ${X} from WDS_X, a wids list of "
    "another tool.\n"
    "  jpg holds a photo, cls its class number in decimal, npy tokens (uint16, 64 Ki + 1 of overlap a "
    "member).\n"
    "\n"
    "Order\n"
    "  Which sample stands at position p of epoch e is computed from (seed, e, p, number of samples) and the "
    "order's three\n"
    "  parameters. Ranks own micro-batches of a step, never positions, so the order does not depend on "
    "them.\n"
    "  Digest `once`: sum of xxh3(dataset, epoch, sample); `order`: sum of xxh3(epoch, position, dataset, "
    "sample), mod 2^64.\n"
    "\n"
    "Checkpoint: step-00001000/\n"
    "  rank-00000.safetensors: valid safetensors, data from a multiple of 4096.\n"
    "  manifest.json, written last, makes it whole: every file's size and CRC32C of each 1 MiB, every "
    "tensor's dtype, shape\n"
    "  and boxes {file, offset, start, extent}, and the run's small state. What begins with .tmp- is not a "
    "checkpoint.\n"
    "\n"
    "docs/shard.md, docs/order.md and docs/checkpoint.md are enough to write a second implementation.\n";

void help_print_formats(void)
{
    fputs(text, stdout);
}

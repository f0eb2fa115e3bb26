/*
 * help_formats — `millrace help formats`: describes millrace's file formats on one page.
 */
#include "cli/help/help.h"

#include <stdio.h>
#include <string.h>

const struct help_section help_formats[] = {
    {"Shard: shard-000000.tar",
     "A plain POSIX tar. A sample is the neighbouring members of one key: photos/dress/17.jpg and "
     "photos/dress/17.cls have the key photos/dress/17; a name splits at the first dot after its "
     "last slash. "
     "After the archive's end, where tar readers have stopped, stands an index, and in the last "
     "512 bytes a "
     "trailer (little-endian), each field after its offset:\n"
     "    0 magic[8]            8 u32 version        12 u32 flags\n"
     "   16 u64 index_offset   24 u64 index_bytes    32 u64 file_bytes\n"
     "   40 u64 archive_end    48 u64 samples        56 u32 index_crc32c\n"
     "   60 u32 fields        508 u32 crc32c of bytes 0..507\n"
     "One read of the last 1 MiB makes a shard random-access.\n"
     "Tars of other tools are read too; their index is kept in $XDG_CACHE_HOME/millrace/index "
     "(~/.cache)."},
    {"Dataset: dataset.json beside its shards",
     "A wids shard list (url, nsamples, filesize) with our keys beside it: checksums, fields, "
     "class names, "
     "options.\n"
     "Elsewhere too: one tar, train-{000000..000099}.tar, a.tar::b.tar, ${X} from WDS_X, a wids "
     "list of "
     "another tool.\n"
     "jpg holds a photo, cls its class number in decimal, npy tokens (uint16, 64 Ki + 1 of overlap "
     "a "
     "member)."},
    {"Order", "Which sample stands at position p of epoch e is computed from (seed, e, p, number "
              "of samples) and the "
              "order's three parameters. Ranks own micro-batches of a step, never positions, so "
              "the order does not "
              "depend on them.\n"
              "Digest `once`: sum of xxh3(dataset, epoch, sample); `order`: sum of xxh3(epoch, "
              "position, dataset, "
              "sample), mod 2^64."},
    {"Checkpoint: step-00001000/", "rank-00000.safetensors: valid safetensors, data from a "
                                   "multiple of 4096; with checkpoint.layout: full "
                                   "the model's weights, whole, are in model.safetensors.\n"
                                   "manifest.json, written last, makes it whole: every file's size "
                                   "and CRC32C of each 1 MiB, every "
                                   "tensor's dtype, shape and boxes {file, offset, start, extent}, "
                                   "and the run's small state. What begins "
                                   "with .tmp- is not a checkpoint.\n"
                                   "docs/reference/shards.md, docs/reference/order.md and "
                                   "docs/reference/checkpoints.md are enough "
                                   "to write a second implementation."},
    {"Faults: --fault RULES, or MILLRACE_FAULT=RULES before any verb",
     "What is to go wrong with files, to see what a run makes of it: rules with commas between "
     "them, each "
     "OPERATION:EFFECT[WHEN][:PATH], and seed=N.\n"
     "   read:eio@17                      the 17th read fails\n"
     "   read:flip%1,seed=7               a bit is another in 1 % of reads\n"
     "   read:delay=20ms%10:shard-000003  a tenth of its reads take longer\n"
     "   write:enospc@9+                  disk full from the 9th write on\n"
     "   durable:kill@4                   death before the 4th such operation\n"
     "Operations: open read write wait queue stat list folder remove begin join create finalize "
     "commit abort "
     "sweep lock; durable is begin, create, write, finalize, commit and remove counted together.\n"
     "Effects: an error (eio enospc edquot erofs enoent eacces enomem emfile estale etimedout); "
     "delay=DURATION; hold, for ever; short, a read that ends as if the file had shrunk or a write "
     "that "
     "stops with the disk full; flip, one bit; kill.\n"
     "When: @N the N-th, @N+ from the N-th on, /N every N-th, %P percent, the same for the same "
     "seed, file "
     "and offset; without it, each one. PATH: only where the path contains this text; not of queue "
     "and wait, "
     "which have none."},
    {NULL, NULL},
};

/* line ends with its newline or the text's end. */
static void print_line(const char *line, size_t bytes)
{
    struct str paragraph = {0};
    str_add(&paragraph, line, bytes);
    printf("  ");
    if (line[0] == ' ')
        puts(str_text(&paragraph));
    else
        help_print_wrapped(str_text(&paragraph), 2, 2);
    str_deinit(&paragraph);
}

void help_print_formats(void)
{
    for (const struct help_section *section = help_formats; section->title; section++) {
        printf("%s%s\n", section == help_formats ? "" : "\n", section->title);
        for (const char *line = section->text; *line;) {
            size_t bytes = strcspn(line, "\n");
            print_line(line, bytes);
            line += bytes + (line[bytes] == '\n');
        }
    }
}

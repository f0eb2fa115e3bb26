/*
 * help_formats — `millrace help formats`: describes millrace's file formats on one page.
 */
#include "cli/help/help.h"

#include <stdio.h>
#include <string.h>

const struct help_section help_formats[] = {
    {"Shard: shard-000000.tar",
     "A plain POSIX tar. A sample consists of adjacent members with the same key: "
     "photos/dress/17.jpg and photos/dress/17.cls have the key photos/dress/17; a name splits at "
     "the first dot after its last slash. An index follows the end of the archive, where tar "
     "readers stop, and the last 512 bytes are a trailer (little-endian), each field after its "
     "offset:\n"
     "    0 magic[8]            8 u32 version        12 u32 flags\n"
     "   16 u64 index_offset   24 u64 index_bytes    32 u64 file_bytes\n"
     "   40 u64 archive_end    48 u64 samples        56 u32 index_crc32c\n"
     "   60 u32 fields        508 u32 crc32c of bytes 0..507\n"
     "One read of the last 1 MiB gives random access to a shard.\n"
     "Tars from other tools can be read too; their index is kept in $XDG_CACHE_HOME/millrace/index "
     "(~/.cache)."},
    {"Dataset: dataset.json next to its shards",
     "A wids shard list (url, nsamples, filesize) with additional keys: checksums, fields, class "
     "names, options.\n"
     "A dataset can also be one tar, train-{000000..000099}.tar, a.tar::b.tar, ${X} from WDS_X, or "
     "a wids list from another tool.\n"
     "jpg holds a photo, cls its class number in decimal, npy tokens (uint16, 64 Ki + 1 of overlap "
     "per member)."},
    {"Order", "The sample at position p of epoch e is a function of (seed, e, p, number of "
              "samples) and the three parameters of the order. Ranks own micro-batches of a step, "
              "never positions, so the order does not depend on the number of ranks.\n"
              "Set digest `once`: sum of xxh3(dataset, epoch, sample); sequence digest `order`: "
              "sum of xxh3(epoch, position, dataset, sample), both mod 2^64."},
    {"Checkpoint: step-00001000/",
     "rank-00000.safetensors: valid safetensors whose data starts at a multiple of 4096; with "
     "checkpoint.layout: full, model.safetensors holds the model's complete weights.\n"
     "manifest.json is written last and completes the checkpoint: the size of every file and the "
     "CRC32C of each 1 MiB, the dtype, shape and boxes {file, offset, start, extent} of every "
     "tensor, and the small state of the run. A name that begins with .tmp- is not a checkpoint.\n"
     "docs/reference/shards.md, docs/reference/order.md and docs/reference/checkpoints.md have the "
     "complete specification."},
    {"Faults: --fault RULES, or MILLRACE_FAULT=RULES before any verb",
     "Injects file faults for testing: comma-separated rules, each OPERATION:EFFECT[WHEN][:PATH], "
     "and seed=N.\n"
     "   read:eio@17                      the 17th read fails\n"
     "   read:flip%1,seed=7               1 % of reads have a flipped bit\n"
     "   read:delay=20ms%10:shard-000003  10 % of its reads take 20 ms longer\n"
     "   write:enospc@9+                  the disk fills up at the 9th write\n"
     "   durable:kill@4                   dies before the 4th such operation\n"
     "Operations: open read write wait queue stat list folder remove begin join create finalize "
     "commit abort sweep lock; durable is begin, create, write, finalize, commit and remove "
     "counted together.\n"
     "Effects: an error (eio enospc edquot erofs enoent eacces enomem emfile estale etimedout); "
     "delay=DURATION; hold: block forever; short: a read ends as if the file had shrunk, or a "
     "write stops as if the disk were full; flip: flip one bit; kill: end the process.\n"
     "When: @N the Nth, @N+ from the Nth on, /N every Nth, %P percent, which is the same for the "
     "same seed, file and offset; default: every one. PATH: only paths that contain this text; not "
     "for queue and wait, which have no path."},
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

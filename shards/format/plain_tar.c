/*
 * plain_tar — see plain_tar.h.
 *
 * Headers are read through a window, which shrinks after a jump over a large member so that little
 * unneeded data is read.
 */
#include "shards/format/plain_tar.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "io/file_util.h"
#include "shards/format/index_layout.h"
#include "shards/format/member_name.h"
#include "shards/format/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_BYTES = SHARD_BLOCK_BYTES, /* one window holds one checksummed block */
    WINDOW_BYTES_MIN = 4096,
    LOST_INDEX_BYTES = 24,
};

struct tar_walk {
    struct io *io;
    struct io_file *file;
    struct io_queue *queue;
    const char *path;
    const struct plain_tar_options *options;
    uint64_t file_bytes;
    uint8_t *window;
    uint64_t window_offset, window_bytes;
    struct shard_index_builder *builder;
    struct str crcs; /* CRCs of the current member: one u32 per block */
    bool is_partial;
    struct err *err;
};

static int fill_window(struct tar_walk *walk, uint64_t offset)
{
    bool jumped = offset > walk->window_offset + walk->window_bytes + WINDOW_BYTES;
    uint64_t wanted = jumped ? WINDOW_BYTES_MIN : WINDOW_BYTES;
    walk->window_offset = offset;
    walk->window_bytes = 0;
    wanted = bytes_min(wanted, walk->file_bytes - offset);
    int status = io_read_exact(walk->queue, walk->io, walk->file, walk->path, offset, walk->window,
                               wanted, walk->err);
    if (status)
        return status;
    walk->window_bytes = wanted;
    if (walk->options->progress)
        walk->options->progress(walk->options->context, offset, walk->file_bytes);
    return 0;
}

/* The scanner requests only ranges within the file. */
static int walk_read(void *context, uint64_t offset, void *data, size_t bytes)
{
    struct tar_walk *walk = context;
    uint8_t *to = data;
    while (bytes > 0) {
        if (offset < walk->window_offset || offset >= walk->window_offset + walk->window_bytes) {
            int status = fill_window(walk, offset);
            if (status)
                return status;
        }
        uint64_t at = offset - walk->window_offset,
                 piece = bytes_min(bytes, walk->window_bytes - at);
        memcpy(to, walk->window + at, piece);
        to += piece;
        offset += piece;
        bytes -= (size_t)piece;
    }
    return 0;
}

/* Stores the CRCs of the member's blocks in walk->crcs. Overwrites the window. */
static int compute_crcs(struct tar_walk *walk, const struct tar_member *member, uint32_t *ret_crc)
{
    uint32_t crc = 0;
    str_clear(&walk->crcs);
    walk->window_bytes = 0;
    for (uint64_t at = 0; at < member->size_bytes; at += WINDOW_BYTES) {
        uint64_t bytes = bytes_min(WINDOW_BYTES, member->size_bytes - at);
        int status = io_read_exact(walk->queue, walk->io, walk->file, walk->path,
                                   member->data_offset + at, walk->window, bytes, walk->err);
        if (status)
            return status;
        uint32_t block = crc32c(0, walk->window, bytes);
        crc = crc32c(crc, walk->window, bytes);
        if (member->size_bytes > SHARD_BLOCK_BYTES)
            str_add(&walk->crcs, &block, sizeof block);
    }
    walk->window_offset = member->data_offset + member->size_bytes;
    if (walk->options->progress)
        walk->options->progress(walk->options->context, walk->window_offset, walk->file_bytes);
    *ret_crc = crc;
    return str_status(&walk->crcs)
               ? err_set(walk->err, -ENOMEM, "out of memory for the checksums of a tar member")
               : 0;
}

/* Reports walk->err as salvaged damage and clears it. */
static void report_damage(struct tar_walk *walk)
{
    const struct salvage *salvage = walk->options->salvage;
    walk->is_partial = true;
    if (salvage->on_skip)
        salvage->on_skip(salvage->context, walk->err);
    err_clear(walk->err);
}

/* Adds the member's location to the error. Returns 0 if the walk continues without the member. */
static int handle_member_error(struct tar_walk *walk, const struct tar_member *member, int status)
{
    if (status == -ENOMEM)
        return status;
    err_at(walk->err, walk->path, (int64_t)member->header_offset);
    err_found(walk->err, "\"%.200s\"", member->name);
    walk->err->code = -EBADMSG;
    if (!walk->options->salvage || (status != -EBADMSG && status != -EEXIST))
        return -EBADMSG;
    err_advise(walk->err, "this member is left out");
    report_damage(walk);
    return 0;
}

static int add_field(struct tar_walk *walk, const struct tar_member *member,
                     const struct member_name *name)
{
    uint32_t crc = 0;
    int status = walk->options->with_crcs ? compute_crcs(walk, member, &crc) : 0;
    if (status)
        return status;
    struct shard_field field = {.data_offset = member->data_offset,
                                .size_bytes = member->size_bytes,
                                .crc32c = crc,
                                .has_crc = walk->options->with_crcs,
                                .block_crc32c = (const uint8_t *)walk->crcs.data};
    status = shard_index_builder_add_member(walk->builder, name, &field, walk->err);
    return status ? handle_member_error(walk, member, status) : 0;
}

static int index_member(struct tar_walk *walk, const struct tar_member *member)
{
    struct member_name name;
    bool is_field;
    if (member->kind != TAR_FILE)
        return 0;
    int status = member_name_split(member->name, &name, &is_field, walk->err);
    if (status)
        return handle_member_error(walk, member, status);
    return is_field ? add_field(walk, member, &name) : 0;
}

/* Recognizes files passed by mistake, such as compressed tars. */
static void explain_first_block(struct tar_walk *walk)
{
    static const struct {
        const char *name, *magic;
    } formats[] = {{"gzip", "\x1f\x8b"}, {"zstd", "\x28\xb5\x2f\xfd"}, {"xz", "\xfd\x37zXZ"},
                   {"bzip2", "BZh"},     {"compress", "\x1f\x9d"},     {"zip", "PK\x03\x04"}};
    uint8_t head[8] = {0};
    if (walk->err->offset != 0 || walk->file_bytes < sizeof head ||
        walk_read(walk, 0, head, sizeof head))
        return;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (memcmp(head, formats[i].magic, strlen(formats[i].magic)) == 0) {
            err_found(walk->err, "%s data", formats[i].name);
            err_advise(walk->err,
                       "`millrace convert dataset %.300s SHARDS` reads it; a .tar.zst "
                       "needs a seek table, as --zstd writes, to be read in place",
                       walk->path);
        }
    }
}

static int file_too_small(const struct tar_walk *walk)
{
    err_set(walk->err, -EBADMSG, "file is too small for a tar");
    err_at(walk->err, walk->path, 0);
    err_expected(walk->err, "at least %d bytes", TAR_BLOCK_BYTES);
    err_found(walk->err, "%" PRIu64, walk->file_bytes);
    return -EBADMSG;
}

/* Keeps the samples before the damage. If the truncated file belongs to the next sample, the
 * current one is complete. */
static void salvage_samples(struct tar_walk *walk, const struct tar_scanner *scanner)
{
    const char *key = shard_index_builder_last_key(walk->builder);
    struct member_name name;
    struct err ignored;
    bool is_field = false, has_sample = shard_index_builder_samples(walk->builder) > 0;
    bool is_next = scanner->is_truncated &&
                   member_name_split(str_text(&scanner->name), &name, &is_field, &ignored) == 0 &&
                   is_field && strcmp(key, name.key) != 0;
    if (is_next) {
        err_advise(walk->err, "sample \"%.150s\" and everything after it are left out", name.key);
    } else if (has_sample) {
        err_advise(walk->err, "sample \"%.150s\" and everything after it are left out", key);
        shard_index_builder_drop_sample(walk->builder);
    } else {
        err_advise(walk->err, "the whole file is left out");
    }
    report_damage(walk);
}

/* Returns TAR_END at damage that is salvaged. */
static int scan_or_salvage(struct tar_walk *walk, struct tar_scanner *scanner,
                           struct tar_member *ret_member)
{
    int status = walk->file_bytes < TAR_BLOCK_BYTES ? file_too_small(walk)
                                                    : tar_scan(scanner, ret_member, walk->err);
    if (status != -EBADMSG)
        return status;
    explain_first_block(walk);
    if (!walk->options->salvage)
        return status;
    salvage_samples(walk, scanner);
    *ret_member = (struct tar_member){.kind = TAR_END, .name = "", .data_offset = scanner->offset};
    return 0;
}

static int walk_members(struct tar_walk *walk, uint64_t *ret_archive_end)
{
    struct tar_scanner scanner = {
        .read = walk_read, .context = walk, .path = walk->path, .file_bytes = walk->file_bytes};
    struct tar_member member;
    int status;
    while (!(status = scan_or_salvage(walk, &scanner, &member)) && member.kind != TAR_END) {
        status = index_member(walk, &member);
        if (status)
            break;
    }
    if (!status)
        *ret_archive_end = member.data_offset;
    tar_scanner_deinit(&scanner);
    return status;
}

/* Detects a millrace shard that lost its trailer: its index follows the end of the archive. */
static int check_missing_index(struct tar_walk *walk, const struct plain_tar_index *found)
{
    uint8_t head[LOST_INDEX_BYTES]; /* version, fields, samples, key bytes */
    uint64_t at = found->trailer.archive_end + TAR_END_BYTES;
    if (walk->options->accept_lost_index || at > walk->file_bytes ||
        walk->file_bytes - at < sizeof head)
        return 0;
    int status = walk_read(walk, at, head, sizeof head);
    if (status || memcmp(head, found->index.data, sizeof head) != 0)
        return status;
    err_set(
        walk->err, -EBADMSG,
        "the shard has an index but no complete trailer: it was truncated, or data was appended");
    err_at(walk->err, walk->path, (int64_t)at);
    err_advise(walk->err, "copy the file again, or index its members with `millrace index %s`",
               walk->path);
    if (!walk->options->salvage)
        return -EBADMSG;
    err_advise(walk->err, "only its checksums are left out");
    report_damage(walk);
    return 0;
}

static int encode_index(struct tar_walk *walk, uint64_t archive_end, struct plain_tar_index *found)
{
    struct str locations = {0};
    uint32_t fields;
    int status = shard_index_builder_encode(walk->builder, false, &locations, &fields, walk->err);
    if (status)
        goto out;
    found->identity_crc32c = crc32c(0, locations.data, locations.bytes);
    if (walk->options->with_crcs) {
        status = shard_index_builder_encode(walk->builder, true, &found->index, &fields, walk->err);
    } else {
        found->index = locations;
        locations = (struct str){0};
    }
    if (status)
        goto out;
    found->trailer = (struct shard_trailer){
        .version = SHARD_VERSION,
        .flags = walk->options->with_crcs ? 0 : SHARD_FLAG_NO_CRCS,
        .index_offset = archive_end,
        .index_bytes = found->index.bytes,
        .file_bytes = walk->file_bytes,
        .archive_end = archive_end,
        .samples = shard_index_builder_samples(walk->builder),
        .index_crc32c = crc32c(0, found->index.data, found->index.bytes),
        .fields = fields,
    };
out:
    str_deinit(&locations);
    return status;
}

int plain_tar_index_build(struct io *io, struct io_file *file, const char *path,
                          const struct plain_tar_options *options,
                          struct plain_tar_index *ret_index, struct err *err)
{
    struct err walk_err = {.offset = ERR_NO_OFFSET};
    struct plain_tar_index found = {0};
    uint64_t archive_end;
    struct tar_walk walk = {
        .io = io, .file = file, .path = path, .options = options, .err = &walk_err};
    walk.file_bytes = io->ops->file_size(file);
    walk.window = malloc(WINDOW_BYTES);
    int status =
        walk.window ? 0
                    : err_set(&walk_err, -ENOMEM, "out of memory for reading the headers of a tar");
    if (!status)
        status = shard_index_builder_open(&walk.builder, &walk_err);
    if (!status)
        status = io->ops->queue_open(io, 1, &walk.queue, &walk_err);
    if (!status)
        status = walk_members(&walk, &archive_end);
    if (!status)
        status = encode_index(&walk, archive_end, &found);
    if (!status)
        status = check_missing_index(&walk, &found);
    found.is_partial = walk.is_partial;
    if (walk.queue)
        io->ops->queue_close(walk.queue);
    shard_index_builder_close(walk.builder);
    str_deinit(&walk.crcs);
    free(walk.window);
    if (status) {
        plain_tar_index_deinit(&found);
        if (err)
            *err = walk_err;
    } else {
        *ret_index = found;
    }
    return status;
}

void plain_tar_index_deinit(struct plain_tar_index *index)
{
    str_deinit(&index->index);
}

/*
 * sync_check — see sync_check.h.
 */
#include "trainer/parallel/sync_check.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 1 << 20 };

struct piece_hash {
    uint64_t offset_bytes, bytes, hash;
};

/* A rank's piece of the tensor being compared. */
struct piece_holder {
    struct piece_hash piece;
    int rank;
};

struct sync_check {
    struct comm *comm;
    struct device *device;
    struct tensor_name {
        const char *kind, *name;
    } * names; /* [pieces_max] */
    uint64_t pieces_count, pieces_max;
    struct piece_hash *own_hashes, *all_hashes; /* own: [pieces_max]; all: [ranks][pieces_count] */
    bool *is_only_copy;                         /* [pieces_max] */
    struct piece_holder *holders;               /* [ranks] */
    struct hash_stream *stream;
    char *staging_block; /* NULL, like copy_stream, if the device is the host */
    struct device_stream *copy_stream;
    uint64_t step;
    bool can_recheck, is_recheck;
    uint64_t rechecked_count;
    int status; /* of hashing, or of rechecking this rank's only copies */
    struct err failure;
    bool has_failed;
};

static bool is_host(const struct device *device)
{
    return !device || device->ops->is_host;
}

int sync_check_open(struct comm *comm, struct device *device, uint64_t pieces_max,
                    struct sync_check **ret_check, struct err *err)
{
    struct sync_check *check = calloc(1, sizeof *check);
    if (!check)
        return err_set(err, -ENOMEM, "not enough memory to compare ranks");
    *check = (struct sync_check){
        .comm = comm,
        .device = device,
        .pieces_max = pieces_max,
        .names = calloc(pieces_max, sizeof *check->names),
        .own_hashes = calloc(pieces_max, sizeof *check->own_hashes),
        .all_hashes = calloc((size_t)comm->ranks * pieces_max, sizeof *check->all_hashes),
        .is_only_copy = calloc(pieces_max, sizeof *check->is_only_copy),
        .holders = calloc((size_t)comm->ranks, sizeof *check->holders),
        .stream = hash_stream_open(),
        .staging_block = is_host(device) ? NULL : malloc(BLOCK_BYTES)};
    int status = 0;
    if (!check->names || !check->own_hashes || !check->all_hashes || !check->is_only_copy ||
        !check->holders || !check->stream || (!is_host(device) && !check->staging_block))
        status = err_set(err, -ENOMEM, "not enough memory to compare ranks");
    if (!status && !is_host(device))
        status = device->ops->stream_open(device, &check->copy_stream, err);
    if (status)
        sync_check_close(check);
    else
        *ret_check = check;
    return status;
}

void sync_check_close(struct sync_check *check)
{
    if (!check)
        return;
    if (check->copy_stream)
        check->device->ops->stream_close(check->device, check->copy_stream);
    hash_stream_close(check->stream);
    if (check->has_failed) {
        comm_retain(check->own_hashes);
        comm_retain(check->all_hashes);
    } else {
        free(check->own_hashes);
        free(check->all_hashes);
    }
    free(check->is_only_copy);
    free(check->holders);
    free(check->names);
    free(check->staging_block);
    free(check);
}

static int hash_piece(struct sync_check *check, const struct sync_piece *piece, uint64_t *ret_hash,
                      struct err *err)
{
    const char *data = piece->data;
    hash_stream_reset(check->stream);
    if (!check->staging_block)
        hash_stream_update(check->stream, data, piece->bytes);
    for (uint64_t done = 0; check->staging_block && done < piece->bytes; done += BLOCK_BYTES) {
        size_t bytes = piece->bytes - done < BLOCK_BYTES ? piece->bytes - done : BLOCK_BYTES;
        int status = check->device->ops->copy(check->device, check->copy_stream,
                                              check->staging_block, data + done, bytes, err);
        if (!status)
            status = check->device->ops->stream_sync(check->device, check->copy_stream, err);
        if (status)
            return status;
        hash_stream_update(check->stream, check->staging_block, bytes);
    }
    *ret_hash = hash_stream_64(check->stream);
    return 0;
}

void sync_check_begin(struct sync_check *check)
{
    check->pieces_count = 0;
    check->can_recheck = check->is_recheck = false;
    check->status = 0;
}

void sync_check_begin_recheck(struct sync_check *check)
{
    assert(check->can_recheck);
    check->can_recheck = false;
    check->is_recheck = true;
    check->rechecked_count = 0;
    check->status = 0;
}

static int report_change(struct sync_check *check, const struct sync_piece *piece, uint64_t before,
                         uint64_t now)
{
    struct err *err = &check->failure;
    err_set(err, -EBADMSG, "after step %" PRIu64 " %s%s%.120s changed without an update",
            check->step, piece->kind ? piece->kind : "", piece->kind ? " of " : "", piece->name);
    err_expected(err, "%016" PRIx64 ", which only this rank holds", before);
    err_found(err, "%016" PRIx64, now);
    err_advise(err, "remove any checkpoint of that step, resume from the one before it, and test "
                    "this machine's memory");
    return -EBADMSG;
}

/* Skips pieces that other ranks also hold: the next comparison checks them. */
static void rehash_piece(struct sync_check *check, const struct sync_piece *piece)
{
    uint64_t n = check->rechecked_count++, hash = 0;
    assert(n < check->pieces_count && check->own_hashes[n].bytes == piece->bytes);
    if (!check->is_only_copy[n] || check->status)
        return;
    check->status = hash_piece(check, piece, &hash, &check->failure);
    if (!check->status && hash != check->own_hashes[n].hash)
        check->status = report_change(check, piece, check->own_hashes[n].hash, hash);
}

void sync_check_add(struct sync_check *check, const struct sync_piece *piece)
{
    if (check->is_recheck) {
        rehash_piece(check, piece);
        return;
    }
    assert(check->pieces_count < check->pieces_max);
    struct piece_hash *own = &check->own_hashes[check->pieces_count];
    check->names[check->pieces_count++] = (struct tensor_name){piece->kind, piece->name};
    *own = (struct piece_hash){piece->offset_bytes, piece->bytes, 0};
    if (piece->bytes > 0 && !check->status)
        check->status = hash_piece(check, piece, &own->hash, &check->failure);
}

static const struct piece_hash *piece_of_rank(const struct sync_check *check, int rank, uint64_t n)
{
    return &check->all_hashes[(uint64_t)rank * check->pieces_count + n];
}

static bool is_comparable(const struct piece_hash *a, const struct piece_hash *b)
{
    return a->bytes > 0 && a->offset_bytes == b->offset_bytes && a->bytes == b->bytes;
}

static bool has_same_hash(const struct sync_check *check, int rank, int other, uint64_t n)
{
    const struct piece_hash *a = piece_of_rank(check, rank, n), *b = piece_of_rank(check, other, n);
    return is_comparable(a, b) && a->hash == b->hash;
}

static bool has_different_hash(const struct sync_check *check, int rank, int other, uint64_t n)
{
    const struct piece_hash *a = piece_of_rank(check, rank, n), *b = piece_of_rank(check, other, n);
    return is_comparable(a, b) && a->hash != b->hash;
}

/* Returns the first rank with the most common hash of the range that `rank` holds. *ret_is_unique:
 * false on a tie. */
static int find_majority(const struct sync_check *check, int rank, uint64_t n, bool *ret_is_unique)
{
    int majority = rank, best_count = 0;
    *ret_is_unique = false;
    for (int r = 0; r < check->comm->ranks; r++) {
        int count = 0;
        if (!is_comparable(piece_of_rank(check, r, n), piece_of_rank(check, rank, n)))
            continue;
        for (int other = 0; other < check->comm->ranks; other++)
            count += has_same_hash(check, r, other, n);
        if (count > best_count) {
            best_count = count;
            majority = r;
            *ret_is_unique = true;
        } else if (count == best_count && has_different_hash(check, r, majority, n)) {
            *ret_is_unique = false;
        }
    }
    return majority;
}

enum { RANKS_TEXT_BYTES = 80 };

/* Lists the ranks whose hash equals that of `rank`, or differs from it: "0, 2". Truncates a long
 * list. */
static void format_ranks(const struct sync_check *check, int rank, bool is_equal, uint64_t n,
                         char names[RANKS_TEXT_BYTES])
{
    size_t used = 0;
    names[0] = '\0';
    for (int r = 0; r < check->comm->ranks; r++) {
        bool is_listed =
            is_equal ? has_same_hash(check, r, rank, n) : has_different_hash(check, r, rank, n);
        if (is_listed && used + 16 < RANKS_TEXT_BYTES)
            used += (size_t)snprintf(names + used, RANKS_TEXT_BYTES - used, "%s%d",
                                     used ? ", " : "", r);
    }
}

static int report_difference(const struct sync_check *check, int rank, uint64_t n, uint64_t step,
                             struct err *err)
{
    const struct tensor_name *name = &check->names[n];
    char majority_ranks[RANKS_TEXT_BYTES], other_ranks[RANKS_TEXT_BYTES];
    bool is_unique;
    int majority = find_majority(check, rank, n, &is_unique);
    uint64_t hash = piece_of_rank(check, majority, n)->hash;
    format_ranks(check, majority, true, n, majority_ranks);
    format_ranks(check, majority, false, n, other_ranks);
    err_set(err, -EBADMSG,
            "after step %" PRIu64 " %s%s%.120s is not the same on all ranks that hold it", step,
            name->kind ? name->kind : "", name->kind ? " of " : "", name->name);
    if (is_unique) {
        err_expected(err, "%016" PRIx64 " everywhere, as on rank %d", hash, majority);
        err_found(err, "different bits on rank %s", other_ranks);
        err_advise(
            err,
            "check that this machine has the same libraries and files as the others, then test its "
            "memory; resume from the newest checkpoint");
    } else {
        err_expected(err, "the same bits everywhere");
        err_found(err,
                  "%016" PRIx64 " on rank %s but different bits on rank %s: one of them is wrong, "
                  "but it is unknown which",
                  hash, majority_ranks, other_ranks);
        err_advise(
            err,
            "check that these machines have the same libraries and files, then test their memory; "
            "resume from the newest checkpoint");
    }
    return -EBADMSG;
}

/* Sorts by range, then by rank. */
static int compare_holders(const void *left, const void *right)
{
    const struct piece_holder *a = left, *b = right;
    if (a->piece.offset_bytes != b->piece.offset_bytes)
        return a->piece.offset_bytes < b->piece.offset_bytes ? -1 : 1;
    if (a->piece.bytes != b->piece.bytes)
        return a->piece.bytes < b->piece.bytes ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static bool are_same_range(const struct sync_check *check, size_t left, size_t right)
{
    return right < (size_t)check->comm->ranks &&
           is_comparable(&check->holders[left].piece, &check->holders[right].piece);
}

/* Compares adjacent copies in the order of compare_holders. Also sets is_only_copy. */
static int find_difference(struct sync_check *check, uint64_t step, struct err *err)
{
    size_t ranks = (size_t)check->comm->ranks;
    for (uint64_t n = 0; n < check->pieces_count; n++) {
        for (size_t r = 0; r < ranks; r++)
            check->holders[r] = (struct piece_holder){*piece_of_rank(check, (int)r, n), (int)r};
        qsort(check->holders, ranks, sizeof *check->holders, compare_holders);
        for (size_t i = 0; i < ranks; i++)
            if (check->holders[i].rank == check->comm->rank)
                check->is_only_copy[n] = check->holders[i].piece.bytes > 0 &&
                                         !are_same_range(check, i, i + 1) &&
                                         (i == 0 || !are_same_range(check, i - 1, i));
        for (size_t i = 1; i < ranks; i++)
            if (has_different_hash(check, check->holders[i].rank, check->holders[i - 1].rank, n))
                return report_difference(check, check->holders[i].rank, n, step, err);
    }
    return 0;
}

static int agree_on_status(struct sync_check *check, int status, const struct comm_options *options,
                           struct err *err)
{
    if (!status && check->status) {
        status = check->status;
        if (err)
            *err = check->failure;
    }
    return comm_agree(check->comm, status, options, err);
}

int sync_check_compare(struct sync_check *check, uint64_t step, int status,
                       const struct comm_options *options, struct err *err)
{
    struct comm_work work;
    status = agree_on_status(check, status, options, err);
    if (status)
        return status;
    status = check->comm->ops->all_gather(check->comm, check->own_hashes, check->all_hashes,
                                          check->pieces_count * sizeof *check->own_hashes, options,
                                          &work, err);
    if (!status)
        status = comm_wait(check->comm, &work, err);
    check->has_failed = check->has_failed || status;
    if (!status && find_difference(check, step, err)) /* all ranks get the same result */
        status = comm_agree(check->comm, -EBADMSG, options, err);
    check->step = step;
    check->can_recheck = !status;
    return status;
}

bool sync_check_can_recheck(const struct sync_check *check)
{
    return check->can_recheck;
}

int sync_check_end_recheck(struct sync_check *check, int status, const struct comm_options *options,
                           struct err *err)
{
    check->is_recheck = false;
    return agree_on_status(check, status, options, err);
}

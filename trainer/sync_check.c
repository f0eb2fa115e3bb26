/*
 * sync_check — see sync_check.h.
 */
#include "trainer/sync_check.h"

#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECE_BYTES = 1 << 20 };

struct sync_check {
    struct comm *comm;
    struct device *device;
    const struct ckpt_tensor *tensors;
    uint64_t tensors_count, looked_count; /* all, and those that are replicated */
    uint64_t *hashes;                     /* [ranks][looked_count] */
    struct hash_stream *stream;
    char *piece; /* of an array on a device; NULL where that is the host, as copies */
    struct device_stream *copies;
    bool has_failed;
};

int sync_check_open(struct comm *comm, struct device *device, const struct ckpt_tensor *tensors,
                    uint64_t tensors_count, struct sync_check **ret_check, struct err *err)
{
    bool is_host = !device || device->ops->is_host;
    struct sync_check *check = calloc(1, sizeof *check);
    if (!check)
        return err_set(err, -ENOMEM, "out of memory to compare ranks");
    *check = (struct sync_check){
        .comm = comm, .device = device, .tensors = tensors, .tensors_count = tensors_count};
    for (uint64_t i = 0; i < tensors_count; i++)
        check->looked_count += tensors[i].replicated;
    check->hashes = calloc((size_t)comm->ranks * check->looked_count + 1, sizeof *check->hashes);
    check->stream = hash_stream_open();
    check->piece = is_host ? NULL : malloc(PIECE_BYTES);
    if (!check->hashes || !check->stream || (!is_host && !check->piece)) {
        sync_check_close(check);
        return err_set(err, -ENOMEM, "out of memory to compare ranks");
    }
    int status = is_host ? 0 : device->ops->stream_open(device, &check->copies, err);
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
    if (check->copies)
        check->device->ops->stream_close(check->device, check->copies);
    hash_stream_close(check->stream);
    if (check->has_failed)
        comm_retain(check->hashes);
    else
        free(check->hashes);
    free(check->piece);
    free(check);
}

static int hash_tensor(struct sync_check *check, const struct ckpt_tensor *tensor, uint64_t *ret_hash,
                       struct err *err)
{
    size_t bytes = dtype_bytes(tensor->dtype);
    const char *data = tensor->data;
    for (uint32_t d = 0; d < tensor->rank; d++)
        bytes *= tensor->extent[d];
    hash_stream_reset(check->stream);
    if (!check->piece)
        hash_stream_update(check->stream, data, bytes);
    for (size_t done = 0; check->piece && done < bytes; done += PIECE_BYTES) {
        size_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        int status =
            check->device->ops->copy(check->device, check->copies, check->piece, data + done, piece, err);
        if (!status)
            status = check->device->ops->stream_sync(check->device, check->copies, err);
        if (status)
            return status;
        hash_stream_update(check->stream, check->piece, piece);
    }
    *ret_hash = hash_stream_64(check->stream);
    return 0;
}

static uint64_t hash_of(const struct sync_check *check, int rank, uint64_t n)
{
    return check->hashes[(uint64_t)rank * check->looked_count + n];
}

/* A rank that holds what most do, the first of them. */
static int find_most(const struct sync_check *check, uint64_t n)
{
    int most = 0, best = 0;
    for (int r = 0; r < check->comm->ranks; r++) {
        int alike = 0;
        for (int other = 0; other < check->comm->ranks; other++)
            alike += hash_of(check, other, n) == hash_of(check, r, n);
        if (alike > best) {
            best = alike;
            most = r;
        }
    }
    return most;
}

static int name_difference(const struct sync_check *check, const struct ckpt_tensor *tensor, uint64_t n,
                           uint64_t step, struct err *err)
{
    char ranks[80] = "";
    int most = find_most(check, n), named = 0;
    for (int r = 0; r < check->comm->ranks; r++) {
        size_t used = (size_t)named;
        if (hash_of(check, r, n) != hash_of(check, most, n) && used + 16 < sizeof ranks)
            named += snprintf(ranks + used, sizeof ranks - used, "%s%d", named ? ", " : "", r);
    }
    err_set(err, -EBADMSG, "after step %" PRIu64 " %.120s is not the same on all ranks", step, tensor->name);
    err_expected(err, "%016" PRIx64 " everywhere, as on rank %d", hash_of(check, most, n), most);
    err_found(err, "other bits on rank %s", ranks);
    err_advise(err, "go on from the newest checkpoint, and have that machine's memory tested");
    return -EBADMSG;
}

int sync_check_look(struct sync_check *check, uint64_t step, const struct comm_options *options,
                    struct err *err)
{
    uint64_t *own = check->hashes + (uint64_t)check->comm->rank * check->looked_count;
    struct comm_work work;
    int status = 0;
    for (uint64_t i = 0, n = 0; i < check->tensors_count && !status; i++)
        if (check->tensors[i].replicated)
            status = hash_tensor(check, &check->tensors[i], &own[n++], err);
    status = comm_agree(check->comm, status, options, err);
    if (status)
        return status;
    status = check->comm->ops->all_gather(check->comm, own, check->hashes, check->looked_count * sizeof *own,
                                          options, &work, err);
    if (!status)
        status = comm_wait(check->comm, &work, err);
    check->has_failed = check->has_failed || status;
    for (uint64_t i = 0, n = 0; i < check->tensors_count && !status; i++) {
        if (!check->tensors[i].replicated)
            continue;
        for (int r = 1; r < check->comm->ranks && !status; r++)
            if (hash_of(check, r, n) != hash_of(check, 0, n))
                status = name_difference(check, &check->tensors[i], n, step, err);
        n++;
    }
    return status;
}

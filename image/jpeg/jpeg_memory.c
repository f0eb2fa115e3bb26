/*
 * jpeg_memory — see jpeg_memory.h.
 */
#include "image/jpeg/jpeg_memory.h"

#include "base/bytes.h"

#include <stdint.h>
#include <stdlib.h>

#include <jerror.h>

enum {
    ALIGNMENT_BYTES = 64, /* libjpeg-turbo's kernels need 32 */
    CHUNK_BYTES_MIN = 64 << 10,
    OBJECT_BYTES_MAX = 1 << 30, /* as in libjpeg's own manager */
};

struct jpeg_chunk {
    struct jpeg_chunk *next;
    size_t bytes; /* of data */
    _Alignas(ALIGNMENT_BYTES) unsigned char data[];
};

/* NULL: out of memory. */
static struct jpeg_chunk *add_chunk(struct jpeg_pool *pool, size_t bytes)
{
    size_t data_bytes = bytes < CHUNK_BYTES_MIN ? CHUNK_BYTES_MIN : bytes;
    struct jpeg_chunk *chunk = aligned_alloc(ALIGNMENT_BYTES, sizeof *chunk + data_bytes);
    if (!chunk)
        return NULL;
    chunk->bytes = data_bytes;
    struct jpeg_chunk **link = pool->current ? &pool->current->next : &pool->first;
    chunk->next = *link;
    *link = chunk;
    return chunk;
}

static void *alloc(j_common_ptr codec, int pool_id, size_t bytes)
{
    struct jpeg_memory *memory = codec->client_data;
    struct jpeg_pool *pool = &memory->pools[pool_id];
    if (bytes > OBJECT_BYTES_MAX)
        ERREXIT1(codec, JERR_OUT_OF_MEMORY, 0);
    size_t rounded = bytes_round_up(bytes, ALIGNMENT_BYTES);
    while (!pool->current || rounded > pool->current->bytes - pool->used) {
        struct jpeg_chunk *next = pool->current ? pool->current->next : pool->first;
        if (!next || rounded > next->bytes)
            next = add_chunk(pool, rounded);
        if (!next)
            ERREXIT1(codec, JERR_OUT_OF_MEMORY, 0);
        pool->current = next;
        pool->used = 0;
    }
    void *object = pool->current->data + pool->used;
    pool->used += rounded;
    return object;
}

static void empty_pool(struct jpeg_pool *pool)
{
    pool->current = pool->first;
    pool->used = 0;
}

static void free_pool(j_common_ptr codec, int pool_id)
{
    struct jpeg_memory *memory = codec->client_data;
    memory->free_pool(codec, pool_id);
    empty_pool(&memory->pools[pool_id]);
}

void jpeg_memory_install(struct jpeg_memory *memory, j_decompress_ptr codec)
{
    memory->free_pool = codec->mem->free_pool;
    codec->mem->alloc_small = alloc;
    codec->mem->alloc_large = alloc;
    codec->mem->free_pool = free_pool;
}

void jpeg_memory_reset(struct jpeg_memory *memory, j_decompress_ptr codec)
{
    jpeg_abort_decompress(codec);
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        codec->quant_tbl_ptrs[i] = NULL;
    for (int i = 0; i < NUM_HUFF_TBLS; i++)
        codec->dc_huff_tbl_ptrs[i] = codec->ac_huff_tbl_ptrs[i] = NULL;
    empty_pool(&memory->pools[JPOOL_PERMANENT]);
}

void jpeg_memory_deinit(struct jpeg_memory *memory)
{
    for (int i = 0; i < JPOOL_NUMPOOLS; i++) {
        struct jpeg_chunk *next;
        for (struct jpeg_chunk *chunk = memory->pools[i].first; chunk; chunk = next) {
            next = chunk->next;
            free(chunk);
        }
        memory->pools[i] = (struct jpeg_pool){0};
    }
}

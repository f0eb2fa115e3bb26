/*
 * digest — the terms of the two digests (sampler.h). docs/reference/order.md specifies the
 * bytes.
 */
#include "base/bytes.h"
#include "base/hash.h"
#include "sampler/sampler.h"

uint64_t digest_set_term(struct sample_ref ref)
{
    uint8_t bytes[16];
    bytes_put_u32(bytes, ref.dataset);
    bytes_put_u32(bytes + 4, ref.epoch);
    bytes_put_u64(bytes + 8, ref.sample);
    return hash_64(bytes, sizeof bytes);
}

uint64_t digest_sequence_term(uint32_t epoch, uint64_t position, struct sample_ref ref)
{
    uint8_t bytes[24];
    bytes_put_u32(bytes, epoch);
    bytes_put_u32(bytes + 4, ref.dataset);
    bytes_put_u64(bytes + 8, position);
    bytes_put_u64(bytes + 16, ref.sample);
    return hash_64(bytes, sizeof bytes);
}

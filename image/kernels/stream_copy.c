/*
 * stream_copy — see stream_copy.h. Only whole cache lines are streamed.
 */
#include "image/kernels/stream_copy.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>

enum { LINE_BYTES = 64 };

__attribute__((target("avx2"))) static void stream_lines(uint8_t *target, const uint8_t *source,
                                                         size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE_BYTES) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(source + i));
        __m256i high = _mm256_loadu_si256((const __m256i *)(source + i + LINE_BYTES / 2));
        _mm256_stream_si256((__m256i *)(target + i), low);
        _mm256_stream_si256((__m256i *)(target + i + LINE_BYTES / 2), high);
    }
    _mm_sfence();
}

void stream_copy(enum image_kernels kernels, uint8_t *target, const uint8_t *source, size_t bytes)
{
    size_t head = -(uintptr_t)target % LINE_BYTES;
    if (kernels < IMAGE_KERNELS_AVX2 || bytes < head + LINE_BYTES) {
        memcpy(target, source, bytes);
        return;
    }
    size_t lines_bytes = (bytes - head) / LINE_BYTES * LINE_BYTES, tail = head + lines_bytes;
    memcpy(target, source, head);
    stream_lines(target + head, source + head, lines_bytes);
    memcpy(target + tail, source + tail, bytes - tail);
}

#else

void stream_copy(enum image_kernels kernels, uint8_t *target, const uint8_t *source, size_t bytes)
{
    (void)kernels;
    memcpy(target, source, bytes);
}

#endif

/*
 * extents — see extents.h.
 */
#include "loader/parts/extents.h"

#include <stdbool.h>

static bool is_before(const struct extent *a, const struct extent *b)
{
    if (a->shard != b->shard)
        return a->shard < b->shard;
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
}

static void sift_down(struct extent *list, uint32_t root, uint32_t count)
{
    for (uint64_t child; (child = 2 * (uint64_t)root + 1) < count; root = (uint32_t)child) {
        if (child + 1 < count && is_before(&list[child], &list[child + 1]))
            child++;
        if (!is_before(&list[root], &list[child]))
            return;
        struct extent swapped = list[root];
        list[root] = list[child];
        list[child] = swapped;
    }
}

/* Heapsort, because qsort may allocate. */
void extents_sort(struct extent *list, uint32_t count)
{
    for (uint32_t root = count / 2; root-- > 0;)
        sift_down(list, root, count);
    for (uint32_t last = count; last-- > 1;) {
        struct extent swapped = list[0];
        list[0] = list[last];
        list[last] = swapped;
        sift_down(list, 0, last);
    }
}

uint32_t extents_merge(const struct extent *list, uint32_t count,
                       const struct extent_limits *limits, uint64_t *ret_end)
{
    uint64_t end = list[0].end;
    uint32_t i = 1;
    for (; i < count; i++) {
        const struct extent *next = &list[i];
        if (next->shard != list[0].shard || next->begin > end + limits->gap_bytes)
            break;
        bool fits =
            next->end <= end || next->end - list[0].begin <= limits->bytes_max ||
            (next->sample == list[0].sample && next->end <= end + limits->same_sample_gap_bytes);
        if (!fits)
            break;
        end = next->end > end ? next->end : end;
    }
    *ret_end = end;
    return i;
}

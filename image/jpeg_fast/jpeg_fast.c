/*
 * jpeg_fast — see jpeg_fast.h.
 */
#include "image/jpeg_fast/jpeg_fast.h"

#include "base/bytes.h"
#include "image/jpeg_fast/entropy.h"
#include "image/jpeg_fast/inverse_dct.h"
#include "image/jpeg_fast/scan_segments.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_SIDE = 8,
    /* MCUs whose coefficients a stream holds: multiples of four fill the vectors, few stay in the
     * first-level cache. */
    STREAM_MCUS = 8,
    STREAM_BIG_MCUS = 4, /* of more than BIG_MCU_BLOCKS blocks */
    BIG_MCU_BLOCKS = 4,
    STREAM_BLOCKS = STREAM_BIG_MCUS * JPEG_FAST_MCU_BLOCKS_MAX,
    SLACK_BYTES = STREAM_BLOCKS * ENTROPY_BLOCK_BYTES_MAX + ENTROPY_READ_BYTES,
};
static_assert(STREAM_MCUS * BIG_MCU_BLOCKS <= STREAM_BLOCKS, "both kinds of MCU must fit");

/* A block of an MCU, at x, y blocks. */
struct mcu_block {
    uint32_t component, x, y;
    size_t offset; /* of its first sample in the plane, from the MCU's */
};

struct component {
    struct huffman_lookup dc, ac;
    struct inverse_dct_quant quant;
    uint32_t h_samp, v_samp;
    uint32_t block_columns, block_rows; /* of the image */
    struct jpeg_fast_plane plane;
};

/* Reads segments one after another; transforms MCUs when its blocks are full. */
struct stream {
    struct entropy_block blocks[STREAM_BLOCKS + 1];
    uint32_t mcu[STREAM_MCUS];  /* numbers of the MCUs in blocks */
    bool is_first[STREAM_MCUS]; /* in its segment */
    uint32_t mcus;              /* in blocks */
    struct scan_segment segment;
    uint32_t segment_mcus;                /* of the segment, not yet decoded */
    int32_t dc[JPEG_FAST_COMPONENTS_MAX]; /* of the last block */
};

struct jpeg_fast {
    struct component component[JPEG_FAST_COMPONENTS_MAX];
    struct stream stream[ENTROPY_STREAMS_MAX];
    struct entropy_stream entropy[ENTROPY_STREAMS_MAX]; /* of the active streams */
    struct stream *active[ENTROPY_STREAMS_MAX];
    struct mcu_block mcu_block[JPEG_FAST_MCU_BLOCKS_MAX];
    uint32_t mcu_blocks, stream_mcus, components;
    struct scan_layout layout;
    struct scan_segments segments;
    enum image_kernels kernels;
};

/* ---- Set-up. ---- */

static bool set_component(struct component *component, const struct jpeg_fast_scan *scan,
                          uint32_t index, struct jpeg_fast_plane plane)
{
    const struct jpeg_fast_component *from = &scan->component[index];
    component->h_samp = from->h_samp;
    component->v_samp = from->v_samp;
    component->block_columns =
        (uint32_t)bytes_divide_up((uint64_t)scan->width * from->h_samp, scan->mcu_width);
    component->block_rows =
        (uint32_t)bytes_divide_up((uint64_t)scan->height * from->v_samp, scan->mcu_height);
    component->plane = plane;
    return huffman_lookup_build(&component->dc, from->dc, true) &&
           huffman_lookup_build(&component->ac, from->ac, false) &&
           inverse_dct_quant_init(&component->quant, from->quant);
}

static bool set_mcu_blocks(struct jpeg_fast *fast)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fast->components; i++) {
        const struct component *component = &fast->component[i];
        if (component->h_samp * component->v_samp > JPEG_FAST_MCU_BLOCKS_MAX - count)
            return false;
        for (uint32_t y = 0; y < component->v_samp; y++) {
            for (uint32_t x = 0; x < component->h_samp; x++)
                fast->mcu_block[count++] = (struct mcu_block){
                    i, x, y, BLOCK_SIDE * (y * component->plane.stride_bytes + x)};
        }
    }
    fast->mcu_blocks = count;
    fast->stream_mcus = count > BIG_MCU_BLOCKS ? STREAM_BIG_MCUS : STREAM_MCUS;
    return true;
}

static void set_tables(struct jpeg_fast *fast, struct stream *stream)
{
    for (uint32_t i = 0; i <= fast->stream_mcus * fast->mcu_blocks; i++) {
        const struct component *component =
            &fast->component[fast->mcu_block[i % fast->mcu_blocks].component];
        stream->blocks[i].dc = component->dc.entry;
        stream->blocks[i].ac = component->ac.entry;
    }
}

static bool set_up(struct jpeg_fast *fast, const struct jpeg_fast_scan *scan,
                   struct image_rect part, bool skip, const struct jpeg_fast_plane *planes)
{
    fast->components = scan->components;
    for (uint32_t i = 0; i < scan->components; i++) {
        if (!set_component(&fast->component[i], scan, i, planes[i]))
            return false;
    }
    if (!set_mcu_blocks(fast))
        return false;
    fast->layout = (struct scan_layout){
        .columns = (uint32_t)bytes_divide_up(scan->width, scan->mcu_width),
        .rows = (uint32_t)bytes_divide_up(scan->height, scan->mcu_height),
        .restart_interval = scan->restart_interval,
        .part = part,
        .skip = skip,
    };
    for (int i = 0; i < ENTROPY_STREAMS_MAX; i++) {
        fast->stream[i].mcus = 0;
        set_tables(fast, &fast->stream[i]);
    }
    return true;
}

/* ---- Samples. ---- */

/* gcc would make a memset of this size a `rep stos`, which takes longer to start than to run. */
static void clear(struct entropy_block *block)
{
    static const int16_t zeros[64];
    memcpy(block->coefficient, zeros, sizeof zeros);
}

/* Blocks to transform, by component. */
struct transform_list {
    struct inverse_dct_block block[JPEG_FAST_COMPONENTS_MAX][STREAM_BLOCKS];
    uint32_t count[JPEG_FAST_COMPONENTS_MAX];
};

/* Lists the blocks of an MCU of the part, except those beyond the edge of the image. */
static void list_blocks(const struct jpeg_fast *fast, uint32_t column, uint32_t row,
                        struct entropy_block *blocks, struct transform_list *list)
{
    uint8_t *target[JPEG_FAST_COMPONENTS_MAX];
    bool at_edge = column + 1 == fast->layout.columns || row + 1 == fast->layout.rows;
    for (uint32_t i = 0; i < fast->components; i++) {
        const struct component *component = &fast->component[i];
        size_t x = (size_t)(column - fast->layout.part.x) * component->h_samp;
        size_t y = (size_t)(row - fast->layout.part.y) * component->v_samp;
        target[i] = component->plane.data + BLOCK_SIDE * (y * component->plane.stride_bytes + x);
    }
    for (uint32_t k = 0; k < fast->mcu_blocks; k++) {
        struct mcu_block at = fast->mcu_block[k];
        const struct component *component = &fast->component[at.component];
        if (at_edge && (column * component->h_samp + at.x >= component->block_columns ||
                        row * component->v_samp + at.y >= component->block_rows))
            clear(&blocks[k]);
        else
            list->block[at.component][list->count[at.component]++] =
                (struct inverse_dct_block){blocks[k].coefficient, target[at.component] + at.offset};
    }
}

/* Replaces the DC differences of an MCU by their sums. False: one exceeds 16 bits. */
static bool add_differences(const struct jpeg_fast *fast, int32_t *dc, struct entropy_block *blocks)
{
    bool in_range = true;
    for (uint32_t k = 0; k < fast->mcu_blocks; k++) {
        int32_t *sum = &dc[fast->mcu_block[k].component];
        *sum += blocks[k].coefficient[0];
        in_range &= *sum == (int16_t)*sum;
        blocks[k].coefficient[0] = (int16_t)*sum;
    }
    return in_range;
}

/* Transforms the stream's MCUs, as far as they are part of the image's part, and empties it. */
static bool transform(struct jpeg_fast *fast, struct stream *stream)
{
    const struct image_rect *part = &fast->layout.part;
    struct transform_list list;
    bool in_range = true;
    memset(list.count, 0, sizeof list.count);
    for (uint32_t i = 0; i < stream->mcus; i++) {
        struct entropy_block *blocks = stream->blocks + i * fast->mcu_blocks;
        uint32_t column = stream->mcu[i] % fast->layout.columns;
        uint32_t row = stream->mcu[i] / fast->layout.columns;
        if (stream->is_first[i])
            memset(stream->dc, 0, sizeof stream->dc);
        in_range &= add_differences(fast, stream->dc, blocks);
        if (column - part->x < part->width && row - part->y < part->height) {
            list_blocks(fast, column, row, blocks, &list);
        } else {
            for (uint32_t k = 0; k < fast->mcu_blocks; k++)
                clear(&blocks[k]);
        }
    }
    stream->mcus = 0;
    for (uint32_t i = 0; i < fast->components; i++)
        in_range &= inverse_dct(fast->kernels, &fast->component[i].quant, list.block[i],
                                list.count[i], fast->component[i].plane.stride_bytes);
    return in_range;
}

/* ---- Streams. ---- */

/* *ret_ends: no segment is left. False: a marker is not for this decoder. */
static bool begin_segment(struct jpeg_fast *fast, struct stream *stream,
                          struct entropy_stream *entropy, bool *ret_ends)
{
    int status = scan_segments_next(&fast->segments, &stream->segment);
    *ret_ends = status == 0;
    if (status <= 0)
        return status == 0;
    stream->segment_mcus = stream->segment.mcus;
    entropy->position_bits = stream->segment.begin_bits;
    return true;
}

/* Prepares the next range of MCUs: the segment's rest, as far as it fits. */
static void begin_range(struct jpeg_fast *fast, struct stream *stream,
                        struct entropy_stream *entropy)
{
    const struct scan_segment *segment = &stream->segment;
    uint32_t mcus = fast->stream_mcus - stream->mcus;
    if (mcus > stream->segment_mcus)
        mcus = stream->segment_mcus;
    entropy->block = stream->blocks + stream->mcus * fast->mcu_blocks;
    entropy->end = entropy->block + mcus * fast->mcu_blocks;
    entropy->k = 0;
    for (uint32_t i = 0; i < mcus; i++, stream->mcus++) {
        uint32_t done = segment->mcus - stream->segment_mcus--;
        stream->mcu[stream->mcus] = segment->first_mcu + done;
        stream->is_first[stream->mcus] = done == 0;
    }
}

/* True if the stream may go on: its data was sufficient and, at the end of a segment, used up to
 * the last byte. */
static bool is_consistent(const struct stream *stream, const struct entropy_stream *entropy)
{
    const struct scan_segment *segment = &stream->segment;
    bool at_end = stream->segment_mcus == 0 && segment->is_complete;
    return entropy->position_bits <= segment->end_bits &&
           (!at_end || segment->end_bits - entropy->position_bits < 8);
}

/* Continues a stream that has filled its range. *ret_ends: no segment is left for it. False: the
 * data is not for this decoder. */
static bool continue_stream(struct jpeg_fast *fast, struct stream *stream,
                            struct entropy_stream *entropy, bool *ret_ends)
{
    *ret_ends = false;
    if (!is_consistent(stream, entropy))
        return false;
    if (stream->segment_mcus == 0 && !begin_segment(fast, stream, entropy, ret_ends))
        return false;
    if ((*ret_ends || stream->mcus == fast->stream_mcus) && !transform(fast, stream))
        return false;
    if (!*ret_ends)
        begin_range(fast, stream, entropy);
    return true;
}

static bool decode_segments(struct jpeg_fast *fast)
{
    uint32_t count = 0;
    for (bool ends = false; count < ENTROPY_STREAMS_MAX; count++) {
        if (!begin_segment(fast, &fast->stream[count], &fast->entropy[count], &ends))
            return false;
        if (ends)
            break;
        fast->active[count] = &fast->stream[count];
        begin_range(fast, fast->active[count], &fast->entropy[count]);
    }
    while (count > 0) {
        if (!entropy_decode(fast->kernels, fast->segments.data, fast->entropy, count))
            return false;
        for (uint32_t i = count; i-- > 0;) {
            bool ends = false;
            if (fast->entropy[i].block == fast->entropy[i].end &&
                !continue_stream(fast, fast->active[i], &fast->entropy[i], &ends))
                return false;
            if (ends) {
                count--;
                fast->active[i] = fast->active[count];
                fast->entropy[i] = fast->entropy[count];
            }
        }
    }
    return true;
}

int jpeg_fast_decode(struct jpeg_fast *fast, const struct jpeg_fast_scan *scan,
                     struct image_rect part, bool skip, const struct jpeg_fast_plane *planes)
{
    assert(scan->components == 1 || scan->components == JPEG_FAST_COMPONENTS_MAX);
    if (!set_up(fast, scan, part, skip, planes))
        return -ENOTSUP;
    int status =
        scan_segments_begin(&fast->segments, &fast->layout, scan->data, scan->bytes, SLACK_BYTES);
    if (status)
        return status;
    if (decode_segments(fast))
        return 0;
    for (int i = 0; i < ENTROPY_STREAMS_MAX; i++) {
        for (int k = 0; k <= STREAM_BLOCKS; k++)
            clear(&fast->stream[i].blocks[k]);
    }
    return -ENOTSUP;
}

/* ---- Life cycle. ---- */

int jpeg_fast_open(struct jpeg_fast **ret_fast, enum image_kernels kernels, struct err *err)
{
    size_t bytes = bytes_round_up(sizeof(struct jpeg_fast), _Alignof(struct jpeg_fast));
    struct jpeg_fast *fast = aligned_alloc(_Alignof(struct jpeg_fast), bytes);
    if (!fast)
        return err_set(err, -ENOMEM, "out of memory for a JPEG decoder");
    memset(fast, 0, sizeof *fast);
    fast->kernels = kernels;
    *ret_fast = fast;
    return 0;
}

void jpeg_fast_use_kernels(struct jpeg_fast *fast, enum image_kernels kernels)
{
    fast->kernels = kernels;
}

void jpeg_fast_close(struct jpeg_fast *fast)
{
    if (!fast)
        return;
    scan_segments_deinit(&fast->segments);
    free(fast);
}

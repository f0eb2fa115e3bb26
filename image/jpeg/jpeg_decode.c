/*
 * jpeg_decode — decodes to planes (jpeg.h).
 */
#include "image/jpeg/jpeg.h"

#include "base/bytes.h"
#include "image/jpeg/jpeg_cut.h"
#include "image/jpeg/jpeg_reader.h"
#include "image/jpeg_fast/jpeg_fast.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    MCU_ROWS_MAX = MAX_SAMP_FACTOR * DCTSIZE, /* per component in a row of MCUs */
    STRIDE_ALIGNMENT_BYTES = 64,
};

/* One thread at a time. */
struct jpeg_decoder {
    struct jpeg_reader reader;
    struct jpeg_fast *fast;      /* NULL: use libjpeg only */
    struct jpeg_info info;       /* of the whole image */
    struct jpeg_info stream;     /* of the decoded stream: the image or a cut */
    struct jpeg_planes planes;   /* of the stream */
    uint32_t first_row, end_row; /* wanted rows of the stream */
    bool decodes_whole_image;
    bool used_jpeg_fast;
    struct str cut;  /* compressed bytes of a part */
    uint8_t *memory; /* planes, then for CMYK a row of four components */
    size_t memory_bytes;
    uint8_t *sample_rows[JPEG_COMPONENTS_MAX]; /* start of each component in memory */
    JSAMPROW rows[JPEG_COMPONENTS_MAX][MCU_ROWS_MAX];
};

/* ---- Pixels. ---- */

static bool is_converted(const struct jpeg_info *info)
{
    return info->color == JPEG_CMYK || info->color == JPEG_YCCK;
}

static bool is_row_wanted(const struct jpeg_decoder *decoder, uint32_t row, uint32_t rows)
{
    return row + rows > decoder->first_row && row < decoder->end_row;
}

/* Parses but does not transform MCU rows above the first wanted row. */
static void decode_raw(void *context)
{
    struct jpeg_decoder *decoder = context;
    j_decompress_ptr codec = &decoder->reader.codec;
    JSAMPARRAY components[JPEG_COMPONENTS_MAX];
    codec->raw_data_out = TRUE;
    codec->do_block_smoothing = FALSE;
    codec->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(codec);
    uint32_t mcu_rows = (uint32_t)codec->max_v_samp_factor * DCTSIZE;
    while (codec->output_scanline < decoder->end_row) {
        uint32_t row = codec->output_scanline;
        for (uint32_t i = 0; i < decoder->planes.count; i++) {
            jpeg_component_info *info = &codec->comp_info[i];
            size_t stride = decoder->planes.plane[i].stride_bytes;
            size_t first = (size_t)(row / mcu_rows) * (size_t)info->v_samp_factor * DCTSIZE;
            for (int k = 0; k < info->v_samp_factor * DCTSIZE; k++)
                decoder->rows[i][k] = decoder->sample_rows[i] + (first + (size_t)k) * stride;
            components[i] = decoder->rows[i];
            info->component_needed = is_row_wanted(decoder, row, mcu_rows);
        }
        jpeg_read_raw_data(codec, components, mcu_rows);
    }
    if (decoder->decodes_whole_image)
        jpeg_finish_decompress(codec);
}

static uint8_t multiply(uint32_t a, uint32_t b)
{
    return (uint8_t)((a * b + 127) / 255);
}

/* In inverted CMYK each component is the fraction of light that remains. */
static void convert_cmyk_row(struct jpeg_decoder *decoder, uint32_t row, const uint8_t *cmyk)
{
    for (uint32_t i = 0; i < 3; i++) {
        uint8_t *target = decoder->sample_rows[i] + row * decoder->planes.plane[i].stride_bytes;
        for (uint32_t x = 0; x < decoder->planes.width; x++)
            target[x] = multiply(cmyk[4 * (size_t)x + i], cmyk[4 * (size_t)x + 3]);
    }
}

static void decode_cmyk(void *context)
{
    struct jpeg_decoder *decoder = context;
    j_decompress_ptr codec = &decoder->reader.codec;
    JSAMPROW cmyk = decoder->sample_rows[3];
    codec->out_color_space = JCS_CMYK;
    codec->do_block_smoothing = FALSE;
    codec->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(codec);
    while (codec->output_scanline < decoder->end_row) {
        uint32_t row = codec->output_scanline;
        jpeg_read_scanlines(codec, &cmyk, 1);
        if (is_row_wanted(decoder, row, 1))
            convert_cmyk_row(decoder, row, cmyk);
    }
    if (decoder->decodes_whole_image)
        jpeg_finish_decompress(codec);
}

static int reserve_memory(struct jpeg_decoder *decoder, size_t bytes, struct err *err)
{
    if (bytes <= decoder->memory_bytes)
        return 0;
    free(decoder->memory);
    decoder->memory_bytes = 0;
    decoder->memory =
        aligned_alloc(STRIDE_ALIGNMENT_BYTES, bytes_round_up(bytes, STRIDE_ALIGNMENT_BYTES));
    if (!decoder->memory)
        return err_set(err, -ENOMEM, "out of memory for %zu bytes of decoded planes", bytes);
    decoder->memory_bytes = bytes;
    return 0;
}

/* Reserves whole blocks and rows of MCUs, because libjpeg writes beyond a plane's width and
 * height. */
static int reserve_planes(struct jpeg_decoder *decoder, struct err *err)
{
    const struct jpeg_info *info = &decoder->stream;
    bool converted = is_converted(info);
    uint32_t mcu_rows = converted ? 1 : (uint32_t)decoder->reader.codec.max_v_samp_factor * DCTSIZE;
    uint64_t mcus = bytes_divide_up(decoder->end_row, mcu_rows);
    size_t at[JPEG_COMPONENTS_MAX] = {0}, bytes = 0;
    for (uint32_t i = 0; i < decoder->planes.count; i++) {
        struct jpeg_plane *plane = &decoder->planes.plane[i];
        plane->stride_bytes = bytes_round_up(plane->width, STRIDE_ALIGNMENT_BYTES);
        at[i] = bytes;
        bytes += plane->stride_bytes * mcus * (converted ? 1 : info->v_samp[i] * DCTSIZE);
    }
    if (converted) {
        at[3] = bytes;
        bytes += 4 * (size_t)info->width;
    }
    int status = reserve_memory(decoder, bytes, err);
    if (status)
        return status;
    for (uint32_t i = 0; i < JPEG_COMPONENTS_MAX; i++)
        decoder->sample_rows[i] = decoder->memory + at[i];
    for (uint32_t i = 0; i < decoder->planes.count; i++)
        decoder->planes.plane[i].data = decoder->sample_rows[i];
    return 0;
}

/* Provides planes for rows first_row..end_row-1 of a stream. */
static int begin_rows(struct jpeg_decoder *decoder, const struct jpeg_info *stream,
                      uint32_t first_row, uint32_t end_row, struct err *err)
{
    decoder->stream = *stream;
    decoder->planes = jpeg_planes_of(stream);
    decoder->first_row = first_row;
    decoder->end_row = end_row;
    return reserve_planes(decoder, err);
}

/* Decodes rows first_row..end_row-1 of the stream that the reader has begun. */
static int decode_rows(struct jpeg_decoder *decoder, const struct jpeg_info *stream,
                       uint32_t first_row, uint32_t end_row, struct err *err)
{
    int status = begin_rows(decoder, stream, first_row, end_row, err);
    if (status)
        return status;
    return jpeg_reader_guard(&decoder->reader, is_converted(stream) ? decode_cmyk : decode_raw,
                             decoder, err);
}

/* Places the stream's planes in the planes of the image. x, y: of the stream in the image. */
static void place_planes(struct jpeg_decoder *decoder, uint32_t x, uint32_t y)
{
    struct jpeg_planes planes = jpeg_planes_of(&decoder->info);
    for (uint32_t i = 0; i < planes.count; i++) {
        struct jpeg_plane *plane = &planes.plane[i];
        plane->data = decoder->planes.plane[i].data;
        plane->stride_bytes = decoder->planes.plane[i].stride_bytes;
        plane->left = (uint32_t)((uint64_t)x * plane->x_num / plane->x_den);
        plane->top = (uint32_t)((uint64_t)y * plane->y_num / plane->y_den);
    }
    decoder->planes = planes;
}

/* ---- Parts, by jpeg_fast. ---- */

static bool has_tables(const struct jpeg_decompress_struct *codec,
                       const jpeg_component_info *component)
{
    int quant = component->quant_tbl_no, dc = component->dc_tbl_no, ac = component->ac_tbl_no;
    return quant >= 0 && quant < NUM_QUANT_TBLS && codec->quant_tbl_ptrs[quant] && dc >= 0 &&
           dc < NUM_HUFF_TBLS && codec->dc_huff_tbl_ptrs[dc] && ac >= 0 && ac < NUM_HUFF_TBLS &&
           codec->ac_huff_tbl_ptrs[ac];
}

/* Describes the scan whose headers libjpeg has read. False: jpeg_fast does not decode its kind. */
static bool describe_scan(const struct jpeg_decoder *decoder, struct jpeg_fast_scan *scan)
{
    const struct jpeg_reader *reader = &decoder->reader;
    const struct jpeg_decompress_struct *codec = &reader->codec;
    const struct jpeg_info *info = &decoder->info;
    bool is_gray = info->components == 1;
    if (info->progressive || info->arithmetic || (!is_gray && info->components != 3) ||
        codec->comps_in_scan != codec->num_components || codec->Ss != 0 ||
        codec->Se != DCTSIZE2 - 1 || codec->Ah != 0 || codec->Al != 0)
        return false;
    *scan = (struct jpeg_fast_scan){
        .width = info->width,
        .height = info->height,
        .mcu_width = (uint32_t)codec->max_h_samp_factor * DCTSIZE,
        .mcu_height = (uint32_t)codec->max_v_samp_factor * DCTSIZE,
        .components = info->components,
        .restart_interval = info->restart_interval,
        .data = reader->source.next_input_byte,
        .bytes = (size_t)(reader->data + reader->bytes - reader->source.next_input_byte),
    };
    for (uint32_t i = 0; i < info->components; i++) {
        const jpeg_component_info *from = codec->cur_comp_info[i];
        /* libjpeg reads several block rows of a gray image at a time if v_samp says so */
        if (from != &codec->comp_info[i] || !has_tables(codec, from) ||
            (is_gray && (from->h_samp_factor != 1 || from->v_samp_factor != 1)))
            return false;
        const JHUFF_TBL *dc = codec->dc_huff_tbl_ptrs[from->dc_tbl_no];
        const JHUFF_TBL *ac = codec->ac_huff_tbl_ptrs[from->ac_tbl_no];
        scan->component[i] = (struct jpeg_fast_component){
            .h_samp = (uint32_t)from->h_samp_factor,
            .v_samp = (uint32_t)from->v_samp_factor,
            .quant = codec->quant_tbl_ptrs[from->quant_tbl_no]->quantval,
            .dc = {dc->bits, dc->huffval},
            .ac = {ac->bits, ac->huffval},
        };
    }
    return true;
}

/* is_divided: the part's segments can be decoded alone. -ENOTSUP: libjpeg must decode the part. */
static int decode_with_jpeg_fast(struct jpeg_decoder *decoder, struct image_rect part,
                                 bool is_divided, struct err *err)
{
    struct jpeg_fast_scan scan;
    struct jpeg_info stream = decoder->info;
    struct jpeg_fast_plane planes[JPEG_FAST_COMPONENTS_MAX];
    if (!decoder->fast || !describe_scan(decoder, &scan))
        return -ENOTSUP;
    struct image_rect mcus = {.x = part.x / scan.mcu_width, .y = part.y / scan.mcu_height};
    mcus.width = (uint32_t)bytes_divide_up(part.x + part.width, scan.mcu_width) - mcus.x;
    mcus.height = (uint32_t)bytes_divide_up(part.y + part.height, scan.mcu_height) - mcus.y;
    part.x = mcus.x * scan.mcu_width;
    part.y = mcus.y * scan.mcu_height;
    stream.width = (uint32_t)bytes_min(mcus.width * scan.mcu_width, scan.width - part.x);
    stream.height = (uint32_t)bytes_min(mcus.height * scan.mcu_height, scan.height - part.y);
    int status = begin_rows(decoder, &stream, 0, stream.height, err);
    if (status)
        return status;
    for (uint32_t i = 0; i < scan.components; i++)
        planes[i] = (struct jpeg_fast_plane){decoder->sample_rows[i],
                                             decoder->planes.plane[i].stride_bytes};
    /* After any failure, even -ENOMEM, libjpeg may still be able to decode the part. */
    if (jpeg_fast_decode(decoder->fast, &scan, mcus, is_divided, planes))
        return -ENOTSUP;
    place_planes(decoder, part.x, part.y);
    return 0;
}

/* ---- Parts, by libjpeg. ---- */

static bool rects_equal(struct image_rect a, struct image_rect b)
{
    return a.x == b.x && a.y == b.y && a.width == b.width && a.height == b.height;
}

/* Cuts the part's segments out of the file. -ENOTSUP if that is impossible or saves nothing. */
static int cut_part(struct jpeg_decoder *decoder, const struct jpeg_headers *headers,
                    const struct jpeg_cut_grid *grid, struct image_rect part,
                    struct image_rect *ret_segments)
{
    const struct jpeg_reader *reader = &decoder->reader;
    struct image_rect segments = jpeg_cut_align(grid, part);
    struct image_rect above = {0, 0, grid->width, segments.y + segments.height};
    if (rects_equal(segments, above))
        return -ENOTSUP;
    str_clear(&decoder->cut);
    int status = jpeg_cut(reader->data, reader->bytes, headers, grid, segments, &decoder->cut);
    if (!status)
        *ret_segments = segments;
    return status;
}

static int decode_cut(struct jpeg_decoder *decoder, struct image_rect segments, struct err *err)
{
    struct jpeg_info stream = decoder->info;
    stream.width = segments.width;
    stream.height = segments.height;
    int status =
        jpeg_reader_begin_abbreviated(&decoder->reader, decoder->cut.data, decoder->cut.bytes, err);
    if (!status)
        status = decode_rows(decoder, &stream, 0, segments.height, err);
    if (!status)
        place_planes(decoder, segments.x, segments.y);
    return status;
}

/* Finds out whether restart markers divide the image so that parts can be decoded alone. */
static bool find_grid(const struct jpeg_decoder *decoder, struct jpeg_headers *headers,
                      struct jpeg_cut_grid *grid)
{
    const struct jpeg_reader *reader = &decoder->reader;
    return decoder->info.restart_interval > 0 &&
           jpeg_read_headers(reader->data, reader->bytes, reader->bytes, NULL, headers, NULL) ==
               0 &&
           jpeg_cut_grid_of(headers, grid);
}

/* Uses a cut if possible. If the cut does not decode, decodes the file from its start to locate
 * the error. */
static int decode_part(struct jpeg_decoder *decoder, struct image_rect part, struct err *err)
{
    struct jpeg_reader *reader = &decoder->reader;
    const void *data = reader->data;
    size_t bytes = reader->bytes;
    struct image_rect segments;
    struct jpeg_headers headers;
    struct jpeg_cut_grid grid;
    bool is_divided = find_grid(decoder, &headers, &grid);
    int status = decode_with_jpeg_fast(decoder, part, is_divided, err);
    decoder->used_jpeg_fast = status == 0;
    if (status != -ENOTSUP)
        return status;
    status = is_divided ? cut_part(decoder, &headers, &grid, part, &segments) : -ENOTSUP;
    if (status == -ENOMEM)
        return err_set(err, -ENOMEM, "out of memory for %zu bytes of a part of a JPEG", bytes);
    if (!status) {
        status = decode_cut(decoder, segments, err);
        if (status != -EBADMSG)
            return status;
        status = jpeg_reader_begin(reader, data, bytes, reader->path, &decoder->info, err);
        if (status)
            return status;
    }
    return decode_rows(decoder, &decoder->info, part.y, part.y + part.height, err);
}

int jpeg_decode_part(struct jpeg_decoder *decoder, const struct image_rect *part,
                     struct jpeg_planes *ret_planes, struct err *err)
{
    const struct jpeg_info *info = &decoder->info;
    assert(decoder->reader.data); /* jpeg_decode_begin has succeeded */
    assert(!part ||
           (part->width >= 1 && part->x < info->width && part->width <= info->width - part->x));
    assert(!part ||
           (part->height >= 1 && part->y < info->height && part->height <= info->height - part->y));
    decoder->decodes_whole_image = part == NULL;
    decoder->used_jpeg_fast = false;
    int status =
        part ? decode_part(decoder, *part, err) : decode_rows(decoder, info, 0, info->height, err);
    jpeg_reader_end(&decoder->reader);
    if (!status)
        *ret_planes = decoder->planes;
    return status;
}

int jpeg_decode_begin(struct jpeg_decoder *decoder, const void *data, size_t bytes,
                      const char *path, struct jpeg_info *ret_info, struct err *err)
{
    int status = jpeg_reader_begin(&decoder->reader, data, bytes, path, &decoder->info, err);
    if (!status)
        *ret_info = decoder->info;
    return status;
}

int jpeg_decode(struct jpeg_decoder *decoder, const void *data, size_t bytes, const char *path,
                struct jpeg_planes *ret_planes, struct err *err)
{
    struct jpeg_info info;
    int status = jpeg_decode_begin(decoder, data, bytes, path, &info, err);
    return status ? status : jpeg_decode_part(decoder, NULL, ret_planes, err);
}

/* ---- Life cycle. ---- */

int jpeg_decoder_open(struct jpeg_decoder **ret_decoder, struct err *err)
{
    struct jpeg_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return err_set(err, -ENOMEM, "out of memory for a JPEG decoder");
    int status = jpeg_fast_open(&decoder->fast, image_kernels_best(), err);
    if (status) {
        free(decoder);
        return status;
    }
    jpeg_reader_init(&decoder->reader, JPEG_MARKERS_SKIP);
    *ret_decoder = decoder;
    return 0;
}

void jpeg_decoder_set_pixels_max(struct jpeg_decoder *decoder, uint64_t pixels_max)
{
    decoder->reader.pixels_max = pixels_max;
}

void jpeg_decoder_use_libjpeg(struct jpeg_decoder *decoder)
{
    jpeg_fast_close(decoder->fast);
    decoder->fast = NULL;
}

void jpeg_decoder_use_kernels(struct jpeg_decoder *decoder, enum image_kernels kernels)
{
    assert(decoder->fast && image_kernels_supported(kernels));
    jpeg_fast_use_kernels(decoder->fast, kernels);
}

bool jpeg_decoder_used_fast(const struct jpeg_decoder *decoder)
{
    return decoder->used_jpeg_fast;
}

void jpeg_decoder_close(struct jpeg_decoder *decoder)
{
    if (!decoder)
        return;
    jpeg_reader_deinit(&decoder->reader);
    jpeg_fast_close(decoder->fast);
    str_deinit(&decoder->cut);
    free(decoder->memory);
    free(decoder);
}

#define TEXT_OF(token)       #token
#define TEXT_OF_VALUE(macro) TEXT_OF(macro)

const char *jpeg_library(void)
{
#ifdef LIBJPEG_TURBO_VERSION
    return "libjpeg-turbo " TEXT_OF_VALUE(LIBJPEG_TURBO_VERSION);
#else
    return "libjpeg " TEXT_OF_VALUE(JPEG_LIB_VERSION);
#endif
}

int jpeg_simd(void)
{
    const char *none = getenv("JSIMD_FORCENONE");
    if (none && strcmp(none, "1") == 0)
        return 0;
#if defined WITH_SIMD
    return 1;
#elif defined LIBJPEG_TURBO_VERSION_NUMBER && LIBJPEG_TURBO_VERSION_NUMBER < 3000000
    return 0; /* its headers would define WITH_SIMD */
#else
    return -1;
#endif
}

uint32_t jpeg_decoder_warnings(const struct jpeg_decoder *decoder)
{
    return decoder->reader.warnings;
}

int jpeg_probe(const void *data, size_t bytes, const char *path, struct jpeg_info *ret_info,
               struct err *err)
{
    struct jpeg_reader reader;
    jpeg_reader_init(&reader, JPEG_MARKERS_SKIP);
    int status = jpeg_reader_begin(&reader, data, bytes, path, ret_info, err);
    jpeg_reader_deinit(&reader);
    return status;
}

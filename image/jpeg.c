/*
 * jpeg — see jpeg.h. Decoding.
 *
 * libjpeg reports errors by longjmp. All calls to it stand in step functions, which keep their state in the decoder and are
 * entered by guarded() alone: no local variable is ever changed between a setjmp and its longjmp.
 */
#include "image/jpeg.h"

#include "base/bytes.h"
#include "image/exif.h"

#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum {
    MCU_ROWS_MAX = MAX_SAMP_FACTOR * DCTSIZE, /* of one component in one row of MCUs */
    STRIDE_ALIGNMENT_BYTES = 64,
    /* libjpeg-turbo's faster Huffman decoder takes bad codes for zeros without a word. It is chosen where 512 bytes a block
     * are at hand; we never show as many. Measured: the careful one costs at most 3 %. */
    WINDOW_BYTES = 511,
    APP1 = JPEG_APP0 + 1,
};

/* Owner thread. */
struct jpeg_decoder {
    struct jpeg_decompress_struct codec; /* made by begin, destroyed by the end of rows */
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    const uint8_t *data; /* borrowed from begin to rows */
    size_t bytes;
    const uint8_t *window_end; /* up to where libjpeg sees data */
    const char *path;
    uint32_t warnings;
    uint32_t orientation;
    struct jpeg_info info;
    struct jpeg_planes planes;
    uint32_t first_row, end_row; /* what rows was asked for */
    bool to_end;
    uint8_t *memory; /* the planes, then a row of four components where CMYK needs it */
    size_t memory_bytes;
    uint8_t *sample_rows[JPEG_COMPONENTS_MAX]; /* where in memory each component starts */
    JSAMPROW rows[JPEG_COMPONENTS_MAX][MCU_ROWS_MAX];
};

/* ---- The source: the whole file is in memory and shown through a window. ---- */

static void source_start(j_decompress_ptr codec)
{
    (void)codec;
}

static void show_window(struct jpeg_decoder *decoder, const uint8_t *from)
{
    size_t left = (size_t)(decoder->data + decoder->bytes - from);
    decoder->source.next_input_byte = from;
    decoder->source.bytes_in_buffer = bytes_min(left, WINDOW_BYTES);
    decoder->window_end = from + decoder->source.bytes_in_buffer;
}

static boolean source_fill(j_decompress_ptr codec)
{
    struct jpeg_decoder *decoder = codec->client_data;
    show_window(decoder, decoder->window_end);
    if (decoder->source.bytes_in_buffer == 0)
        ERREXIT(codec, JERR_INPUT_EOF);
    return TRUE;
}

static size_t source_left(const struct jpeg_decoder *decoder)
{
    return (size_t)(decoder->data + decoder->bytes - decoder->source.next_input_byte);
}

static void source_skip(j_decompress_ptr codec, long bytes)
{
    struct jpeg_decoder *decoder = codec->client_data;
    size_t left = source_left(decoder);
    if (bytes <= 0)
        return;
    show_window(decoder, decoder->source.next_input_byte + bytes_min((uint64_t)bytes, left));
    if ((size_t)bytes > left)
        ERREXIT(codec, JERR_INPUT_EOF);
}

/* Reads EXIF where it lies; libjpeg would copy it. */
static boolean source_app1(j_decompress_ptr codec)
{
    struct jpeg_decoder *decoder = codec->client_data;
    const uint8_t *at = decoder->source.next_input_byte;
    size_t left = source_left(decoder);
    if (left < 2)
        ERREXIT(codec, JERR_INPUT_EOF);
    size_t length = (size_t)at[0] << 8 | at[1];
    if (length < 2)
        ERREXIT(codec, JERR_BAD_LENGTH);
    if (length <= left && decoder->orientation == 1)
        decoder->orientation = exif_orientation(at + 2, length - 2);
    source_skip(codec, (long)length);
    return TRUE;
}

/* ---- Errors and warnings. ---- */

static void on_error(j_common_ptr codec)
{
    struct jpeg_decoder *decoder = codec->client_data;
    longjmp(decoder->jump, 1);
}

/* Warnings after which all of the image's data is still there. */
static bool is_harmless(int code)
{
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
           code == JWRN_BOGUS_ICC;
}

static void on_message(j_common_ptr codec, int level)
{
    struct jpeg_decoder *decoder = codec->client_data;
    if (level >= 0)
        return; /* a trace */
    if (!is_harmless(codec->err->msg_code))
        on_error(codec);
    decoder->warnings++;
}

static void on_output(j_common_ptr codec)
{
    (void)codec;
}

static void on_progress(j_common_ptr codec)
{
    if (((j_decompress_ptr)codec)->input_scan_number > JPEG_SCANS_MAX)
        ERREXIT1(codec, JERR_BAD_PROG_SCRIPT, JPEG_SCANS_MAX + 1);
}

static int64_t offset_of(const struct jpeg_decoder *decoder)
{
    return (int64_t)(decoder->window_end - decoder->data) - (int64_t)decoder->source.bytes_in_buffer;
}

static int advise(struct err *err)
{
    err_advise(err, "replace the file or leave it out");
    return -EBADMSG;
}

static int report_failure(struct jpeg_decoder *decoder, struct err *err)
{
    char message[JMSG_LENGTH_MAX];
    j_common_ptr codec = (j_common_ptr)&decoder->codec;
    if (decoder->errors.msg_code == JERR_OUT_OF_MEMORY) {
        err_set(err, -ENOMEM, "no memory to decode a JPEG");
        err_at(err, decoder->path, ERR_NO_OFFSET);
        return -ENOMEM;
    }
    decoder->errors.format_message(codec, message);
    err_set(err, -EBADMSG, "JPEG can't be decoded");
    err_at(err, decoder->path, offset_of(decoder));
    err_found(err, "%s", message);
    return advise(err);
}

static int guarded(struct jpeg_decoder *decoder, void (*step)(struct jpeg_decoder *), struct err *err)
{
    if (setjmp(decoder->jump))
        return report_failure(decoder, err);
    step(decoder);
    return 0;
}

/* ---- Headers. ---- */

static void read_headers(struct jpeg_decoder *decoder)
{
    j_decompress_ptr codec = &decoder->codec;
    jpeg_create_decompress(codec);
    codec->src = &decoder->source;
    codec->progress = &decoder->progress;
    jpeg_set_marker_processor(codec, APP1, source_app1);
    jpeg_read_header(codec, TRUE);
}

static int color_of(const struct jpeg_decoder *decoder, enum jpeg_color *ret_color)
{
    static const struct {
        J_COLOR_SPACE space;
        int components;
        enum jpeg_color color;
    } known[] = {
        {JCS_GRAYSCALE, 1, JPEG_GRAY}, {JCS_YCbCr, 3, JPEG_YCBCR}, {JCS_RGB, 3, JPEG_RGB},
        {JCS_CMYK, 4, JPEG_CMYK},      {JCS_YCCK, 4, JPEG_YCCK},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].space == decoder->codec.jpeg_color_space &&
            known[i].components == decoder->codec.num_components) {
            *ret_color = known[i].color;
            return 0;
        }
    }
    return -EBADMSG;
}

static int check_headers(struct jpeg_decoder *decoder, struct jpeg_info *info, struct err *err)
{
    const struct jpeg_decompress_struct *codec = &decoder->codec;
    if ((uint64_t)codec->image_width * codec->image_height > JPEG_PIXELS_MAX) {
        err_set(err, -EBADMSG, "JPEG is too large");
        err_at(err, decoder->path, offset_of(decoder));
        err_expected(err, "at most %d pixels", JPEG_PIXELS_MAX);
        err_found(err, "%u x %u", codec->image_width, codec->image_height);
        return advise(err);
    }
    if (codec->data_precision != BITS_IN_JSAMPLE || color_of(decoder, &info->color)) {
        err_set(err, -EBADMSG, "JPEG is of a kind that is not supported");
        err_at(err, decoder->path, offset_of(decoder));
        err_expected(err, "8 bits of grayscale, YCbCr, RGB, CMYK or YCCK");
        err_found(err, "%d components of %d bits", codec->num_components, codec->data_precision);
        return advise(err);
    }
    info->width = codec->image_width;
    info->height = codec->image_height;
    info->components = (uint32_t)codec->num_components;
    for (uint32_t i = 0; i < info->components; i++) {
        info->h_samp[i] = (uint32_t)codec->comp_info[i].h_samp_factor;
        info->v_samp[i] = (uint32_t)codec->comp_info[i].v_samp_factor;
    }
    info->orientation = decoder->orientation;
    info->restart_interval = codec->restart_interval;
    info->progressive = codec->progressive_mode;
    info->arithmetic = codec->arith_code;
    return 0;
}

int jpeg_decode_begin(struct jpeg_decoder *decoder, const void *data, size_t bytes, const char *path,
                      struct jpeg_info *ret_info, struct err *err)
{
    struct jpeg_info info = {0};
    jpeg_destroy_decompress(&decoder->codec);
    decoder->data = data;
    decoder->bytes = bytes;
    decoder->path = path;
    decoder->warnings = 0;
    decoder->orientation = 1;
    show_window(decoder, data);
    int status = guarded(decoder, read_headers, err);
    if (!status)
        status = check_headers(decoder, &info, err);
    if (status) {
        jpeg_destroy_decompress(&decoder->codec);
        return status;
    }
    decoder->info = info;
    *ret_info = info;
    return 0;
}

/* ---- Pixels. ---- */

static bool is_converted(const struct jpeg_info *info)
{
    return info->color == JPEG_CMYK || info->color == JPEG_YCCK;
}

static bool is_wanted(const struct jpeg_decoder *decoder, uint32_t row, uint32_t rows)
{
    return row + rows > decoder->first_row && row < decoder->end_row;
}

/* MCU rows above the first wanted row are parsed but not transformed. */
static void decode_raw(struct jpeg_decoder *decoder)
{
    j_decompress_ptr codec = &decoder->codec;
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
            info->component_needed = is_wanted(decoder, row, mcu_rows);
        }
        jpeg_read_raw_data(codec, components, mcu_rows);
    }
    if (decoder->to_end)
        jpeg_finish_decompress(codec);
}

static uint8_t multiply(uint32_t a, uint32_t b)
{
    return (uint8_t)((a * b + 127) / 255);
}

/* Inverted CMYK: each component says how much light it leaves. */
static void convert_cmyk_row(struct jpeg_decoder *decoder, uint32_t row, const uint8_t *cmyk)
{
    for (uint32_t i = 0; i < 3; i++) {
        uint8_t *target = decoder->sample_rows[i] + row * decoder->planes.plane[i].stride_bytes;
        for (uint32_t x = 0; x < decoder->planes.width; x++)
            target[x] = multiply(cmyk[4 * (size_t)x + i], cmyk[4 * (size_t)x + 3]);
    }
}

static void decode_cmyk(struct jpeg_decoder *decoder)
{
    j_decompress_ptr codec = &decoder->codec;
    JSAMPROW cmyk = decoder->sample_rows[3];
    codec->out_color_space = JCS_CMYK;
    codec->do_block_smoothing = FALSE;
    codec->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(codec);
    while (codec->output_scanline < decoder->end_row) {
        uint32_t row = codec->output_scanline;
        jpeg_read_scanlines(codec, &cmyk, 1);
        if (is_wanted(decoder, row, 1))
            convert_cmyk_row(decoder, row, cmyk);
    }
    if (decoder->to_end)
        jpeg_finish_decompress(codec);
}

static uint32_t ceil_divide(uint32_t value, uint32_t by)
{
    return value / by + (value % by != 0);
}

/* Whole blocks and whole rows of MCUs: libjpeg writes beyond a plane's width and height. */
static int reserve_planes(struct jpeg_decoder *decoder, struct err *err)
{
    const struct jpeg_info *info = &decoder->info;
    bool converted = is_converted(info);
    uint32_t mcu_rows = converted ? 1 : (uint32_t)decoder->codec.max_v_samp_factor * DCTSIZE;
    uint64_t mcus = ceil_divide(decoder->end_row, mcu_rows);
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
    if (bytes > decoder->memory_bytes) {
        free(decoder->memory);
        decoder->memory_bytes = 0;
        decoder->memory =
            aligned_alloc(STRIDE_ALIGNMENT_BYTES, bytes_round_up(bytes, STRIDE_ALIGNMENT_BYTES));
        if (!decoder->memory)
            return err_set(err, -ENOMEM, "no memory for %zu bytes of decoded planes", bytes);
        decoder->memory_bytes = bytes;
    }
    for (uint32_t i = 0; i < JPEG_COMPONENTS_MAX; i++)
        decoder->sample_rows[i] = decoder->memory + at[i];
    for (uint32_t i = 0; i < decoder->planes.count; i++)
        decoder->planes.plane[i].data = decoder->sample_rows[i];
    return 0;
}

int jpeg_decode_rows(struct jpeg_decoder *decoder, uint32_t first_row, uint32_t end_row,
                     struct jpeg_planes *ret_planes, struct err *err)
{
    assert(decoder->codec.mem); /* after a begin that succeeded */
    assert(end_row <= decoder->info.height && (end_row == 0 || first_row < end_row));
    decoder->planes = jpeg_planes_of(&decoder->info);
    decoder->to_end = end_row == 0;
    decoder->first_row = decoder->to_end ? 0 : first_row;
    decoder->end_row = decoder->to_end ? decoder->info.height : end_row;
    int status = reserve_planes(decoder, err);
    if (!status)
        status = guarded(decoder, is_converted(&decoder->info) ? decode_cmyk : decode_raw, err);
    jpeg_destroy_decompress(&decoder->codec);
    if (!status)
        *ret_planes = decoder->planes;
    return status;
}

int jpeg_decode(struct jpeg_decoder *decoder, const void *data, size_t bytes, const char *path, uint32_t rows,
                struct jpeg_planes *ret_planes, struct err *err)
{
    struct jpeg_info info;
    int status = jpeg_decode_begin(decoder, data, bytes, path, &info, err);
    if (status)
        return status;
    return jpeg_decode_rows(decoder, 0, rows < info.height ? rows : 0, ret_planes, err);
}

/* ---- Life cycle. ---- */

static void decoder_init(struct jpeg_decoder *decoder)
{
    *decoder = (struct jpeg_decoder){0};
    decoder->codec.err = jpeg_std_error(&decoder->errors);
    decoder->codec.client_data = decoder;
    decoder->errors.error_exit = on_error;
    decoder->errors.emit_message = on_message;
    decoder->errors.output_message = on_output;
    decoder->source.init_source = source_start;
    decoder->source.fill_input_buffer = source_fill;
    decoder->source.skip_input_data = source_skip;
    decoder->source.resync_to_restart = jpeg_resync_to_restart;
    decoder->source.term_source = source_start;
    decoder->progress.progress_monitor = on_progress;
}

static void decoder_deinit(struct jpeg_decoder *decoder)
{
    jpeg_destroy_decompress(&decoder->codec);
    free(decoder->memory);
}

int jpeg_decoder_open(struct jpeg_decoder **ret_decoder, struct err *err)
{
    struct jpeg_decoder *decoder = malloc(sizeof *decoder);
    if (!decoder)
        return err_set(err, -ENOMEM, "no memory for a JPEG decoder");
    decoder_init(decoder);
    *ret_decoder = decoder;
    return 0;
}

void jpeg_decoder_close(struct jpeg_decoder *decoder)
{
    if (!decoder)
        return;
    decoder_deinit(decoder);
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
    return 0; /* its headers would say so */
#else
    return -1;
#endif
}

uint32_t jpeg_decoder_warnings(const struct jpeg_decoder *decoder)
{
    return decoder->warnings;
}

int jpeg_probe(const void *data, size_t bytes, const char *path, struct jpeg_info *ret_info, struct err *err)
{
    struct jpeg_decoder decoder;
    decoder_init(&decoder);
    int status = jpeg_decode_begin(&decoder, data, bytes, path, ret_info, err);
    decoder_deinit(&decoder);
    return status;
}

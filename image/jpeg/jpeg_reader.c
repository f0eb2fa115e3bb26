/*
 * jpeg_reader — see jpeg_reader.h.
 */
#include "image/jpeg/jpeg_reader.h"

#include "base/bytes.h"
#include "image/formats/exif.h"
#include "image/formats/pixels.h"

#include <errno.h>
#include <inttypes.h>

#include <jerror.h>

enum {
    /* libjpeg-turbo's fast Huffman decoder silently decodes bad codes as zeros. It runs only if
     * 512 bytes per block are available, so this smaller window disables it. The other decoder is
     * at most 3 % slower. */
    WINDOW_BYTES = 511,
    APP1 = JPEG_APP0 + 1,
    MARKER_BYTES_MAX = 65535,
    /* PIXEL_BYTES_MAX: coefficients, 2 bytes for each of up to 4 components. OTHER_BYTES_MAX:
     * the rest, including the padding blocks of very flat or narrow images: 32 rows of 65500
     * samples in 4 components. */
    PIXEL_BYTES_MAX = 8,
    OTHER_BYTES_MAX = 32 << 20,
};

/* ---- The source: the whole file in memory, visible through a window. ---- */

static void source_start(j_decompress_ptr codec)
{
    (void)codec;
}

static void show_window(struct jpeg_reader *reader, const uint8_t *from)
{
    size_t left = (size_t)(reader->data + reader->bytes - from);
    reader->source.next_input_byte = from;
    reader->source.bytes_in_buffer = bytes_min(left, WINDOW_BYTES);
    reader->window_end = from + reader->source.bytes_in_buffer;
}

static boolean source_fill(j_decompress_ptr codec)
{
    struct jpeg_reader *reader = codec->client_data;
    show_window(reader, reader->window_end);
    if (reader->source.bytes_in_buffer == 0)
        ERREXIT(codec, JERR_INPUT_EOF);
    return TRUE;
}

static size_t source_bytes_left(const struct jpeg_reader *reader)
{
    return (size_t)(reader->data + reader->bytes - reader->source.next_input_byte);
}

static void source_skip(j_decompress_ptr codec, long bytes)
{
    struct jpeg_reader *reader = codec->client_data;
    size_t left = source_bytes_left(reader);
    if (bytes <= 0)
        return;
    show_window(reader, reader->source.next_input_byte + bytes_min((uint64_t)bytes, left));
    if ((size_t)bytes > left)
        ERREXIT(codec, JERR_INPUT_EOF);
}

/* Reads EXIF in place; libjpeg would copy it. */
static boolean read_app1(j_decompress_ptr codec)
{
    struct jpeg_reader *reader = codec->client_data;
    const uint8_t *at = reader->source.next_input_byte;
    size_t left = source_bytes_left(reader);
    if (left < 2)
        ERREXIT(codec, JERR_INPUT_EOF);
    size_t length = (size_t)at[0] << 8 | at[1];
    if (length < 2)
        ERREXIT(codec, JERR_BAD_LENGTH);
    if (length <= left && reader->orientation == 1)
        reader->orientation = exif_orientation(at + 2, length - 2);
    source_skip(codec, (long)length);
    return TRUE;
}

/* ---- Errors and warnings. ---- */

static void on_error(j_common_ptr codec)
{
    struct jpeg_reader *reader = codec->client_data;
    longjmp(reader->jump, 1);
}

/* Warnings that imply no loss of image data. */
static bool is_harmless(int code)
{
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
           code == JWRN_BOGUS_ICC;
}

static void on_message(j_common_ptr codec, int level)
{
    struct jpeg_reader *reader = codec->client_data;
    if (level >= 0)
        return; /* trace message */
    if (!is_harmless(codec->err->msg_code))
        on_error(codec);
    reader->warnings++;
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

static int64_t offset_of(const struct jpeg_reader *reader)
{
    return (int64_t)(reader->window_end - reader->data) - (int64_t)reader->source.bytes_in_buffer;
}

static int advise_replacement(struct err *err)
{
    err_advise(err, "replace the file or leave it out");
    return -EBADMSG;
}

static int report_failure(struct jpeg_reader *reader, struct err *err)
{
    char message[JMSG_LENGTH_MAX];
    j_common_ptr codec = (j_common_ptr)&reader->codec;
    if (reader->errors.msg_code == JERR_OUT_OF_MEMORY) {
        err_set(err, -ENOMEM, "not enough memory to decode a JPEG");
        err_at(err, reader->path, ERR_NO_OFFSET);
        return -ENOMEM;
    }
    if (reader->errors.msg_code == JERR_NO_BACKING_STORE) {
        err_set(err, -EBADMSG, "the JPEG needs too much memory to decode");
        err_at(err, reader->path, offset_of(reader));
        err_expected(err, "at most the memory for %" PRIu64 " pixels", reader->pixels_max);
        err_found(err, "%u x %u", reader->codec.image_width, reader->codec.image_height);
        return advise_replacement(err);
    }
    reader->errors.format_message(codec, message);
    err_set(err, -EBADMSG, "JPEG cannot be decoded");
    err_at(err, reader->path, offset_of(reader));
    err_found(err, "%s", message);
    return advise_replacement(err);
}

int jpeg_reader_guard(struct jpeg_reader *reader, void (*step)(void *context), void *context,
                      struct err *err)
{
    if (setjmp(reader->jump))
        return report_failure(reader, err);
    step(context);
    return 0;
}

/* ---- Headers. ---- */

static void create_codec(struct jpeg_reader *reader)
{
    j_decompress_ptr codec = &reader->codec;
    jpeg_create_decompress(codec);
    reader->is_codec_created = true;
    jpeg_memory_install(&reader->memory, codec);
    codec->src = &reader->source;
    codec->progress = &reader->progress;
    if (reader->markers == JPEG_MARKERS_SAVE) {
        for (int i = 0; i < 16; i++)
            jpeg_save_markers(codec, JPEG_APP0 + i, MARKER_BYTES_MAX);
        jpeg_save_markers(codec, JPEG_COM, MARKER_BYTES_MAX);
    } else {
        jpeg_set_marker_processor(codec, APP1, read_app1);
    }
}

static void read_headers(void *context)
{
    struct jpeg_reader *reader = context;
    j_decompress_ptr codec = &reader->codec;
    if (!reader->is_codec_created)
        create_codec(reader);
    codec->mem->max_memory_to_use = (long)(reader->pixels_max * PIXEL_BYTES_MAX + OTHER_BYTES_MAX);
    jpeg_read_header(codec, TRUE);
}

static void read_abbreviated(void *context)
{
    struct jpeg_reader *reader = context;
    jpeg_abort_decompress(&reader->codec);
    jpeg_read_header(&reader->codec, TRUE);
}

static int color_of(const struct jpeg_reader *reader, enum jpeg_color *ret_color)
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
        if (known[i].space == reader->codec.jpeg_color_space &&
            known[i].components == reader->codec.num_components) {
            *ret_color = known[i].color;
            return 0;
        }
    }
    return -EBADMSG;
}

/* libjpeg-turbo 3 reads the headers of lossless files. */
static bool is_lossless(const struct jpeg_decompress_struct *codec)
{
#if JPEG_LIB_VERSION >= 70
    return codec->min_DCT_h_scaled_size != DCTSIZE;
#else
    return codec->min_DCT_scaled_size != DCTSIZE;
#endif
}

static int check_headers(struct jpeg_reader *reader, struct jpeg_info *info, struct err *err)
{
    const struct jpeg_decompress_struct *codec = &reader->codec;
    int status =
        pixels_check_size("JPEG", reader->path, codec->image_width, codec->image_height, err);
    if (status) {
        err_at(err, reader->path, offset_of(reader));
        return status;
    }
    bool lossless = is_lossless(codec);
    if (lossless || codec->data_precision != BITS_IN_JSAMPLE || color_of(reader, &info->color)) {
        err_set(err, -EBADMSG, "JPEG format is not supported");
        err_at(err, reader->path, offset_of(reader));
        err_expected(err, "8 bits of grayscale, YCbCr, RGB, CMYK or YCCK");
        err_found(err, "%d components of %d bits%s", codec->num_components, codec->data_precision,
                  lossless ? ", lossless" : "");
        return advise_replacement(err);
    }
    info->width = codec->image_width;
    info->height = codec->image_height;
    info->components = (uint32_t)codec->num_components;
    for (uint32_t i = 0; i < info->components; i++) {
        info->h_samp[i] = (uint32_t)codec->comp_info[i].h_samp_factor;
        info->v_samp[i] = (uint32_t)codec->comp_info[i].v_samp_factor;
    }
    info->orientation = reader->orientation;
    info->restart_interval = codec->restart_interval;
    info->progressive = codec->progressive_mode;
    info->arithmetic = codec->arith_code;
    return 0;
}

int jpeg_reader_begin(struct jpeg_reader *reader, const void *data, size_t bytes, const char *path,
                      struct jpeg_info *ret_info, struct err *err)
{
    struct jpeg_info info = {0};
    jpeg_reader_end(reader);
    reader->data = data;
    reader->bytes = bytes;
    reader->path = path;
    reader->warnings = 0;
    reader->orientation = 1;
    show_window(reader, data);
    int status = jpeg_reader_guard(reader, read_headers, reader, err);
    if (!status)
        status = check_headers(reader, &info, err);
    if (status)
        jpeg_reader_end(reader);
    else
        *ret_info = info;
    return status;
}

int jpeg_reader_begin_abbreviated(struct jpeg_reader *reader, const void *data, size_t bytes,
                                  struct err *err)
{
    reader->data = data;
    reader->bytes = bytes;
    show_window(reader, data);
    return jpeg_reader_guard(reader, read_abbreviated, reader, err);
}

void jpeg_reader_end(struct jpeg_reader *reader)
{
    reader->data = NULL;
    if (reader->is_codec_created)
        jpeg_memory_reset(&reader->memory, &reader->codec);
    else
        jpeg_destroy_decompress(&reader->codec); /* memory ran out during creation */
}

void jpeg_reader_init(struct jpeg_reader *reader, enum jpeg_markers markers)
{
    *reader = (struct jpeg_reader){.markers = markers};
    reader->codec.err = jpeg_std_error(&reader->errors);
    reader->codec.client_data = reader;
    reader->pixels_max = PIXELS_MAX;
    reader->errors.error_exit = on_error;
    reader->errors.emit_message = on_message;
    reader->errors.output_message = on_output;
    reader->source.init_source = source_start;
    reader->source.fill_input_buffer = source_fill;
    reader->source.skip_input_data = source_skip;
    reader->source.resync_to_restart = jpeg_resync_to_restart;
    reader->source.term_source = source_start;
    reader->progress.progress_monitor = on_progress;
}

void jpeg_reader_deinit(struct jpeg_reader *reader)
{
    jpeg_destroy_decompress(&reader->codec);
    jpeg_memory_deinit(&reader->memory);
}

/*
 * jpeg_headers — see jpeg_headers.h.
 *
 *     FF D8   then segments: FF marker, u16 length (big-endian, itself included), payload;
 *             up to FF DA, the first scan
 */
#include "image/jpeg/jpeg_headers.h"

#include "image/formats/exif.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    MARKER_TEM = 0x01,
    MARKER_SOF0 = 0xc0,
    MARKER_DHT = 0xc4,
    MARKER_JPG = 0xc8,
    MARKER_DAC = 0xcc,
    MARKER_SOF15 = 0xcf,
    MARKER_RST0 = 0xd0,
    MARKER_SOI = 0xd8,
    MARKER_EOI = 0xd9,
    MARKER_SOS = 0xda,
    MARKER_DRI = 0xdd,
    MARKER_APP0 = 0xe0,
    MARKER_APP1 = 0xe1,
    MARKER_APP2 = 0xe2,
    MARKER_APP14 = 0xee,
    FRAME_BYTES = 6, /* frame header without its components of 3 bytes each */
    ICC_PREFIX_BYTES = 14,
};

struct walk {
    const uint8_t *data;
    size_t bytes, at;
    uint64_t file_bytes;
    const char *path;
    struct jpeg_headers headers;
    bool has_frame;
    bool icc_seen[256]; /* by chunk number */
    struct err *err;
};

/* offset: of the marker in the file. */
struct segment {
    uint8_t marker;
    const uint8_t *data;
    size_t bytes;
    size_t offset;
};

static int bad_headers(struct walk *walk, size_t offset, const char *expected, const char *found)
{
    err_set(walk->err, -EBADMSG, "headers of a JPEG are invalid");
    err_at(walk->err, walk->path, (int64_t)offset);
    err_expected(walk->err, "%s", expected);
    err_found(walk->err, "%s", found);
    err_advise(walk->err, "replace the file or leave it out");
    return -EBADMSG;
}

static int data_ended(struct walk *walk)
{
    if (walk->bytes < walk->file_bytes)
        return -ENODATA;
    return bad_headers(walk, walk->bytes, "headers and a scan", "the end of the file");
}

static uint32_t get_u16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

/* Finds the next marker. Skips bytes outside segments, as libjpeg does. */
static int next_marker(struct walk *walk, uint8_t *ret_marker, size_t *ret_offset)
{
    for (;;) {
        size_t from = walk->at;
        while (walk->at < walk->bytes && walk->data[walk->at] != 0xff)
            walk->at++;
        walk->headers.stray_bytes += walk->at - from;
        while (walk->at < walk->bytes && walk->data[walk->at] == 0xff)
            walk->at++; /* fill bytes */
        if (walk->at == walk->bytes)
            return data_ended(walk);
        uint8_t marker = walk->data[walk->at++];
        if (marker != 0) {
            *ret_marker = marker;
            *ret_offset = walk->at - 2;
            return 0;
        }
        walk->headers.stray_bytes += 2;
    }
}

static bool is_frame(uint8_t marker)
{
    return marker >= MARKER_SOF0 && marker <= MARKER_SOF15 && marker != MARKER_DHT &&
           marker != MARKER_JPG && marker != MARKER_DAC;
}

static int parse_frame(struct walk *walk, const struct segment *segment)
{
    struct jpeg_headers *headers = &walk->headers;
    const uint8_t *at = segment->data;
    if (walk->has_frame)
        return bad_headers(walk, segment->offset, "one frame", "a second frame");
    if (segment->bytes < FRAME_BYTES || segment->bytes != FRAME_BYTES + 3 * (size_t)at[5])
        return bad_headers(walk, segment->offset, "a frame header", "a wrong length");
    headers->precision_bits = at[0];
    headers->height = get_u16(at + 1);
    headers->width = get_u16(at + 3);
    headers->components = at[5];
    if (headers->height == 0 || headers->width == 0)
        return bad_headers(walk, segment->offset, "a width and a height", "none");
    if (headers->components == 0 || headers->components > JPEG_COMPONENTS_MAX)
        return bad_headers(walk, segment->offset, "1 to 4 components", "a different number");
    for (uint32_t i = 0; i < headers->components; i++) {
        uint8_t factors = at[FRAME_BYTES + 3 * i + 1];
        headers->h_samp[i] = factors >> 4;
        headers->v_samp[i] = factors & 15;
        if (headers->h_samp[i] - 1 > 3 || headers->v_samp[i] - 1 > 3)
            return bad_headers(walk, segment->offset, "sampling factors from 1 to 4", "others");
    }
    /* SOF0..15: two bits of process, one of hierarchy, one of entropy coding */
    uint8_t kind = segment->marker - MARKER_SOF0;
    headers->process = (enum jpeg_process)(kind & 3);
    headers->hierarchical = kind & 4;
    headers->arithmetic = kind & 8;
    headers->frame_offset = segment->offset;
    walk->has_frame = true;
    return 0;
}

static bool segment_begins_with(const struct segment *segment, const char *prefix,
                                size_t prefix_bytes, size_t least_bytes)
{
    return segment->bytes >= least_bytes && memcmp(segment->data, prefix, prefix_bytes) == 0;
}

/* Repeated chunks are ignored. */
static void parse_icc(struct walk *walk, const struct segment *segment)
{
    struct jpeg_headers *headers = &walk->headers;
    bool *seen = &walk->icc_seen[segment->data[12]];
    if (*seen)
        return;
    *seen = true;
    if (headers->icc_chunks++ == 0)
        headers->icc_chunks_expected = segment->data[13];
    headers->icc_bytes += segment->bytes - ICC_PREFIX_BYTES;
}

/* Ignores application segments of other forms, which belong to other programs. */
static void parse_application(struct walk *walk, const struct segment *segment)
{
    struct jpeg_headers *headers = &walk->headers;
    if (segment->marker == MARKER_APP0 && segment_begins_with(segment, "JFIF", 5, 14)) {
        headers->has_jfif = true;
        headers->jfif_major = segment->data[5];
        headers->jfif_minor = segment->data[6];
    } else if (segment->marker == MARKER_APP1 && segment_begins_with(segment, "Exif\0", 6, 6)) {
        headers->has_exif = true;
        if (headers->orientation == 1)
            headers->orientation = exif_orientation(segment->data, segment->bytes);
    } else if (segment->marker == MARKER_APP2 &&
               segment_begins_with(segment, "ICC_PROFILE", 12, ICC_PREFIX_BYTES)) {
        parse_icc(walk, segment);
    } else if (segment->marker == MARKER_APP14 && segment_begins_with(segment, "Adobe", 5, 12)) {
        headers->has_adobe = true;
        headers->adobe_transform = segment->data[11];
    }
}

static int parse_segment(struct walk *walk, const struct segment *segment)
{
    if (is_frame(segment->marker))
        return parse_frame(walk, segment);
    if (segment->marker == MARKER_DRI) {
        if (segment->bytes != 2)
            return bad_headers(walk, segment->offset, "a restart interval", "a wrong length");
        walk->headers.restart_interval = get_u16(segment->data);
    } else {
        parse_application(walk, segment);
    }
    return 0;
}

/* Finds the next marker's segment, empty if the marker has none. */
static int next_segment(struct walk *walk, struct segment *ret_segment)
{
    struct segment segment = {0};
    int status;
    do {
        status = next_marker(walk, &segment.marker, &segment.offset);
    } while (!status && (segment.marker == MARKER_TEM ||
                         (segment.marker >= MARKER_RST0 && segment.marker < MARKER_SOI)));
    if (status)
        return status;
    if (segment.marker == MARKER_SOI || segment.marker == MARKER_EOI)
        return bad_headers(walk, segment.offset, "headers and a scan",
                           segment.marker == MARKER_SOI ? "the start of another image"
                                                        : "the end of the image");
    if (walk->bytes - walk->at < 2)
        return data_ended(walk);
    size_t length = get_u16(walk->data + walk->at);
    if (length < 2)
        return bad_headers(walk, walk->at, "a length of at least 2", "a smaller length");
    if (walk->bytes - walk->at < length)
        return data_ended(walk);
    segment.data = walk->data + walk->at + 2;
    segment.bytes = length - 2;
    walk->at += length;
    *ret_segment = segment;
    return 0;
}

int jpeg_read_headers(const void *data, size_t bytes, uint64_t file_bytes, const char *path,
                      struct jpeg_headers *ret_headers, struct err *err)
{
    struct walk walk = {.data = data,
                        .bytes = bytes,
                        .file_bytes = file_bytes,
                        .path = path,
                        .headers = {.orientation = 1},
                        .err = err};
    struct segment segment = {0};
    if (bytes < 2)
        return data_ended(&walk);
    if (walk.data[0] != 0xff || walk.data[1] != MARKER_SOI)
        return bad_headers(&walk, 0, "FF D8", "not a JPEG");
    walk.at = 2;
    int status = 0;
    do {
        status = next_segment(&walk, &segment);
        if (!status && segment.marker != MARKER_SOS)
            status = parse_segment(&walk, &segment);
    } while (!status && segment.marker != MARKER_SOS);
    if (!status && !walk.has_frame)
        status = bad_headers(&walk, segment.offset, "a frame header before the first scan", "none");
    if (status)
        return status;
    walk.headers.scan_offset = segment.offset;
    walk.headers.scan_components = segment.bytes > 0 ? segment.data[0] : 0;
    walk.headers.header_bytes = walk.at;
    *ret_headers = walk.headers;
    return 0;
}

const char *jpeg_process_name(enum jpeg_process process)
{
    static const char *const names[JPEG_PROCESS_COUNT] = {"baseline", "extended", "progressive",
                                                          "lossless"};
    return names[process];
}

const char *jpeg_subsampling_name(const struct jpeg_headers *headers)
{
    static const struct {
        uint32_t x, y; /* pixels per chroma sample */
        const char *name;
    } known[] = {{1, 1, "4:4:4"}, {2, 1, "4:2:2"}, {2, 2, "4:2:0"},
                 {1, 2, "4:4:0"}, {4, 1, "4:1:1"}, {4, 2, "4:1:0"}};
    const uint32_t *h = headers->h_samp, *v = headers->v_samp;
    if (headers->components != 3 || h[1] != h[2] || v[1] != v[2])
        return NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (h[0] == known[i].x * h[1] && v[0] == known[i].y * v[1])
            return known[i].name;
    return NULL;
}

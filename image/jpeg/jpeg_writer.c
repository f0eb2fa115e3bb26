/*
 * jpeg_writer — see jpeg_writer.h.
 */
#include "image/jpeg/jpeg_writer.h"

#include <errno.h>

#include <jerror.h>

static void start_buffer(j_compress_ptr codec)
{
    struct jpeg_writer *writer = codec->client_data;
    codec->dest->next_output_byte = writer->buffer;
    codec->dest->free_in_buffer = JPEG_WRITER_BUFFER_BYTES;
}

static void add_buffer(j_compress_ptr codec, size_t bytes)
{
    struct jpeg_writer *writer = codec->client_data;
    str_add(writer->out, writer->buffer, bytes);
    if (str_status(writer->out))
        ERREXIT1(codec, JERR_OUT_OF_MEMORY, 0);
}

static boolean finish_buffer(j_compress_ptr codec)
{
    add_buffer(codec, JPEG_WRITER_BUFFER_BYTES);
    start_buffer(codec);
    return TRUE;
}

static void finish_last_buffer(j_compress_ptr codec)
{
    add_buffer(codec, JPEG_WRITER_BUFFER_BYTES - codec->dest->free_in_buffer);
}

static void on_error(j_common_ptr codec)
{
    struct jpeg_writer *writer = codec->client_data;
    longjmp(writer->jump, 1);
}

static void on_output(j_common_ptr codec)
{
    (void)codec;
}

static int report_failure(struct jpeg_writer *writer, struct err *err)
{
    char message[JMSG_LENGTH_MAX];
    if (writer->out->data) {
        writer->out->bytes = writer->bytes_before;
        writer->out->data[writer->bytes_before] = '\0';
    }
    if (writer->errors.msg_code == JERR_OUT_OF_MEMORY)
        return err_set(err, -ENOMEM, "not enough memory to encode a JPEG");
    writer->errors.format_message((j_common_ptr)&writer->codec, message);
    return err_set(err, -EINVAL, "JPEG cannot be encoded: %s", message);
}

int jpeg_writer_guard(struct jpeg_writer *writer, void (*step)(void *context), void *context,
                      struct err *err)
{
    if (setjmp(writer->jump))
        return report_failure(writer, err);
    step(context);
    return 0;
}

static void create(void *context)
{
    struct jpeg_writer *writer = context;
    jpeg_create_compress(&writer->codec);
    writer->codec.dest = &writer->destination;
}

int jpeg_writer_init(struct jpeg_writer *writer, struct str *out, struct err *err)
{
    *writer = (struct jpeg_writer){
        .out = out,
        .bytes_before = out->bytes,
        .destination = {.init_destination = start_buffer,
                        .empty_output_buffer = finish_buffer,
                        .term_destination = finish_last_buffer},
    };
    writer->codec.err = jpeg_std_error(&writer->errors);
    writer->codec.client_data = writer;
    writer->errors.error_exit = on_error;
    writer->errors.output_message = on_output;
    return jpeg_writer_guard(writer, create, writer, err);
}

void jpeg_writer_deinit(struct jpeg_writer *writer)
{
    jpeg_destroy_compress(&writer->codec);
}

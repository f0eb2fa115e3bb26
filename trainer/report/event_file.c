/*
 * event_file — see event_file.h.
 */
#include "trainer/report/event_file.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc.h"
#include "io/file_util.h"
#include "io/local/append_log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_PREFIX "events.out.tfevents."

enum { HEADER_BYTES = 12, FOOTER_BYTES = 4 };

struct event_file {
    struct append_log *file;
    uint8_t record[HEADER_BYTES + EVENT_BYTES_MAX + FOOTER_BYTES];
};

static int track_largest_number(void *context, const struct io_entry *entry)
{
    uint64_t *largest = context, number;
    if (sscanf(entry->name, NAME_PREFIX "%" SCNu64, &number) == 1 && number < INT64_MAX)
        *largest = bytes_max(*largest, number);
    return 0;
}

static int choose_path(struct io *io, const char *folder, char *path, struct err *err)
{
    char name[IO_NAME_BYTES_MAX], host[65] = "";
    uint64_t largest = 0;
    int status = io->names->list(io, folder, track_largest_number, &largest, err);
    if (status)
        return status;
    uint64_t number = bytes_max(clock_wall_ns() / CLOCK_NS_PER_S, largest + 1);
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, NAME_PREFIX "%010" PRIu64 ".%s", number, host);
    return io_join_path(folder, name, path, err);
}

int event_file_open(struct io *io, const char *folder, struct event_file **ret_file,
                    struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    int status = io->names->make_folder(io, folder, err);
    if (!status)
        status = choose_path(io, folder, path, err);
    if (status)
        return status;
    struct event_file *file = calloc(1, sizeof *file);
    if (!file)
        return err_set(err, -ENOMEM, "out of memory for a file of events");
    status = append_log_create(path, &file->file, err);
    if (status)
        free(file);
    else
        *ret_file = file;
    return status;
}

void event_file_close(struct event_file *file)
{
    if (!file)
        return;
    append_log_close(file->file);
    free(file);
}

void *event_file_buffer(struct event_file *file)
{
    return file->record + HEADER_BYTES;
}

static uint32_t masked_crc(const void *data, size_t bytes)
{
    uint32_t crc = crc32c(0, data, bytes);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

int event_file_append(struct event_file *file, size_t bytes, struct err *err)
{
    assert(bytes <= EVENT_BYTES_MAX);
    uint8_t *record = file->record, *data = record + HEADER_BYTES;
    bytes_put_u64(record, bytes);
    bytes_put_u32(record + 8, masked_crc(record, 8));
    bytes_put_u32(data + bytes, masked_crc(data, bytes));
    return append_log_add(file->file, record, HEADER_BYTES + bytes + FOOTER_BYTES, err);
}

/*
 * tar_scan — see tar.h. Where GNU tar, bsdtar and Python's tarfile disagree, it follows the
 * strictest.
 *
 * One call reads a member with the extended headers before it:
 *     'x' 'X'   records with path and size of the next member
 *     'g'       records for all following members
 *     'L' 'K'   GNU long name and long link target
 *     'S'       old GNU sparse file, with maps in further blocks
 */
#include "base/bytes.h"
#include "shards/format/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    NAME_BYTES = 100,
    PREFIX_AT = 345,
    PREFIX_BYTES = 155,
    SIZE_AT = 124,
    CHECKSUM_AT = 148,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    SPARSE_EXTENDED_AT = 482, /* in the header of an 'S' member */
    SPARSE_MORE_AT = 504,     /* in each further block of the map */
    /* Limit per extended header. Names and attributes are far shorter. */
    EXTENDED_BYTES_MAX = 1 << 20,
    EXTENDED_COUNT_MAX = 64, /* before one member */
};

/* Settings from extended headers, for the next member. */
struct pending_header {
    struct str *name;
    bool has_name, has_size, is_sparse, has_pax;
    uint64_t size_bytes;
};

static int bad_header(const struct tar_scanner *scanner, uint64_t offset, struct err *err,
                      const char *what)
{
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, scanner->path, (int64_t)offset);
    return -EBADMSG;
}

static int read_block(struct tar_scanner *scanner, uint64_t offset, uint8_t block[TAR_BLOCK_BYTES],
                      struct err *err)
{
    if (scanner->file_bytes - offset < TAR_BLOCK_BYTES) {
        bad_header(scanner, offset, err, "tar archive ends within a header");
        err_expected(err, "%d bytes", TAR_BLOCK_BYTES);
        err_found(err, "%" PRIu64, scanner->file_bytes - offset);
        return -EBADMSG;
    }
    int status = scanner->read(scanner->context, offset, block, TAR_BLOCK_BYTES);
    if (status) {
        err_errno(err, status, "could not read a tar header");
        err_at(err, scanner->path, (int64_t)offset);
    }
    return status;
}

/* Parses octal digits with leading spaces, ended by space or NUL, or GNU base 256 if the first
 * bit is set. */
static int parse_number(const uint8_t *field, size_t bytes, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (field[0] & 0x80) {
        if (field[0] & 0x40)
            return -EBADMSG; /* negative */
        value = field[0] & 0x3f;
        for (size_t i = 1; i < bytes; i++) {
            if (value >> 55)
                return -EBADMSG;
            value = value << 8 | field[i];
        }
        *ret_value = value;
        return 0;
    }
    size_t at = 0;
    while (at < bytes && field[at] == ' ')
        at++;
    for (; at < bytes && field[at] >= '0' && field[at] <= '7'; at++)
        value = value << 3 | (uint64_t)(field[at] - '0'); /* at most 12 digits, 36 bits */
    for (; at < bytes && field[at] != '\0'; at++)         /* bytes after a NUL are ignored */
        if (field[at] != ' ')
            return -EBADMSG;
    *ret_value = value;
    return 0;
}

/* Also accepts sums of signed characters, which old tars used. */
static bool checksum_matches(const uint8_t *block, uint64_t wanted)
{
    uint32_t unsigned_sum = 0;
    int32_t signed_sum = 0;
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++) {
        uint8_t byte = i >= CHECKSUM_AT && i < CHECKSUM_AT + 8 ? ' ' : block[i];
        unsigned_sum += byte;
        signed_sum += (int8_t)byte;
    }
    return wanted == unsigned_sum || (signed_sum >= 0 && wanted == (uint32_t)signed_sum);
}

static bool is_zero(const uint8_t *block)
{
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++)
        if (block[i])
            return false;
    return true;
}

/* Checks that size_bytes at offset lie within the file. Some tools omit the last member's
 * padding, so it may be missing. */
static int check_data_range(const struct tar_scanner *scanner, uint64_t offset, uint64_t size_bytes,
                            uint64_t *ret_next, struct err *err)
{
    if (offset > scanner->file_bytes || size_bytes > scanner->file_bytes - offset) {
        bad_header(scanner, offset, err,
                   "tar archive is truncated: a member's data extends past its end");
        err_expected(err, "%" PRIu64 " bytes", size_bytes);
        err_found(err, "%" PRIu64, offset > scanner->file_bytes ? 0 : scanner->file_bytes - offset);
        err_advise(err, "copy or download the file again");
        return -EBADMSG;
    }
    *ret_next =
        bytes_min(bytes_round_up(offset + size_bytes, TAR_BLOCK_BYTES), scanner->file_bytes);
    return 0;
}

static bool key_equals(const char *key, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(key, wanted, bytes) == 0;
}

static int parse_pax_size(const char *value, size_t bytes, struct pending_header *pending)
{
    uint64_t size = 0;
    if (bytes == 0)
        return 0;
    for (size_t i = 0; i < bytes; i++) {
        if (value[i] < '0' || value[i] > '9' || size > (UINT64_C(1) << 62) / 10)
            return -EBADMSG;
        size = size * 10 + (uint64_t)(value[i] - '0');
    }
    pending->has_size = true;
    pending->size_bytes = size;
    return 0;
}

static void set_pending_name(struct pending_header *pending, const char *name, size_t bytes)
{
    str_clear(pending->name);
    str_add(pending->name, name, strnlen(name, bytes));
    pending->has_name = true;
}

static int apply_pax_record(const char *record, size_t bytes, struct pending_header *pending)
{
    const char *equals = memchr(record, '=', bytes);
    if (!equals || equals == record || memchr(record, 0, (size_t)(equals - record)))
        return -EBADMSG;
    size_t key_bytes = (size_t)(equals - record), value_bytes = bytes - key_bytes - 1;
    if (key_equals(record, key_bytes, "GNU.sparse.name") ||
        (key_equals(record, key_bytes, "path") && !pending->is_sparse))
        /* The path of a sparse file is artificial; GNU.sparse.name has the real one. */
        set_pending_name(pending, equals + 1, value_bytes);
    if (key_bytes > 11 && memcmp(record, "GNU.sparse.", 11) == 0)
        pending->is_sparse = true;
    if (key_equals(record, key_bytes, "size"))
        return parse_pax_size(equals + 1, value_bytes, pending);
    return 0;
}

/* Parses records "LENGTH KEY=VALUE\n"; LENGTH counts the whole record. */
static int parse_pax(const struct tar_scanner *scanner, const struct str *text, uint64_t offset,
                     struct pending_header *pending, struct err *err)
{
    size_t at = 0;
    while (at < text->bytes) {
        if (text->data[at] == '\0')
            return 0; /* some tools pad with zeros */
        size_t length = 0, start = at;
        while (at < text->bytes && text->data[at] >= '0' && text->data[at] <= '9' &&
               length <= EXTENDED_BYTES_MAX)
            length = length * 10 + (size_t)(text->data[at++] - '0');
        bool fits = at > start && at < text->bytes && text->data[at] == ' ' &&
                    length <= text->bytes - start && length > at - start + 1 &&
                    text->data[start + length - 1] == '\n';
        if (!fits || apply_pax_record(text->data + at + 1, length - (at - start) - 2, pending)) {
            bad_header(scanner, offset + start, err, "bad record in a PAX header of a tar");
            err_expected(err, "LENGTH KEY=VALUE and a newline");
            return -EBADMSG;
        }
        at = start + length;
    }
    return 0;
}

static int read_extended(struct tar_scanner *scanner, char type, uint64_t offset,
                         uint64_t size_bytes, struct pending_header *pending, struct err *err)
{
    if (size_bytes > EXTENDED_BYTES_MAX) {
        bad_header(scanner, offset, err, "extended header of a tar is too long");
        err_expected(err, "at most %d bytes", EXTENDED_BYTES_MAX);
        err_found(err, "%" PRIu64, size_bytes);
        return -EBADMSG;
    }
    struct str text = {0};
    int status = str_reserve(&text, size_bytes);
    if (status) {
        err_set(err, status, "out of memory for an extended header of a tar");
        goto out;
    }
    status = size_bytes ? scanner->read(scanner->context, offset, text.data, size_bytes) : 0;
    if (status) {
        err_errno(err, status, "could not read an extended header of a tar");
        err_at(err, scanner->path, (int64_t)offset);
        goto out;
    }
    text.bytes = size_bytes;
    if (type == 'L')
        set_pending_name(pending, text.data, size_bytes);
    else
        status = parse_pax(scanner, &text, offset, pending, err);
    if (!status && str_status(pending->name))
        status = err_set(err, -ENOMEM, "out of memory for a tar member's name");
out:
    str_deinit(&text);
    return status;
}

static void add_ustar_name(struct str *name, const uint8_t *block)
{
    /* GNU's magic has a space instead of the NUL. */
    bool is_posix = memcmp(block + MAGIC_AT, "ustar", 6) == 0;
    size_t prefix_bytes = is_posix ? strnlen((const char *)block + PREFIX_AT, PREFIX_BYTES) : 0;
    if (prefix_bytes > 0) {
        str_add(name, block + PREFIX_AT, prefix_bytes);
        str_add(name, "/", 1);
    }
    str_add(name, block, strnlen((const char *)block, NAME_BYTES));
}

static int set_name(struct tar_scanner *scanner, const uint8_t *block,
                    const struct pending_header *pending, uint64_t offset, struct err *err)
{
    str_clear(&scanner->name);
    if (pending->has_name)
        str_add_text(&scanner->name, str_text(pending->name));
    else if (scanner->global_name.bytes > 0)
        str_add_text(&scanner->name, str_text(&scanner->global_name));
    else
        add_ustar_name(&scanner->name, block);
    str_add(&scanner->name, "", 0); /* allocates the string even if the name is empty */
    if (str_status(&scanner->name))
        return err_set(err, -ENOMEM, "out of memory for a tar member's name");
    if (scanner->name.bytes > TAR_NAME_BYTES_MAX) {
        bad_header(scanner, offset, err, "name of a tar member is too long");
        err_expected(err, "at most %d bytes", TAR_NAME_BYTES_MAX);
        err_found(err, "%zu", scanner->name.bytes);
        return -EBADMSG;
    }
    return 0;
}

/* Further map blocks of old GNU sparse files follow the header. */
static int skip_sparse_map(struct tar_scanner *scanner, const uint8_t *header, uint64_t *offset,
                           struct err *err)
{
    bool more = header[SPARSE_EXTENDED_AT] != 0;
    uint8_t block[TAR_BLOCK_BYTES];
    while (more) {
        int status = read_block(scanner, *offset, block, err);
        if (status)
            return status;
        *offset += TAR_BLOCK_BYTES;
        more = block[SPARSE_MORE_AT] != 0;
    }
    return 0;
}

static enum tar_kind member_kind(char type, const struct str *name,
                                 const struct pending_header *pending)
{
    if (type == '5' || type == 'D')
        return TAR_FOLDER;
    if (type == '\0' && name->bytes > 0 && name->data[name->bytes - 1] == '/')
        return TAR_FOLDER; /* version 7 style */
    if (type == '0' || type == '\0' || type == '7')
        return pending->is_sparse ? TAR_SPARSE : TAR_FILE;
    return type == 'S' ? TAR_SPARSE : TAR_OTHER;
}

/* The size field of links, devices, FIFOs and folders is ignored. */
static bool has_data(char type)
{
    return !(type >= '1' && type <= '6');
}

/* Whether readers disagree about skipping this much data, and so about all later members. They
 * agree about hard links and folders. */
static bool size_is_ambiguous(char type, const struct str *name, uint64_t size_bytes)
{
    bool is_old_folder = type == '\0' && name->data[name->bytes - 1] == '/';
    return size_bytes > 0 && ((!has_data(type) && type != '1' && type != '5') || is_old_folder);
}

static int fill_member(struct tar_scanner *scanner, const uint8_t *block,
                       const struct pending_header *pending, uint64_t size_bytes,
                       struct tar_member *member, struct err *err)
{
    char type = (char)block[TYPE_AT];
    uint64_t header_at = scanner->offset;
    int status = set_name(scanner, block, pending, header_at, err);
    if (status)
        return status;
    if (pending->has_size)
        size_bytes = pending->size_bytes;
    if (scanner->name.bytes == 0)
        return bad_header(scanner, header_at, err, "tar member has no name");
    if (size_is_ambiguous(type, &scanner->name, size_bytes)) {
        bad_header(
            scanner, header_at, err,
            "tar member of a type without data has a size, so the position of the next member is "
            "unknown");
        err_expected(err, "0");
        err_found(err, "%" PRIu64, size_bytes);
        return -EBADMSG;
    }
    if (!has_data(type))
        size_bytes = 0;
    uint64_t data_offset = header_at + TAR_BLOCK_BYTES;
    enum tar_kind kind = member_kind(type, &scanner->name, pending);
    if (type == 'S')
        status = skip_sparse_map(scanner, block, &data_offset, err);
    if (status)
        return status;
    status = check_data_range(scanner, data_offset, size_bytes, &scanner->offset, err);
    scanner->is_truncated = status && kind == TAR_FILE;
    if (status)
        return status;
    member->kind = kind;
    member->name = scanner->name.data;
    member->data_offset = data_offset;
    member->size_bytes = size_bytes;
    return 0;
}

static int parse_header(const struct tar_scanner *scanner, const uint8_t *block,
                        uint64_t *ret_size_bytes, struct err *err)
{
    uint64_t checksum;
    if (parse_number(block + CHECKSUM_AT, 8, &checksum) || !checksum_matches(block, checksum))
        return bad_header(scanner, scanner->offset, err,
                          "not a tar header: its checksum does not match");
    if (parse_number(block + SIZE_AT, 12, ret_size_bytes)) {
        bad_header(scanner, scanner->offset + SIZE_AT, err, "bad size in a tar header");
        err_expected(err, "an octal number, or base 256 from 0 to 2^63");
        return -EBADMSG;
    }
    return 0;
}

static int end_of_archive(const struct tar_scanner *scanner, struct tar_member *ret_member)
{
    *ret_member = (struct tar_member){.kind = TAR_END,
                                      .name = "",
                                      .header_offset = scanner->offset,
                                      .data_offset = scanner->offset};
    return 0;
}

int tar_scan(struct tar_scanner *scanner, struct tar_member *ret_member, struct err *err)
{
    struct pending_header pending = {.name = &scanner->pending_name},
                          global = {.name = &scanner->global_name};
    struct tar_member member = {.header_offset = scanner->offset};
    scanner->is_truncated = false;
    for (unsigned extended = 0; extended <= EXTENDED_COUNT_MAX; extended++) {
        uint8_t block[TAR_BLOCK_BYTES];
        uint64_t size_bytes = 0;
        if (scanner->offset == scanner->file_bytes && extended == 0)
            return end_of_archive(scanner, ret_member);
        int status = read_block(scanner, scanner->offset, block, err);
        if (status)
            return status;
        if (is_zero(block)) {
            if (extended == 0)
                return end_of_archive(scanner, ret_member);
            return bad_header(scanner, scanner->offset, err,
                              "tar archive ends after an extended header without its member");
        }
        status = parse_header(scanner, block, &size_bytes, err);
        if (status)
            return status;
        char type = (char)block[TYPE_AT];
        if (!(type == 'x' || type == 'X' || type == 'g' || type == 'L' || type == 'K')) {
            status = fill_member(scanner, block, &pending, size_bytes, &member, err);
            if (!status)
                *ret_member = member;
            return status;
        }
        if (type == 'x' || type == 'X') {
            if (pending.has_pax)
                return bad_header(scanner, scanner->offset, err,
                                  "two PAX headers before one tar member");
            pending.has_pax = true;
        }
        uint64_t next;
        status =
            check_data_range(scanner, scanner->offset + TAR_BLOCK_BYTES, size_bytes, &next, err);
        if (!status && type != 'K')
            status = read_extended(scanner, type, scanner->offset + TAR_BLOCK_BYTES, size_bytes,
                                   type == 'g' ? &global : &pending, err);
        if (status)
            return status;
        scanner->offset = next;
    }
    return bad_header(scanner, scanner->offset, err,
                      "too many extended headers before one tar member");
}

void tar_scanner_deinit(struct tar_scanner *scanner)
{
    str_deinit(&scanner->name);
    str_deinit(&scanner->pending_name);
    str_deinit(&scanner->global_name);
}

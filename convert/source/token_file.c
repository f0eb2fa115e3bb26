/*
 * token_file — see token_file.h.
 */
#include "convert/source/token_file.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>

enum { MAGIC_GPT2 = 20240520, MAGIC_EVALUATION = 20240522, MAGIC_LLAMA3 = 20240801 };

static const struct {
    uint32_t magic, version;
    struct token_kind kind;
} formats[] = {
    {MAGIC_GPT2, 1, {"gpt2", 50257, 50256, 2}},
    {MAGIC_LLAMA3, 7, {"llama3", 128256, 128000, 4}},
};

bool token_file_detect(const void *head, size_t bytes)
{
    uint32_t magic = bytes >= 4 ? bytes_get_u32(head) : 0;
    return magic == MAGIC_GPT2 || magic == MAGIC_EVALUATION || magic == MAGIC_LLAMA3;
}

static int check_version(const uint8_t *header, uint32_t version, const char *path, struct err *err)
{
    uint32_t found = bytes_get_u32(header + 4);
    if (found == version)
        return 0;
    err_set(err, -ENOTSUP, "the version of the token file is not supported");
    err_at(err, path, 4);
    err_expected(err, "%" PRIu32, version);
    err_found(err, "%" PRIu32, found);
    return -ENOTSUP;
}

static int check_size(const uint8_t *header, size_t token_bytes, uint64_t file_bytes,
                      const char *path, struct err *err)
{
    uint64_t expected = TOKEN_FILE_HEADER_BYTES + (uint64_t)bytes_get_u32(header + 8) * token_bytes;
    if (file_bytes == expected)
        return 0;
    err_set(err, -EBADMSG, "the token file has another size than its header says");
    err_at(err, path, 8);
    err_expected(err, "%" PRIu64 " bytes", expected);
    err_found(err, "%" PRIu64, file_bytes);
    err_advise(err, "copy or write the file again");
    return -EBADMSG;
}

int token_file_parse(const void *head, size_t bytes, uint64_t file_bytes, const char *path,
                     const struct token_kind **ret_kind, struct err *err)
{
    const uint8_t *header = head;
    if (bytes < TOKEN_FILE_HEADER_BYTES) {
        err_set(err, -EBADMSG, "the token file is shorter than its header");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "%d bytes", TOKEN_FILE_HEADER_BYTES);
        err_found(err, "%zu", bytes);
        return -EBADMSG;
    }
    uint32_t magic = bytes_get_u32(header);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct token_kind *kind = &formats[i].kind;
        if (formats[i].magic != magic)
            continue;
        int status = check_version(header, formats[i].version, path, err);
        if (!status)
            status = check_size(header, kind->token_bytes, file_bytes, path, err);
        if (!status)
            *ret_kind = kind;
        return status;
    }
    err_set(err, -ENOTSUP, "the token file is not supported");
    err_at(err, path, 0);
    err_expected(err, "magic %d or %d", MAGIC_GPT2, MAGIC_LLAMA3);
    err_found(err, "%" PRIu32 "%s", magic,
              magic == MAGIC_EVALUATION ? " (questions of an evaluation)" : "");
    return -ENOTSUP;
}

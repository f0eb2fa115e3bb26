/*
 * text_case — see text_case.h.
 */
#include "tests/trainer/text_case.h"

#include "convert/dataset/dataset.h"

enum { TEXT_BYTES = 20000 };

void text_case_make(struct io *io, const char *folder, char shards[2 * TEST_PATH_BYTES_MAX])
{
    static char text[TEXT_BYTES];
    char path[2 * TEST_PATH_BYTES_MAX];
    struct convert_result converted;
    struct err err;
    for (int i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + i * i % 23);
    snprintf(path, sizeof path, "%s/text.txt", folder);
    snprintf(shards, sizeof path, "%s/shards", folder);
    test_write_file(path, text, TEXT_BYTES);
    struct convert_options convert = {
        .source = path, .target = shards, .tokenizer = "bytes", .errors_max = -1};
    assert_ok(convert_dataset(io, &convert, &converted, &err), &err);
}

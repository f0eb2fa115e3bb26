/*
 * text_case — a small text dataset for runs.
 */
#ifndef MILLRACE_TESTS_TRAINER_TEXT_CASE_H
#define MILLRACE_TESTS_TRAINER_TEXT_CASE_H

#include "io/io.h"
#include "tests/support/test.h"

/* 20,000 bytes, one token per byte, in shards below the folder. shards: receives the shards'
 * path. */
void text_case_make(struct io *io, const char *folder, char shards[2 * TEST_PATH_BYTES_MAX]);

#endif

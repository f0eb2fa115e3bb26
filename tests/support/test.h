/*
 * test — shared by all test programs: cmocka, real files, scratch folders, commands and Python
 * oracles.
 */
#ifndef MILLRACE_TESTS_SUPPORT_TEST_H
#define MILLRACE_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/err.h"

enum { TEST_PATH_BYTES_MAX = 1024 };

/* Stores the path of the real file or folder `relative` below MILLRACE_TEST_DATA. If it is absent,
 * skips the running test and prints why on stderr as "SKIPPED: ...", which scripts/test counts. */
void test_need_data(const char *relative, char path[TEST_PATH_BYTES_MAX]);

/* The same, but returns false instead of skipping: for set-up functions, where cmocka cannot
 * skip. */
bool test_find_data(const char *relative, char path[TEST_PATH_BYTES_MAX]);

/* Skips the running test with a reason, as above. Does not return. */
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A fresh empty folder below the build folder; test_remove_folder removes it recursively. */
void test_make_folder(char path[TEST_PATH_BYTES_MAX]);
void test_remove_folder(const char *path);

/* Runs a shell command with our stdout and stderr. Returns its exit status, or 128 + signal. */
int test_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, but stores the command's stdout in text (NUL-terminated, truncated to bytes). */
int test_run_output(char *text, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The first Python with the module, among MILLRACE_PYTHON, build/oracles/bin/python,
 * /usr/bin/python3 and python3; skips the test if none has it. The string stays valid. */
const char *test_need_python(const char *module);

/* Whether a sanitizer is active: it is slow, so tests should use smaller sizes. */
bool test_is_sanitized(void);

/* The resident memory of this process in bytes. */
uint64_t test_resident_bytes(void);

/* Fails the running test with the error's message unless status is 0. */
void test_ok(int status, const struct err *err, const char *call, const char *file, int line);
#define assert_ok(call, err) test_ok((call), (err), #call, __FILE__, __LINE__)

/* Reads a whole file into malloc'ed memory; fails the test on errors. */
unsigned char *test_read_file(const char *path, size_t *ret_bytes);
void test_write_file(const char *path, const void *data, size_t bytes);

#endif

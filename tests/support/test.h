/*
 * test — what all test programs share: cmocka, real files, scratch folders, commands and Python
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

/* The real file or folder `relative` of MILLRACE_TEST_DATA into path; where it is absent, the
 * running test is skipped, and says why on stderr as "SKIPPED: ...", which scripts/test counts. */
void test_need_data(const char *relative, char path[TEST_PATH_BYTES_MAX]);

/* The same, but false instead of skipping: for what sets a test up, where cmocka knows no
 * skipping. */
bool test_find_data(const char *relative, char path[TEST_PATH_BYTES_MAX]);

/* Skips the running test with a reason, as above. Does not return. */
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A fresh empty folder below the build folder; removed by test_remove_folder (and below it
 * everything). */
void test_make_folder(char path[TEST_PATH_BYTES_MAX]);
void test_remove_folder(const char *path);

/* Runs a shell command; its exit status, or 128 + signal. Output goes where ours goes. */
int test_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with its stdout into text (NUL-terminated, cut to bytes). */
int test_run_output(char *text, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The Python that has module (MILLRACE_PYTHON, then build/oracles/bin/python, /usr/bin/python3,
 * python3); skips the test where none has it. Lives for ever. */
const char *test_need_python(const char *module);

/* True where the sanitizers slow everything down: make the sizes smaller. */
bool test_is_sanitized(void);

/* Of this process's memory, now. */
uint64_t test_resident_bytes(void);

/* Fails the running test with the error's line unless status is 0. */
void test_ok(int status, const struct err *err, const char *call, const char *file, int line);
#define assert_ok(call, err) test_ok((call), (err), #call, __FILE__, __LINE__)

/* The whole file in memory of malloc; fails the test where it can't be read. */
unsigned char *test_read_file(const char *path, size_t *ret_bytes);
void test_write_file(const char *path, const void *data, size_t bytes);

#endif

/*
 * test — see test.h.
 */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void test_skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("SKIPPED: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    skip();
    abort(); /* skip() jumps away */
}

bool test_find_data(const char *relative, char path[TEST_PATH_BYTES_MAX])
{
    const char *folder = getenv("MILLRACE_TEST_DATA");
    snprintf(path, TEST_PATH_BYTES_MAX, "%s/%s", folder && *folder ? folder : TEST_DATA_DEFAULT,
             relative);
    return access(path, R_OK) == 0;
}

void test_need_data(const char *relative, char path[TEST_PATH_BYTES_MAX])
{
    if (!test_find_data(relative, path))
        test_skip("no test data at %s (set MILLRACE_TEST_DATA)", path);
}

void test_make_folder(char path[TEST_PATH_BYTES_MAX])
{
    mkdir(TEST_BUILD_DIR "/scratch", 0777);
    snprintf(path, TEST_PATH_BYTES_MAX, "%s/scratch/test-XXXXXX", TEST_BUILD_DIR);
    assert_non_null(mkdtemp(path));
}

void test_remove_folder(const char *path)
{
    test_run("chmod -R u+rwX '%s' && rm -rf '%s'", path, path);
}

static int exit_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int test_run(const char *format, ...)
{
    char command[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    fflush(NULL);
    return exit_status(system(command));
}

int test_run_output(char *text, size_t bytes, const char *format, ...)
{
    char command[8192], rest[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    fflush(NULL);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t used = fread(text, 1, bytes - 1, pipe);
    text[used] = '\0';
    while (fread(rest, 1, sizeof rest, pipe) > 0)
        ;
    return exit_status(pclose(pipe));
}

const char *test_need_python(const char *module)
{
    static char interpreter[TEST_PATH_BYTES_MAX];
    const char *candidates[] = {getenv("MILLRACE_PYTHON"),
                                TEST_SOURCE_DIR "/build/oracles/bin/python", "/usr/bin/python3",
                                "python3"};
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        if (!candidates[i] || !*candidates[i])
            continue;
        if (test_run("'%s' -c 'import %s' >/dev/null 2>&1", candidates[i], module) == 0) {
            snprintf(interpreter, sizeof interpreter, "%s", candidates[i]);
            return interpreter;
        }
    }
    test_skip("no Python here has the module %s (scripts/setup --oracles)", module);
}

bool test_is_sanitized(void)
{
#ifdef MR_SANITIZED
    return true;
#else
    return false;
#endif
}

uint64_t test_resident_bytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &pages, &resident), 2);
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void test_ok(int status, const struct err *err, const char *call, const char *file, int line)
{
    if (status >= 0)
        return;
    char text[ERR_LINE_BYTES_MAX];
    print_error("%s gave %d: %s\n", call, status,
                err ? err_format(err, text, sizeof text) : strerror(-status));
    _fail(file, line);
}

unsigned char *test_read_file(const char *path, size_t *ret_bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct stat info;
    assert_int_equal(fstat(fileno(file), &info), 0);
    unsigned char *data = malloc((size_t)info.st_size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)info.st_size, file), info.st_size);
    data[info.st_size] = 0;
    fclose(file);
    *ret_bytes = (size_t)info.st_size;
    return data;
}

void test_write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

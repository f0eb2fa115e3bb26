/*
 * tcp_secret — tests where the secret of TCP ranks is read from.
 */
#include "comm/tcp/tcp_secret.h"

#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads the secret from an environment variable and a file; err is cleared first. */
static int read_secret(const char *value, const char *path, struct tcp_secret *ret_secret,
                       struct err *err)
{
    err_clear(err);
    if (value)
        assert_int_equal(setenv(TCP_SECRET_VARIABLE, value, 1), 0);
    if (path)
        assert_int_equal(setenv(TCP_SECRET_FILE_VARIABLE, path, 1), 0);
    int status = tcp_secret_read(ret_secret, err);
    unsetenv(TCP_SECRET_VARIABLE);
    unsetenv(TCP_SECRET_FILE_VARIABLE);
    return status;
}

static void a_secret_comes_from_the_environment_or_a_private_file(void **state)
{
    static const char text[] = "0123456789abcdef0123456789abcdef";
    char path[] = "/tmp/millrace-secret-XXXXXX", longest[TCP_SECRET_BYTES_MAX + 2];
    struct tcp_secret secret;
    struct err err = {0};
    (void)state;
    assert_int_equal(read_secret(NULL, NULL, &secret, &err), 0);
    assert_int_equal(secret.bytes, 0);
    assert_ok(read_secret(text, NULL, &secret, &err), &err);
    assert_int_equal(secret.bytes, 32);
    assert_memory_equal(secret.key, text, 32);
    assert_int_equal(read_secret("", NULL, &secret, &err), -EINVAL);
    assert_int_equal(read_secret("too short", NULL, &secret, &err), -EINVAL);
    assert_null(strstr(err.found, "short"));
    assert_int_equal(read_secret(text, path, &secret, &err), -EINVAL); /* ambiguous */
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(read_secret(longest, NULL, &secret, &err), -EINVAL);
    assert_ok(read_secret(longest + 1, NULL, &secret, &err), &err);

    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, 32), 32);
    assert_int_equal(write(file, "\n", 1), 1);
    close(file);
    assert_ok(read_secret(NULL, path, &secret, &err), &err);
    assert_int_equal(secret.bytes, 32);
    assert_memory_equal(secret.key, text, 32);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(read_secret(NULL, path, &secret, &err), -EACCES);
    assert_string_equal(err.path, path);
    assert_non_null(strstr(err.advice, "chmod 600"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read_secret(NULL, path, &secret, &err), -ENOENT);
    assert_int_equal(read_secret(NULL, "/tmp", &secret, &err), -EINVAL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_comes_from_the_environment_or_a_private_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * open_files — fractions of the process's limit on open files, and which limit the advice says to
 * raise.
 */
#include "base/os/open_files.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LIMIT = 64 };

static void set_limits(rlim_t soft, rlim_t hard)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = soft, .rlim_max = hard}),
                     0);
}

static void shares_are_bounded_by_eighths_of_the_limit(void **state)
{
    (void)state;
    set_limits(LIMIT, LIMIT + 1);
    assert_int_equal(open_files_max(), LIMIT);
    int last = -1, first = dup(0);
    for (int fd = first; fd >= 0; fd = dup(0)) {
        last = fd;
        assert_int_equal(open_files_is_within(OPEN_FILES_HALF, fd), fd < LIMIT / 2);
        assert_int_equal(open_files_is_within(OPEN_FILES_SEVEN_EIGHTHS, fd), fd < LIMIT / 8 * 7);
        assert_int_equal(open_files_next_is_within(OPEN_FILES_HALF), fd + 1 < LIMIT / 2);
        assert_int_equal(open_files_next_is_within(OPEN_FILES_SEVEN_EIGHTHS),
                         fd + 1 < LIMIT / 8 * 7);
        assert_true(open_files_next_is_within(OPEN_FILES_ALL));
    }
    assert_int_equal(last, LIMIT - 1);
    for (int fd = first; fd <= last; fd++)
        close(fd);
}

/* Must run last, since only root can raise the hard limit again. */
static void advice_names_the_limit_that_binds(void **state)
{
    struct err err;
    (void)state;
    set_limits(LIMIT, LIMIT + 1);
    err_set(&err, -EMFILE, "too many");
    open_files_advise(&err);
    assert_non_null(strstr(err.advice, "ulimit -n"));
    set_limits(LIMIT, LIMIT);
    open_files_advise(&err);
    assert_non_null(strstr(err.advice, "hard limit"));
    assert_non_null(strstr(err.advice, "LimitNOFILE="));
    assert_string_equal(err.advice, open_files_advice());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_bounded_by_eighths_of_the_limit),
        cmocka_unit_test(advice_names_the_limit_that_binds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * http — URLs as they are sent and shown, and which requests are sent again. tests/cli/http.sh has
 * the servers.
 */
#include "base/clock.h"
#include "io/http/http_retry.h"
#include "io/http/http_url.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

static void urls_are_encoded_once(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"http://h/a b", "http://h/a%20b"},
        {"http://h/a%20b", "http://h/a%20b"},
        {"http://h/100%", "http://h/100%25"},
        {"http://h/%zz", "http://h/%25zz"},
        {"https://h:8/\xc3\xa4#1?x=/&y", "https://h:8/%C3%A4%231?x=/&y"},
        {"http://[::1]:8/x", "http://[::1]:8/x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char url[HTTP_URL_BYTES_MAX];
        struct err err = {0};
        assert_ok(http_url_encode(cases[i][0], url, &err), &err);
        assert_string_equal(url, cases[i][1]);
    }
}

static void other_paths_are_refused_without_their_secrets(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int status;
    } cases[] = {{"/a/b", -EPROTONOSUPPORT},
                 {"a", -EPROTONOSUPPORT},
                 {"http:///x", -EINVAL},
                 {"http://me:secret@h/x", -EINVAL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char url[HTTP_URL_BYTES_MAX];
        struct err err = {0};
        assert_int_equal(http_url_encode(cases[i].path, url, &err), cases[i].status);
        assert_null(strstr(err.what, "secret"));
        assert_null(strstr(err.path, "secret"));
    }
    char shown[IO_PATH_BYTES_MAX];
    http_url_redact("https://h/x.tar?sig=secret", shown);
    assert_string_equal(shown, "https://h/x.tar");
}

static void names_of_files_have_an_extension(void **state)
{
    (void)state;
    assert_true(http_url_has_extension("http://h.de/a/b.tar"));
    assert_true(http_url_has_extension("http://h.de/b.tar?x=/y"));
    assert_false(http_url_has_extension("http://h.de/a.b/c"));
    assert_false(http_url_has_extension("http://h.de/a.b/"));
    assert_false(http_url_has_extension("http://h.de/a?b.tar"));
}

static void failures_that_pass_are_repeated(void **state)
{
    (void)state;
    static const struct {
        struct http_response response;
        bool is_transient;
    } cases[] = {
        {{.status = 408}, true},
        {{.status = 429}, true},
        {{.status = 500}, true},
        {{.status = 503}, true},
        {{.status = 400}, false},
        {{.status = 403}, false},
        {{.status = 404}, false},
        {{.status = 412}, false},
        {{.error = -ECONNRESET}, true},
        {{.error = -ETIMEDOUT}, true},
        {{.error = -EPROTO, .status = 206}, true},
        {{.error = -EPROTO, .status = 301}, false},
        {{.error = -EKEYREJECTED}, false},
        {{.error = -EOPNOTSUPP, .status = 200}, false},
        {{.error = -ENOMEM}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(http_is_transient(&cases[i].response), cases[i].is_transient);
}

static void delays_double_up_to_a_limit_and_end(void **state)
{
    (void)state;
    struct http_retry retry = {.begun_ns = 1};
    const struct http_response busy = {.status = 503, .retry_after_s = -1};
    uint64_t now_ns = 1, longest_ns = HTTP_RETRY_FIRST_NS, due_ns;
    while (http_retry_next(&retry, &busy, longest_ns - 1, now_ns, &due_ns)) {
        assert_int_equal(due_ns - now_ns, longest_ns - 1);
        longest_ns = longest_ns * 2 < HTTP_RETRY_DELAY_NS ? longest_ns * 2 : HTTP_RETRY_DELAY_NS;
        now_ns = due_ns;
    }
    assert_true(now_ns < HTTP_RETRY_DEADLINE_NS);
    assert_true(now_ns + longest_ns > HTTP_RETRY_DEADLINE_NS);
    retry = (struct http_retry){.begun_ns = 1};
    assert_true(http_retry_next(&retry, &busy, 0, 1, &due_ns));
    assert_int_equal(due_ns, 1);
    const struct http_response told = {.status = 503, .retry_after_s = 7};
    assert_true(http_retry_next(&retry, &told, 0, 1, &due_ns));
    assert_int_equal(due_ns, 1 + 7 * CLOCK_NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_encoded_once),
        cmocka_unit_test(other_paths_are_refused_without_their_secrets),
        cmocka_unit_test(names_of_files_have_an_extension),
        cmocka_unit_test(failures_that_pass_are_repeated),
        cmocka_unit_test(delays_double_up_to_a_limit_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

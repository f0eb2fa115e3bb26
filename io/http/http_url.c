/*
 * http_url — see http_url.h.
 */
#include "io/http/http_url.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_escape(const char *at)
{
    return at[0] == '%' && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2]);
}

static bool is_allowed(const char *at)
{
    unsigned char c = (unsigned char)*at;
    return c > 0x20 && c < 0x7f && !strchr("\"<>\\^`{|}#", c) && (c != '%' || is_escape(at));
}

int http_url_encode(const char *path, char url[HTTP_URL_BYTES_MAX], struct err *err)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *host = path + io_scheme_bytes(path);
    if (strncmp(host, "://", 3) != 0)
        return err_set(err, -EPROTONOSUPPORT, "\"%.200s\" is not a URL", path);
    host += 3;
    size_t host_bytes = strcspn(host, "/?"), bytes = 0;
    const char *user = memchr(host, '@', host_bytes);
    if (host_bytes == 0 || user) {
        err_set(err, -EINVAL, "the URL %s", user ? "has a user name" : "has no host");
        err_at(err, user ? user + 1 : path, ERR_NO_OFFSET);
        err_expected(err, "https://host/folder/file");
        return -EINVAL;
    }
    for (const char *at = path; *at; at++) {
        if (is_allowed(at)) {
            url[bytes++] = *at;
            continue;
        }
        unsigned char c = (unsigned char)*at;
        url[bytes++] = '%';
        url[bytes++] = digits[c >> 4];
        url[bytes++] = digits[c & 15];
    }
    url[bytes] = '\0';
    return 0;
}

bool http_url_has_extension(const char *path)
{
    size_t bytes = strcspn(path, "?");
    const char *slash = memrchr(path, '/', bytes);
    return slash && memchr(slash, '.', bytes - (size_t)(slash - path));
}

void http_url_redact(const char *path, char shown[IO_PATH_BYTES_MAX])
{
    snprintf(shown, IO_PATH_BYTES_MAX, "%.*s", (int)strcspn(path, "?"), path);
}

/*
 * http_url — URLs as paths: "https://host:port/folder/file?query".
 */
#ifndef MILLRACE_IO_HTTP_HTTP_URL_H
#define MILLRACE_IO_HTTP_HTTP_URL_H

#include "io/io.h"

enum { HTTP_URL_BYTES_MAX = 3 * IO_PATH_BYTES_MAX };

/* Writes the URL as it is sent: characters that URLs cannot have are percent-encoded; "%41" stays.
 * -EINVAL: there is no host, or a user and password, which would show in messages. */
int http_url_encode(const char *path, char url[HTTP_URL_BYTES_MAX], struct err *err);
/* Writes the path without its query, which may hold a signature. */
void http_url_redact(const char *path, char shown[IO_PATH_BYTES_MAX]);
/* Whether the name of the file or folder has an extension. */
bool http_url_has_extension(const char *path);

#endif

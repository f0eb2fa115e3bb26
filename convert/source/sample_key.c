/*
 * sample_key — see sample_key.h.
 */
#include "convert/source/sample_key.h"

#include "convert/source/file_names.h"

#include <string.h>

const char *path_next_part(const char **path, size_t *ret_bytes)
{
    for (;;) {
        const char *part = *path + strspn(*path, "/");
        *ret_bytes = strcspn(part, "/");
        *path = part + *ret_bytes;
        if (*ret_bytes == 0)
            return NULL;
        bool is_dots = strspn(part, ".") == *ret_bytes && *ret_bytes <= 2;
        if (!is_dots)
            return part;
    }
}

const char *sample_key_make(const char *path, bool is_file, char key[SHARD_KEY_BYTES_MAX])
{
    size_t at = 0, base = 0, bytes;
    for (const char *part; (part = path_next_part(&path, &bytes));) {
        if (at + bytes + 2 > SHARD_KEY_BYTES_MAX)
            return "at most 1023 bytes";
        if (at > 0) {
            key[at] = '\0';
            if (name_is_reserved(key + base))
                return "no folder such as __x__, which readers skip";
            key[at++] = '/';
        }
        base = at;
        memcpy(key + at, part, bytes);
        at += bytes;
    }
    key[at] = '\0';
    char *dot = is_file ? strrchr(key + base, '.') : NULL;
    if (dot)
        *dot = '\0';
    for (char *c = key + base; *c; c++)
        if (*c == '.' || *c == ' ')
            *c = '_';
    return key[base] ? NULL : "a name";
}

/*
 * member_name — see member_name.h.
 */
#include "shards/format/member_name.h"

#include <errno.h>
#include <string.h>

static int bad_name(struct err *err, const char *what, const char *expected, const char *name)
{
    err_set(err, -EBADMSG, "%s", what);
    err_expected(err, "%s", expected);
    err_found(err, "\"%.200s\"", name);
    return -EBADMSG;
}

/* Readers skip members named `__x__` or in a top-level folder named `__x__`. */
static bool is_metadata_name(const char *name)
{
    size_t bytes = strcspn(name, "/");
    return bytes >= 4 && memcmp(name, "__", 2) == 0 && memcmp(name + bytes - 2, "__", 2) == 0;
}

int member_name_split(const char *name, struct member_name *ret_name, bool *ret_is_field,
                      struct err *err)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strchr(base, '.');
    *ret_is_field = false;
    if (!dot || dot == base || !dot[1] || is_metadata_name(name))
        return 0;
    size_t key_bytes = (size_t)(dot - name), extension_bytes = strlen(dot + 1);
    if (key_bytes >= SHARD_KEY_BYTES_MAX)
        return bad_name(err, "key of a tar member is too long", "at most 1023 bytes", name);
    if (extension_bytes >= SHARD_EXTENSION_BYTES_MAX)
        return bad_name(err, "extension of a tar member is too long", "at most 47 bytes", name);
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        if (*at < 0x20 || *at == 0x7f)
            return bad_name(err, "name of a tar member contains a control character",
                            "text without newlines, tabs or other control characters", name);
    memcpy(ret_name->key, name, key_bytes);
    ret_name->key[key_bytes] = '\0';
    for (size_t i = 0; i <= extension_bytes; i++) {
        char c = dot[1 + i];
        ret_name->extension[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    *ret_is_field = true;
    return 0;
}

/*
 * xml — reads the elements of a small XML document; the only adapter of expat.
 *
 * Rejects document type declarations, and with them entities of the document's own.
 */
#ifndef MILLRACE_CONVERT_SOURCE_XML_H
#define MILLRACE_CONVERT_SOURCE_XML_H

#include "base/err.h"

enum {
    XML_DEPTH_MAX = 32,
    XML_PATH_BYTES_MAX = 1024, /* including the NUL */
    XML_BYTES_MAX = 64 << 20,
};

/* An element that has ended. Valid during the callback. */
struct xml_element {
    const char *path; /* names from the root on, such as "/annotation/size/width" */
    /* Its own characters in UTF-8, without those of elements in it, and without spaces at both
     * ends. NUL-terminated. */
    const char *text;
    int64_t offset; /* of its end tag */
};

/* Calls visit at the end of each element, in the order of the end tags; a nonzero result ends the
 * walk and is returned. path: for messages. -EBADMSG: not well-formed, or beyond the limits;
 * -ENOMEM. */
int xml_each(const char *text, size_t bytes, const char *path,
             int (*visit)(void *context, const struct xml_element *element, struct err *err),
             void *context, struct err *err);

#endif

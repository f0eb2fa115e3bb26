/*
 * xml — see xml.h.
 */
#include "convert/source/xml.h"

#include "base/str.h"

#include <errno.h>
#include <expat.h>
#include <string.h>

struct walk {
    XML_Parser parser;
    const char *path;
    int (*visit)(void *context, const struct xml_element *element, struct err *err);
    void *context;
    struct err *err;
    int status; /* why the parser was stopped */
    char element[XML_PATH_BYTES_MAX];
    size_t element_bytes;
    unsigned depth;
    struct str text;                   /* of all open elements */
    size_t text_at[XML_DEPTH_MAX + 1]; /* where that of each begins */
};

static void stop(struct walk *walk, int status)
{
    walk->status = status;
    XML_StopParser(walk->parser, XML_FALSE);
}

static void reject(struct walk *walk, const char *what, const char *expected)
{
    err_set(walk->err, -EBADMSG, "%s", what);
    err_at(walk->err, walk->path, XML_GetCurrentByteIndex(walk->parser));
    err_expected(walk->err, "%s", expected);
    stop(walk, -EBADMSG);
}

static void begin_element(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct walk *walk = data;
    size_t bytes = strlen(name);
    (void)attributes;
    if (walk->status)
        return;
    if (walk->depth == XML_DEPTH_MAX || walk->element_bytes + 1 + bytes >= XML_PATH_BYTES_MAX) {
        reject(walk, "XML is nested too deeply", "at most 32 levels, with short names");
        return;
    }
    walk->element[walk->element_bytes] = '/';
    memcpy(walk->element + walk->element_bytes + 1, name, bytes + 1);
    walk->element_bytes += 1 + bytes;
    walk->text_at[++walk->depth] = walk->text.bytes;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void end_element(void *data, const XML_Char *name)
{
    struct walk *walk = data;
    if (walk->status)
        return;
    size_t at = walk->text_at[walk->depth--];
    str_add(&walk->text, "", 1);
    if (str_status(&walk->text)) {
        stop(walk, err_set(walk->err, -ENOMEM, "out of memory for an XML document"));
        return;
    }
    char *text = walk->text.data + at, *end = walk->text.data + walk->text.bytes - 1;
    while (is_space(*text))
        text++;
    while (end > text && is_space(end[-1]))
        *--end = '\0';
    const struct xml_element element = {walk->element, text, XML_GetCurrentByteIndex(walk->parser)};
    int status = walk->visit(walk->context, &element, walk->err);
    if (status)
        stop(walk, status);
    walk->text.bytes = at;
    walk->element_bytes -= 1 + strlen(name);
    walk->element[walk->element_bytes] = '\0';
}

static void add_text(void *data, const XML_Char *text, int bytes)
{
    struct walk *walk = data;
    str_add(&walk->text, text, (size_t)bytes);
}

static void begin_doctype(void *data, const XML_Char *name, const XML_Char *system,
                          const XML_Char *public, int has_subset)
{
    (void)name, (void)system, (void)public, (void)has_subset;
    reject(data, "the XML document has a document type", "no <!DOCTYPE>");
}

static int parse(struct walk *walk, const char *text, size_t bytes)
{
    if (XML_Parse(walk->parser, text, (int)bytes, 1) == XML_STATUS_OK)
        return 0;
    enum XML_Error error = XML_GetErrorCode(walk->parser);
    if (walk->status)
        return walk->status;
    if (error == XML_ERROR_NO_MEMORY)
        return err_set(walk->err, -ENOMEM, "out of memory for an XML document");
    err_set(walk->err, -EBADMSG, "not valid XML");
    err_at(walk->err, walk->path, XML_GetCurrentByteIndex(walk->parser));
    err_found(walk->err, "%s", XML_ErrorString(error));
    return -EBADMSG;
}

int xml_each(const char *text, size_t bytes, const char *path,
             int (*visit)(void *context, const struct xml_element *element, struct err *err),
             void *context, struct err *err)
{
    struct walk walk = {.path = path, .visit = visit, .context = context, .err = err};
    if (bytes > XML_BYTES_MAX) {
        err_set(err, -EBADMSG, "the XML document is too large");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "at most %d bytes", XML_BYTES_MAX);
        return -EBADMSG;
    }
    walk.parser = XML_ParserCreate(NULL);
    if (!walk.parser)
        return err_set(err, -ENOMEM, "out of memory for an XML document");
    XML_SetUserData(walk.parser, &walk);
    XML_SetElementHandler(walk.parser, begin_element, end_element);
    XML_SetCharacterDataHandler(walk.parser, add_text);
    XML_SetStartDoctypeDeclHandler(walk.parser, begin_doctype);
    int status = parse(&walk, text, bytes);
    XML_ParserFree(walk.parser);
    str_deinit(&walk.text);
    return status;
}

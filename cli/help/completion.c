/*
 * completion — shared by the scripts of several shells. See completion.h.
 */
#include "cli/help/completion.h"

void completion_quote(struct str *out, const char *text)
{
    str_add_text(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            str_add_text(out, "'\\''");
        else
            str_add(out, text, 1);
    }
    str_add_text(out, "'");
}

/*
 * page_tokens — the beginning of a token member, as text if tokens are bytes, else as token IDs.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_TOKENS_H
#define MILLRACE_CLI_REPORT_PAGE_TOKENS_H

#include "cli/report/survey.h"

enum { PAGE_TOKENS_MAX = 1200 }; /* shown per member */

/* text: the dataset's; NULL: unknown. Appends to out, nothing if the sample has no npy field. */
int page_tokens_add(struct survey *survey, const struct survey_sample *sample,
                    const struct dataset_text *text, struct str *out, struct err *err);

#endif

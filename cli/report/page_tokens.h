/*
 * page_tokens — the beginning of a member of tokens, as text where its tokens are bytes, else as
 * their numbers.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_TOKENS_H
#define MILLRACE_CLI_REPORT_PAGE_TOKENS_H

#include "cli/report/survey.h"

enum { PAGE_TOKENS_MAX = 1200 }; /* shown of a member */

/* text: of the dataset, NULL where it is not known. Appends to out; nothing where the sample has no
 * npy field. */
int page_tokens_add(struct survey *survey, const struct survey_sample *sample,
                    const struct dataset_text *text, struct str *out, struct err *err);

#endif

/*
 * page_style — the style sheet of a page.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_STYLE_H
#define MILLRACE_CLI_REPORT_PAGE_STYLE_H

/* Contains no HTML or XML markup characters and no references outside the page. */
extern const char page_style[];

#endif

/*
 * page_style — the style sheet of a page.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_STYLE_H
#define MILLRACE_CLI_REPORT_PAGE_STYLE_H

/* Holds no character that HTML or XML would take for markup, and names nothing outside the page. */
extern const char page_style[];

#endif

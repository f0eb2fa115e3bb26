/*
 * help_formats — `millrace help formats`: the files of millrace in a page; docs/ has them to the byte.
 */
#ifndef MILLRACE_CLI_HELP_FORMATS_H
#define MILLRACE_CLI_HELP_FORMATS_H

void help_print_formats(void);

#endif

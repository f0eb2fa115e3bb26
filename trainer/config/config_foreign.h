/*
 * config_foreign — advice for keys of other trainers or unsupported concepts, where the nearest key
 * would mislead.
 */
#ifndef MILLRACE_TRAINER_CONFIG_CONFIG_FOREIGN_H
#define MILLRACE_TRAINER_CONFIG_CONFIG_FOREIGN_H

#include <stddef.h>

/* Returns text; NULL: no advice. */
const char *config_foreign_advice(const char *key, char *text, size_t bytes);

#endif

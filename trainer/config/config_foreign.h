/*
 * config_foreign — advice for keys of other trainers or unsupported concepts, for which the key
 * with the nearest spelling would be misleading.
 */
#ifndef MILLRACE_TRAINER_CONFIG_CONFIG_FOREIGN_H
#define MILLRACE_TRAINER_CONFIG_CONFIG_FOREIGN_H

#include <stddef.h>

/* Writes the advice to text and returns text; NULL: no advice. */
const char *config_foreign_advice(const char *key, char *text, size_t bytes);

#endif

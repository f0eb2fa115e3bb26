/*
 * foreign_keys — advice for keys of other trainers and for unsupported features; suggesting the
 * nearest key would mislead.
 */
#ifndef MILLRACE_TRAINER_CONFIG_FOREIGN_KEYS_H
#define MILLRACE_TRAINER_CONFIG_FOREIGN_KEYS_H

#include <stddef.h>

/* Returns text; NULL: no advice. */
const char *foreign_key_advice(const char *key, char *text, size_t bytes);

#endif

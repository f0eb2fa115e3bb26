/*
 * config_foreign — configuration keys of other trainers, and of concepts that millrace does not
 * offer, for the advice of an unknown key. The nearest spelling would name a key that means
 * something else.
 */
#ifndef MILLRACE_TRAINER_CONFIG_CONFIG_FOREIGN_H
#define MILLRACE_TRAINER_CONFIG_CONFIG_FOREIGN_H

#include <stddef.h>

/* What to do about the key, into text, which is returned; NULL if the key is not a known one. */
const char *config_foreign_advice(const char *key, char *text, size_t bytes);

#endif

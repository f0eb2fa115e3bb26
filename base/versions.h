/*
 * versions — the foreign libraries that base/ adapts, by name and version, told by their adapters:
 * jsonx.c, hash.c, hmac.c, crc.c.
 *
 * Each writes "NAME VERSION" into text of VERSION_TEXT_BYTES and returns text. The version is that
 * of the library which runs, or, where it can't tell, the one whose headers were compiled in.
 */
#ifndef MILLRACE_BASE_VERSIONS_H
#define MILLRACE_BASE_VERSIONS_H

enum { VERSION_TEXT_BYTES = 64 };

const char *json_version(char *text);
const char *hash_version(char *text);
const char *hmac_version(char *text);
const char *crc_version(char *text); /* compiled in */

#endif

/*
 * versions — names and versions of the libraries base/ adapts, in jsonx.c, hash.c, hmac.c and
 * crc.c.
 *
 * Each writes "NAME VERSION" into text of VERSION_TEXT_BYTES and returns text. The version is the
 * running library's, or that of its headers if it reports none.
 */
#ifndef MILLRACE_BASE_VERSIONS_H
#define MILLRACE_BASE_VERSIONS_H

enum { VERSION_TEXT_BYTES = 64 };

const char *jsonx_version(char *text);
const char *hash_version(char *text);
const char *hmac_version(char *text);
const char *crc_version(char *text); /* compiled in */

#endif

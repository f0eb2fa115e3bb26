/*
 * versions — names and versions of the libraries that jsonx.c, yaml/yaml.c, hash.c, hmac.c and
 * crc.c adapt.
 *
 * Each function writes "NAME VERSION" into text (VERSION_TEXT_BYTES) and returns text: the version
 * of the running library, or of its headers if it reports none.
 */
#ifndef MILLRACE_BASE_VERSIONS_H
#define MILLRACE_BASE_VERSIONS_H

enum { VERSION_TEXT_BYTES = 64 };

const char *jsonx_version(char *text);
const char *yaml_version(char *text);
const char *hash_version(char *text);
const char *hmac_version(char *text);
const char *crc_version(char *text); /* compiled in */

#endif

/*
 * wire_version — version of the messages exchanged by ranks.
 */
#ifndef MILLRACE_COMM_WIRE_VERSION_H
#define MILLRACE_COMM_WIRE_VERSION_H

/* Increment whenever messages, their order or their contents change. */
enum { COMM_WIRE_VERSION = 3 };

#endif

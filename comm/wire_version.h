/*
 * wire_version — the version of what ranks of a run send each other.
 */
#ifndef MILLRACE_COMM_WIRE_VERSION_H
#define MILLRACE_COMM_WIRE_VERSION_H

enum {
    COMM_WIRE_VERSION = 2
}; /* raise it whenever messages, their order or their contents change */

#endif

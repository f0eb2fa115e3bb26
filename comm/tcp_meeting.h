/*
 * tcp_meeting — a meeting of ranks from within: who calls (tcp_callers.c) and whom one calls (tcp_meet.c). See tcp_meet.h.
 */
#ifndef MILLRACE_COMM_TCP_MEETING_H
#define MILLRACE_COMM_TCP_MEETING_H

#include "base/clock.h"
#include "comm/tcp_meet.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define TCP_HELLO_NS (2 * CLOCK_NS_PER_S) /* in which one comes, else it is a stranger's connection */
enum { TCP_CALLERS_MAX = 16 /* at a time, before they have said who they are */ };

#define TCP_HELLO_MAGIC                                                                                      \
    UINT64_C(0x3265636172696c6d) /* "milrace2"; another one whenever frames or their tags change */

/* What each side of a connection says first. The same on all machines of a run, which are of one kind. */
struct tcp_hello {
    uint64_t magic, token;
    uint64_t run; /* 0 where it is not known yet */
    int32_t rank, ranks;
    int32_t listens_at; /* a port */
    int32_t reserved;
};

/* Where a rank is to be called. */
struct tcp_place {
    struct sockaddr_storage address;
};

/* Of somebody who called, as far as it has come; hung up on where there are too many or it takes too long. */
struct tcp_caller {
    int socket; /* 0: none */
    struct sockaddr_storage address;
    struct tcp_hello hello;
    size_t got;
    uint64_t until_ns;
};

struct tcp_meeting {
    const struct tcp_meet_options *options;
    uint64_t until_ns, run; /* run: its number, once it is known */
    int listener, listens_at;
    int *sockets;
    int accept_status;        /* of the last call that could not be taken, or 0 */
    struct tcp_place *places; /* [ranks] */
    struct tcp_caller callers[TCP_CALLERS_MAX];
};

/* Its time is over, or it is to stop. */
bool tcp_meeting_is_over(const struct tcp_meeting *meeting);
/* -EINTR, or -ETIMEDOUT with who is missing. */
int tcp_meeting_tell_over(const struct tcp_meeting *meeting, struct err *err);
/* Waits so long, but no longer than the meeting. */
void tcp_meeting_pause(const struct tcp_meeting *meeting, uint64_t time_ns);
/* Sending all of it; a socket's sending and connecting end after TCP_HELLO_NS once that is limited. */
void tcp_meeting_limit(int made);
bool tcp_meeting_give(int to, const void *data, size_t bytes);
struct tcp_hello tcp_meeting_hello(const struct tcp_meeting *meeting);
bool tcp_meeting_is_hello(const struct tcp_meeting *meeting, const struct tcp_hello *hello);
/* Of somebody of this run: 0, or -EINVAL where it was told another number of ranks. */
int tcp_meeting_check_ranks(const struct tcp_meeting *meeting, const struct tcp_hello *hello,
                            struct err *err);

/* tcp_callers.c */

/* The first rank: at one of the ports that others know; else at any. */
int tcp_callers_listen(struct tcp_meeting *meeting, struct err *err);
/* Somebody of this run calls: what it said and from where, and its socket stands in sockets. Nobody else holds that up. -ECONNABORTED
 * where one of those below this rank has left meanwhile. */
int tcp_callers_accept(struct tcp_meeting *meeting, struct tcp_hello *ret_hello,
                       struct sockaddr_storage *ret_address, struct err *err);
void tcp_callers_close(struct tcp_meeting *meeting);
/* Where it is one of IPv4 that IPv6 wraps: as it is. The machine that gets it may not have IPv6. */
void tcp_callers_be_plain(struct sockaddr_storage *address);
/* The i-th port at which the first rank may listen, from 1 on. */
int tcp_callers_port(const struct tcp_meet_options *options, int i);

#endif

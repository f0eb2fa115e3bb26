/*
 * lease — see lease.h.
 */
#include "io/local/lease.h"

#include "base/clock.h"
#include "base/os/machine.h"
#include "base/os/thread.h"
#include "io/file_util.h"
#include "io/local/file_local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NUMBER_DIGITS = 20, POLLS_PER_PERIOD = 8, ATTEMPTS_MAX = 16, ATTEMPT_PAUSE_NS = 5000000 };

struct lease {
    char folder[IO_PATH_BYTES_MAX]; /* immutable, like period_ns and record */
    uint64_t period_ns;
    struct lease_record record;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex;
    pthread_cond_t quit_changed;
    bool quit; /* guarded by mutex, like all members below */
    uint64_t number;
    bool may_have_next_number; /* the last heartbeat failed but may have created its number */
    bool is_lost;
    struct err lost; /* names the new owner */
};

/* ---- Files in the folder. ---- */

static int number_path(const char *folder, uint64_t number, char path[IO_PATH_BYTES_MAX],
                       struct err *err)
{
    char name[NUMBER_DIGITS + 1];
    snprintf(name, sizeof name, "%020" PRIu64, number);
    return io_join_path(folder, name, path, err);
}

/* *ret_number is 0 if there is no number. */
static int find_highest_number(const char *folder, uint64_t *ret_number, struct err *err)
{
    uint64_t number = 0;
    DIR *list = opendir(folder);
    if (!list)
        return local_error(err, -errno, folder, "could not check the lease");
    struct dirent *entry;
    while (errno = 0, (entry = readdir(list))) {
        if (strlen(entry->d_name) != NUMBER_DIGITS || entry->d_name[0] > '0' ||
            strspn(entry->d_name, "0123456789") != NUMBER_DIGITS)
            continue;
        uint64_t found = strtoull(entry->d_name, NULL, 10);
        number = found > number ? found : number;
    }
    int status = errno ? local_error(err, -errno, folder, "could not check the lease") : 0;
    closedir(list);
    if (!status)
        *ret_number = number;
    return status;
}

/* Removes the number again if writing to it fails. */
static int create_number(const char *folder, uint64_t number, const struct lease_record *record,
                         struct err *err)
{
    char path[IO_PATH_BYTES_MAX], text[LEASE_TEXT_BYTES_MAX];
    size_t bytes = lease_format(record, text);
    int status = number_path(folder, number, path, err);
    if (status)
        return status;
    int fd = LOCAL_RETRY(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd < 0)
        return local_error(err, -errno, path, "could not renew the lease");
    ssize_t written = LOCAL_RETRY(write(fd, text, bytes));
    status = written < 0 ? -errno : (size_t)written < bytes ? -EIO : 0;
    if (close(fd) && !status) /* shared storage may report write errors here */
        status = -errno;
    if (!status)
        return 0;
    unlink(path);
    return local_error(err, status, path, "could not renew the lease");
}

static void remove_number(const char *folder, uint64_t number)
{
    char path[IO_PATH_BYTES_MAX];
    if (number_path(folder, number, path, NULL) == 0)
        unlink(path);
}

/* -ENOENT: the number no longer exists; -EBADMSG or another -errno: it is unreadable, and the
 * record has no owner. */
static int read_record(const char *folder, uint64_t number, struct lease_record *ret_record)
{
    char path[IO_PATH_BYTES_MAX], text[LEASE_TEXT_BYTES_MAX];
    *ret_record = (struct lease_record){.period_ms = LEASE_PERIOD_MAX_MS};
    int status = number_path(folder, number, path, NULL);
    if (status)
        return status;
    int fd = LOCAL_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd < 0)
        return errno == ESTALE ? -ENOENT : -errno;
    ssize_t bytes = LOCAL_RETRY(read(fd, text, sizeof text));
    status = bytes < 0 ? -errno : 0;
    close(fd);
    return status ? status : lease_parse(text, (size_t)bytes, ret_record);
}

/* If the number is unreadable, takes the period from a lower number: the owner probably died during
 * a heartbeat. */
static int read_watched_record(const char *folder, uint64_t number, struct lease_record *ret_record)
{
    struct lease_record below;
    int status = read_record(folder, number, ret_record);
    if (status == 0 || status == -ENOENT)
        return status;
    for (uint64_t i = 1; i < LEASE_KEPT && i < number; i++)
        if (read_record(folder, number - i, &below) == 0 && !below.is_free) {
            ret_record->period_ms = below.period_ms;
            break;
        }
    return status;
}

/* Retries a record that may be partly written. */
static int read_fresh_record(const char *folder, uint64_t number, struct lease_record *ret_record)
{
    int status = read_record(folder, number, ret_record);
    for (int attempt = 0; attempt < ATTEMPTS_MAX && status == -EBADMSG; attempt++) {
        clock_sleep_ns(ATTEMPT_PAUSE_NS);
        status = read_record(folder, number, ret_record);
    }
    return status;
}

/* Retries, because the owner may remove the number after the listing. */
static int read_highest_record(const char *folder, struct lease_record *ret_record)
{
    uint64_t highest;
    int status = -ENOENT;
    *ret_record = (struct lease_record){0};
    for (int attempt = 0; attempt < ATTEMPTS_MAX && status == -ENOENT; attempt++) {
        status = find_highest_number(folder, &highest, NULL);
        if (!status)
            status = read_fresh_record(folder, highest, ret_record);
    }
    return status;
}

static int owned_error(const char *folder, const struct lease_record *owner, const char *what,
                       struct err *err)
{
    char parent[IO_PATH_BYTES_MAX], text[LEASE_TEXT_BYTES_MAX] = "";
    io_parent_path(folder, parent);
    if (*owner->host)
        snprintf(text, sizeof text, "host=%s pid=%" PRIu64 " boot=%s", owner->host, owner->pid,
                 owner->boot);
    return local_owned_error(parent, text, what, err);
}

/* ---- Taking a number. ---- */

/* Creates number and checks that it is the highest. -EEXIST if another process created it first. */
static int claim_number(const char *folder, uint64_t number, const struct lease_record *record,
                        struct err *err)
{
    uint64_t highest;
    int status = create_number(folder, number, record, err);
    if (!status)
        status = find_highest_number(folder, &highest, err);
    else
        return status;
    if (!status && highest > number)
        status = -EEXIST;
    if (status)
        remove_number(folder, number);
    else if (number > LEASE_KEPT)
        remove_number(folder, number - LEASE_KEPT);
    return status;
}

/* Records the new owner. Call with the mutex held. */
static int record_loss(struct lease *lease, struct err *err)
{
    struct lease_record owner;
    read_highest_record(lease->folder, &owner);
    owned_error(
        lease->folder, &owner,
        "this run no longer owns the folder: its lease expired and another run took it over",
        &lease->lost);
    lease->is_lost = true;
    if (err)
        *err = lease->lost;
    return -EBUSY;
}

/* Whether the next number is ours: it has our token, or is unreadable after our failed heartbeat.
 * Call with the mutex held. */
static bool is_next_number_own(const struct lease *lease)
{
    struct lease_record record;
    uint64_t highest, next = lease->number + 1;
    int status = read_fresh_record(lease->folder, next, &record);
    bool is_own = status == 0 ? record.token == lease->record.token
                              : status == -EBADMSG && lease->may_have_next_number;
    return is_own && find_highest_number(lease->folder, &highest, NULL) == 0 && highest == next;
}

/* Takes the next number. Call with the mutex held. */
static int take_next_number(struct lease *lease, struct err *err)
{
    int status = claim_number(lease->folder, lease->number + 1, &lease->record, err);
    if (status == -ENOENT &&
        mkdir(lease->folder, 0777) == 0) /* the folder was removed by mistake */
        status = claim_number(lease->folder, lease->number + 1, &lease->record, err);
    if (status == -EEXIST && is_next_number_own(lease)) {
        if (++lease->number > LEASE_KEPT)
            remove_number(lease->folder, lease->number - LEASE_KEPT);
        status = claim_number(lease->folder, lease->number + 1, &lease->record, err);
    }
    if (!status)
        lease->number++;
    return status;
}

/* Call with the mutex held. */
static int heartbeat(struct lease *lease, struct err *err)
{
    if (lease->is_lost) {
        if (err)
            *err = lease->lost;
        return -EBUSY;
    }
    int status = take_next_number(lease, err);
    lease->may_have_next_number = status != 0;
    return status == -EEXIST ? record_loss(lease, err) : status;
}

static void *heartbeat_main(void *context)
{
    struct lease *lease = context;
    pthread_mutex_lock(&lease->mutex);
    while (!lease->quit && !lease->is_lost) {
        struct timespec until = clock_timespec(clock_now_ns() + lease->period_ns);
        if (pthread_cond_timedwait(&lease->quit_changed, &lease->mutex, &until) == ETIMEDOUT)
            heartbeat(lease, NULL); /* the next one retries; lease_check reports a failure */
    }
    pthread_mutex_unlock(&lease->mutex);
    return NULL;
}

/* ---- Watching another owner. ---- */

static uint64_t own_pid_space(void)
{
    struct stat info;
    return stat("/proc/self/ns/pid", &info) ? 0 : (uint64_t)info.st_ino;
}

static void describe_self(struct lease_record *record, uint64_t period_ns)
{
    *record = (struct lease_record){.period_ms = period_ns / 1000000,
                                    .pid = (uint64_t)getpid(),
                                    .pid_space = own_pid_space(),
                                    .boot = "unknown",
                                    .host = "unknown"};
    char text[MACHINE_TEXT_BYTES];
    if (*machine_boot_id(text, sizeof text))
        snprintf(record->boot, sizeof record->boot, "%.*s", LEASE_BOOT_BYTES - 1, text);
    gethostname(record->host, sizeof record->host - 1);
    for (char *at = record->host; *at; at++) /* printable characters only, see lease_parse */
        if (*at <= ' ' || *at > '~')
            *at = '_';
}

/* Whether the owner was a process on this kernel that no longer exists. */
static bool is_dead(const struct lease_record *owner, const struct lease_record *self)
{
    return *owner->host && owner->pid_space != 0 && owner->pid_space == self->pid_space &&
           strcmp(owner->boot, self->boot) == 0 && strcmp(self->boot, "unknown") != 0 &&
           kill((pid_t)owner->pid, 0) != 0 && errno == ESRCH;
}

/* Returns 0: the next number may be taken; -EEXIST: there is a higher number, and its owner no
 * longer exists; -EBUSY: the owner is alive. */
static int watch_owner(const char *folder, uint64_t number, const struct lease_record *self,
                       struct err *err)
{
    struct lease_record owner;
    uint64_t began_ns = clock_now_ns(), highest = number;
    for (;;) {
        int status = highest == number ? read_watched_record(folder, number, &owner) : -ENOENT;
        bool has_moved = status == -ENOENT;
        if (has_moved)
            status = read_highest_record(folder, &owner);
        bool is_available = status == 0 && (owner.is_free || is_dead(&owner, self));
        if (has_moved)
            return is_available ? -EEXIST : owned_error(folder, &owner, LOCAL_OWNED_MESSAGE, err);
        uint64_t period_ns = owner.period_ms * 1000000, pause_ns = period_ns / POLLS_PER_PERIOD;
        if (is_available || clock_now_ns() - began_ns >= LEASE_EXPIRY_PERIODS * period_ns)
            return 0;
        clock_sleep_ns(pause_ns);
        status = find_highest_number(folder, &highest, err);
        if (status)
            return status;
    }
}

static int acquire_number(struct lease *lease, struct err *err)
{
    struct lease_record owner;
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        uint64_t highest;
        int status = find_highest_number(lease->folder, &highest, err);
        if (!status && highest > 0)
            status = watch_owner(lease->folder, highest, &lease->record, err);
        if (!status)
            status = claim_number(lease->folder, highest + 1, &lease->record, err);
        if (!status)
            lease->number = highest + 1;
        if (status != -EEXIST)
            return status;
    }
    read_highest_record(lease->folder, &owner);
    return owned_error(lease->folder, &owner, LOCAL_OWNED_MESSAGE, err);
}

/* ---- The lease. ---- */

static int start_heartbeat(struct lease *lease, struct err *err)
{
    int status = thread_start(&lease->thread, heartbeat_main, lease);
    lease->has_thread = status == 0;
    return status ? err_errno(err, status, "could not start a thread to renew the lease") : 0;
}

int lease_acquire(const char *folder, uint64_t period_ns, struct lease **ret_lease, struct err *err)
{
    struct lease *lease = calloc(1, sizeof *lease);
    if (!lease)
        return err_set(err, -ENOMEM, "out of memory for a lease");
    pthread_mutex_init(&lease->mutex, NULL);
    thread_cond_init(&lease->quit_changed);
    lease->period_ns = period_ns ? period_ns : LEASE_PERIOD_DEFAULT_NS;
    describe_self(&lease->record, lease->period_ns);
    int status = getentropy(&lease->record.token, sizeof lease->record.token)
                     ? err_errno(err, -errno, "could not get random bytes for a lease")
                     : io_join_path(folder, LEASE_FOLDER_NAME, lease->folder, err);
    if (!status && mkdir(lease->folder, 0777) && errno != EEXIST)
        status =
            local_error(err, -errno, lease->folder, "could not create the folder of the lease");
    if (!status)
        status = acquire_number(lease, err);
    if (!status)
        status = start_heartbeat(lease, err);
    if (status)
        lease_release(lease);
    else
        *ret_lease = lease;
    return status;
}

int lease_check(struct lease *lease, struct err *err)
{
    pthread_mutex_lock(&lease->mutex);
    int status = heartbeat(lease, err);
    pthread_mutex_unlock(&lease->mutex);
    return status;
}

void lease_release(struct lease *lease)
{
    if (!lease)
        return;
    if (lease->has_thread) {
        pthread_mutex_lock(&lease->mutex);
        lease->quit = true;
        pthread_cond_signal(&lease->quit_changed);
        pthread_mutex_unlock(&lease->mutex);
        pthread_join(lease->thread, NULL);
    }
    if (lease->number > 0 && !lease->is_lost) {
        struct lease_record record = lease->record;
        record.is_free = true;
        claim_number(lease->folder, lease->number + 1, &record, NULL);
    }
    pthread_cond_destroy(&lease->quit_changed);
    pthread_mutex_destroy(&lease->mutex);
    free(lease);
}

bool lease_was_used(const char *folder)
{
    char path[IO_PATH_BYTES_MAX];
    struct stat info;
    return io_join_path(folder, LEASE_FOLDER_NAME, path, NULL) == 0 && stat(path, &info) == 0;
}

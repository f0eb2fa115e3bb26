/*
 * machine — see machine.h.
 */
#include "base/machine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { KIB = 1024, BOOT_BYTES = 40 };

int machine_read_line(const char *path, char *text, size_t bytes)
{
    text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, bytes - 1); /* such a file comes in one piece */
    int status = n < 0 ? -errno : 0;
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return status;
}

const char *machine_boot(char *text, size_t bytes)
{
    machine_read_line("/proc/sys/kernel/random/boot_id", text, bytes);
    return text;
}

const char *machine_host(char text[MACHINE_HOST_BYTES])
{
    char host[HOST_NAME_MAX + 1] = "", boot[BOOT_BYTES];
    static_assert(sizeof host + sizeof boot <= MACHINE_HOST_BYTES, "there is room");
    gethostname(host, sizeof host - 1);
    snprintf(text, MACHINE_HOST_BYTES, "%s %s", host, machine_boot(boot, sizeof boot));
    return text;
}

const char *machine_cpu_model(char *text, size_t bytes)
{
    snprintf(text, bytes, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return text;
    char line[512];
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(text, bytes, "%s", colon + 1 + (colon[1] == ' '));
        break;
    }
    fclose(file);
    return text;
}

int machine_read_memory(struct machine_memory *ret_memory)
{
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file)
        return -errno;
    uint64_t total_kib = 0, available_kib = 0;
    bool has_total = false, has_available = false;
    char line[128];
    while (fgets(line, sizeof line, file)) {
        has_total = has_total || sscanf(line, "MemTotal: %" SCNu64, &total_kib) == 1;
        has_available = has_available || sscanf(line, "MemAvailable: %" SCNu64, &available_kib) == 1;
    }
    fclose(file);
    if (!has_total || !has_available)
        return -EBADMSG;
    *ret_memory = (struct machine_memory){total_kib * KIB, available_kib * KIB};
    return 0;
}

uint64_t machine_process_bytes(void)
{
    char text[MACHINE_TEXT_BYTES];
    uint64_t size_pages, resident_pages;
    if (machine_read_line("/proc/self/statm", text, sizeof text) ||
        sscanf(text, "%" SCNu64 " %" SCNu64, &size_pages, &resident_pages) != 2)
        return 0;
    return resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t machine_process_peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

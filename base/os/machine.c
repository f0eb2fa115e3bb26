/*
 * machine — see machine.h.
 */
#include "base/os/machine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { KIB = 1024, BOOT_BYTES = 40, MOUNT_LINE_BYTES = 4096 };

int machine_read_line(const char *path, char *text, size_t bytes)
{
    text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, bytes - 1); /* the kernel returns such a file in one read */
    int status = n < 0 ? -errno : 0;
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return status;
}

const char *machine_boot_id(char *text, size_t bytes)
{
    machine_read_line("/proc/sys/kernel/random/boot_id", text, bytes);
    return text;
}

const char *machine_host_id(char text[MACHINE_HOST_ID_BYTES])
{
    char host[HOST_NAME_MAX + 1] = "", boot[BOOT_BYTES];
    static_assert(sizeof host + sizeof boot <= MACHINE_HOST_ID_BYTES, "a host ID fits");
    gethostname(host, sizeof host - 1);
    snprintf(text, MACHINE_HOST_ID_BYTES, "%s %s", host, machine_boot_id(boot, sizeof boot));
    return text;
}

bool machine_has_file(const char *root, const char *path)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    return access(full, F_OK) == 0;
}

/* True in most containers. */
static bool has_overlay_root(const char *root)
{
    char full[PATH_MAX], line[MOUNT_LINE_BYTES], point[64], type[64];
    bool is_overlay = false;
    snprintf(full, sizeof full, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(full, "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *dash = strstr(line, " - ");
        if (dash && sscanf(line, "%*s %*s %*s %*s %63s", point) == 1 && strcmp(point, "/") == 0 &&
            sscanf(dash, " - %63s", type) == 1)
            is_overlay = strcmp(type, "overlay") == 0; /* the last mount wins */
    }
    if (file)
        fclose(file);
    return is_overlay;
}

static const char *container_from_environment(void)
{
    const char *name = getenv("container");
    if (name && *name)
        return name;
    if (getenv("KUBERNETES_SERVICE_HOST"))
        return "kubernetes";
    return getenv("SINGULARITY_NAME") || getenv("APPTAINER_NAME") ? "apptainer" : NULL;
}

const char *machine_container(const char *root)
{
    static const struct {
        const char *path, *kind;
    } marks[] = {{"/.dockerenv", "docker"},
                 {"/run/.containerenv", "podman"},
                 {"/.singularity.d", "apptainer"},
                 {"/run/systemd/container", "systemd"}};
    const char *kind = *root ? NULL : container_from_environment();
    for (size_t i = 0; !kind && i < sizeof marks / sizeof marks[0]; i++)
        kind = machine_has_file(root, marks[i].path) ? marks[i].kind : NULL;
    return kind ? kind : has_overlay_root(root) ? "its root is an overlay" : NULL;
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
        has_available =
            has_available || sscanf(line, "MemAvailable: %" SCNu64, &available_kib) == 1;
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

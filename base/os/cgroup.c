/*
 * cgroup — see cgroup.h; file formats: the kernel's Documentation/admin-guide/cgroup-v1 and
 * cgroup-v2.rst.
 *
 *     /proc/self/cgroup
 *         9:cpu,cpuacct:/docker/ab     version 1: number, controllers, group
 *         0::/docker/ab                version 2: one hierarchy for all
 *     /proc/self/mountinfo             root, mount point, ..., type, source, options
 *         36 24 0:30 /docker/ab /sys/fs/cgroup/cpu rw shared:7 - cgroup cgroup rw,cpu,cpuacct
 */
#include "base/os/cgroup.h"

#include "base/os/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = PATH_MAX + 512, FOLDER_BYTES = 2 * PATH_MAX };

/* From this size on, a version 1 value means no limit: the kernel reports a huge number. */
#define V1_MEMORY_NONE_BYTES (UINT64_C(1) << 62)

/* The version 2 hierarchy (controller NULL), or the version 1 hierarchy with the controller. */
struct hierarchy {
    const char *controller;
    char group[PATH_MAX]; /* of this process */
    char root[PATH_MAX];  /* the group at the mount's root */
    char mount[PATH_MAX];
};

static bool list_contains(const char *list, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *at = list; at && *at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0'))
            return true;
    }
    return false;
}

static void strip_newline(char *line)
{
    line[strcspn(line, "\n")] = '\0';
}

/* Returns whether this line of /proc/self/cgroup describes the hierarchy. */
static bool parse_group_line(struct hierarchy *hierarchy, char *line)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return false;
    *controllers++ = *group++ = '\0';
    bool is_match = hierarchy->controller ? list_contains(controllers, hierarchy->controller)
                                          : strcmp(line, "0") == 0 && *controllers == '\0';
    if (is_match)
        snprintf(hierarchy->group, sizeof hierarchy->group, "%s", group);
    return is_match;
}

/* Likewise for /proc/self/mountinfo. */
static bool parse_mount_line(struct hierarchy *hierarchy, char *line)
{
    char *dash = strstr(line, " - "), type[32], options[1024];
    if (!dash || sscanf(dash, " - %31s %*s %1023s", type, options) != 2 ||
        sscanf(line, "%*s %*s %*s %4095s %4095s", hierarchy->root, hierarchy->mount) != 2)
        return false;
    if (!hierarchy->controller)
        return strcmp(type, "cgroup2") == 0;
    return strcmp(type, "cgroup") == 0 && list_contains(options, hierarchy->controller);
}

static bool find_line(const char *root, const char *path, struct hierarchy *hierarchy,
                      bool (*parse)(struct hierarchy *hierarchy, char *line))
{
    char full[PATH_MAX], line[LINE_BYTES];
    snprintf(full, sizeof full, "%s%s", root, path);
    FILE *file = fopen(full, "re");
    if (!file)
        return false;
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        strip_newline(line);
        found = parse(hierarchy, line);
    }
    fclose(file);
    return found;
}

static int read_line_in(const char *folder, const char *name, char text[MACHINE_TEXT_BYTES])
{
    char path[FOLDER_BYTES];
    int bytes = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (bytes < 0 || (size_t)bytes >= sizeof path)
        return -ENAMETOOLONG;
    return machine_read_line(path, text, MACHINE_TEXT_BYTES);
}

/* Version 2: "150000 100000" or "max 100000". Version 1 uses two files, and -1 for no limit. */
static double read_cpu_count(const char *folder, bool is_v1)
{
    char text[MACHINE_TEXT_BYTES], period_text[MACHINE_TEXT_BYTES];
    double quota = 0, period = 0;
    if (is_v1) {
        if (read_line_in(folder, "cpu.cfs_quota_us", text) ||
            read_line_in(folder, "cpu.cfs_period_us", period_text))
            return 0;
        quota = strtod(text, NULL);
        period = strtod(period_text, NULL);
    } else if (read_line_in(folder, "cpu.max", text) ||
               sscanf(text, "%lf %lf", &quota, &period) != 2) {
        return 0;
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

static uint64_t read_memory_bytes(const char *folder, bool is_v1)
{
    char text[MACHINE_TEXT_BYTES];
    uint64_t bytes;
    if (read_line_in(folder, is_v1 ? "memory.limit_in_bytes" : "memory.max", text) ||
        sscanf(text, "%" SCNu64, &bytes) != 1) /* "max" */
        return 0;
    return is_v1 && bytes >= V1_MEMORY_NONE_BYTES ? 0 : bytes;
}

/* Reads the limits of this process's group and its mounted ancestors. */
static void read_ancestor_limits(const char *root, const struct hierarchy *hierarchy,
                                 struct cgroup_limits *limits)
{
    const char *group = hierarchy->group, *controller = hierarchy->controller;
    size_t skip = strcmp(hierarchy->root, "/") == 0 ? 0 : strlen(hierarchy->root);
    /* For a group outside the mount, only the mount's root can be read. */
    bool below =
        strncmp(group, hierarchy->root, skip) == 0 && (group[skip] == '/' || group[skip] == '\0');
    char at[PATH_MAX];
    snprintf(at, sizeof at, "%s", below ? group + skip : "");
    for (;;) {
        char folder[FOLDER_BYTES];
        int bytes = snprintf(folder, sizeof folder, "%s%s%s", root, hierarchy->mount, at);
        if (bytes < 0 || (size_t)bytes >= sizeof folder)
            return;
        if (!controller || strcmp(controller, "cpu") == 0) {
            double count = read_cpu_count(folder, controller);
            if (count > 0 && (limits->cpu_count == 0 || count < limits->cpu_count))
                limits->cpu_count = count;
        }
        if (!controller || strcmp(controller, "memory") == 0) {
            uint64_t memory = read_memory_bytes(folder, controller);
            if (memory > 0 && (limits->memory_bytes == 0 || memory < limits->memory_bytes))
                limits->memory_bytes = memory;
        }
        char *slash = strrchr(at, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

void cgroup_read_limits(const char *root, struct cgroup_limits *ret_limits)
{
    static const char *const controllers[] = {"cpu", "memory", NULL};
    struct cgroup_limits limits = {0};
    for (size_t i = 0; i < sizeof controllers / sizeof controllers[0]; i++) {
        struct hierarchy hierarchy = {.controller = controllers[i]};
        if (find_line(root, "/proc/self/cgroup", &hierarchy, parse_group_line) &&
            find_line(root, "/proc/self/mountinfo", &hierarchy, parse_mount_line))
            read_ancestor_limits(root, &hierarchy, &limits);
    }
    *ret_limits = limits;
}

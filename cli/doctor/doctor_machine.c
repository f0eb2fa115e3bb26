/*
 * doctor_machine — checks processor, memory, limits and clock. See doctor.h.
 */
#include "cli/doctor/doctor.h"

#include "base/clock.h"
#include "base/os/cgroup.h"
#include "base/os/machine.h"
#include "base/os/open_files.h"
#include "base/os/thread_pool.h"
#include "image/kernels/kernels.h"
#include "loader/loader.h"
#include "loader/parts/shard_cache.h"
#include "trainer/ops/ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    SHARDS_OPEN_RECOMMENDED = 256, /* 64 GiB in shards of 256 MiB */
    CLOCK_READS = 1000,
    CLOCK_SLOW_NS = 1000, /* with a system call; without one about 30 */
};

static void check_cpu(struct doctor_finding *finding)
{
    char model[MACHINE_TEXT_BYTES];
    struct cgroup_limits limits;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned usable = thread_pool_cpu_count();
    cgroup_read_limits("", &limits);
    machine_cpu_model(model, sizeof model);
    doctor_report(finding, "%s; %u of %ld CPUs usable", model, usable, online);
    jsonx_write_string(&finding->json, "model", model);
    jsonx_write_u64(&finding->json, "usable_count", usable);
    jsonx_write_i64(&finding->json, "online_count", online);
    jsonx_write_f64(&finding->json, "quota_count", limits.cpu_count > 0 ? limits.cpu_count : NAN);
    if (limits.cpu_count > 0 && limits.cpu_count <= usable)
        doctor_report(finding, ", limited to %.3g by the control group", limits.cpu_count);
    if (limits.cpu_count > 0 && limits.cpu_count < usable)
        doctor_advise(finding, DOCTOR_NOTE,
                      "give the control group whole CPUs: a fraction of a CPU gets a thread that "
                      "is throttled");
}

/* Lists those that the kernels of millrace or OpenBLAS use. */
static void list_instruction_sets(struct doctor_finding *finding)
{
    jsonx_begin_array(&finding->json, "instruction_sets");
#ifdef __x86_64__
    const struct {
        const char *name;
        bool is_supported;
    } sets[] = {
        {"sse4.2", __builtin_cpu_supports("sse4.2")},
        {"avx", __builtin_cpu_supports("avx")},
        {"avx2", __builtin_cpu_supports("avx2")},
        {"fma", __builtin_cpu_supports("fma")},
        {"avx512f", __builtin_cpu_supports("avx512f")},
        {"avx512bw", __builtin_cpu_supports("avx512bw")},
        {"avx512dq", __builtin_cpu_supports("avx512dq")},
        {"avx512vl", __builtin_cpu_supports("avx512vl")},
        {"avx512vbmi", __builtin_cpu_supports("avx512vbmi")},
    };
    const char *separator = "; the processor has ";
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (!sets[i].is_supported)
            continue;
        doctor_report(finding, "%s%s", separator, sets[i].name);
        jsonx_write_string(&finding->json, NULL, sets[i].name);
        separator = " ";
    }
#endif
    jsonx_end_array(&finding->json);
}

static void check_kernels(struct doctor_finding *finding)
{
    const char *compute = ops_cpu_kernels(), *pixels = image_kernels_name(image_kernels_best());
    doctor_report(finding, "compute: %s, pixels: %s", compute, pixels);
    jsonx_write_string(&finding->json, "compute", compute);
    jsonx_write_string(&finding->json, "pixels", pixels);
    list_instruction_sets(finding);
#ifdef __x86_64__
    if (strcmp(compute, "baseline") == 0 && __builtin_cpu_supports("avx2"))
        doctor_advise(finding, DOCTOR_NOTE,
                      "build with gcc, without sanitizers: the processor has avx2, but this build "
                      "has no kernels for it");
    else if (strcmp(compute, "baseline") == 0)
        doctor_advise(finding, DOCTOR_NOTE,
                      "training is several times faster on a processor with avx2");
#endif
}

static void check_memory(struct doctor_finding *finding)
{
    struct machine_memory memory;
    struct cgroup_limits limits;
    uint64_t loader_bytes = loader_options_default().memory_bytes;
    char total[STR_SIZE_BYTES], available[STR_SIZE_BYTES], limit[STR_SIZE_BYTES],
        default_size[STR_SIZE_BYTES];
    if (machine_read_memory(&memory)) {
        doctor_report(finding, "unknown: cannot read /proc/meminfo");
        doctor_advise(finding, DOCTOR_NOTE, "mount /proc");
        return;
    }
    cgroup_read_limits("", &limits);
    uint64_t free_bytes = memory.available_bytes;
    doctor_report(finding, "%s, %s available", str_format_size(memory.total_bytes, total),
                  str_format_size(memory.available_bytes, available));
    jsonx_write_u64(&finding->json, "total_bytes", memory.total_bytes);
    jsonx_write_u64(&finding->json, "available_bytes", memory.available_bytes);
    if (limits.memory_bytes > 0 && limits.memory_bytes < memory.total_bytes) {
        doctor_report(finding, "; limited to %s by the control group",
                      str_format_size(limits.memory_bytes, limit));
        jsonx_write_u64(&finding->json, "limit_bytes", limits.memory_bytes);
        free_bytes = limits.memory_bytes < free_bytes ? limits.memory_bytes : free_bytes;
    } else {
        jsonx_write_null(&finding->json, "limit_bytes");
    }
    jsonx_write_u64(&finding->json, "loader_default_bytes", loader_bytes);
    if (free_bytes < loader_bytes)
        doctor_advise(finding, DOCTOR_NOTE,
                      "set --memory 256MiB, or data.memory for training: `read` uses %s by default",
                      str_format_size(loader_bytes, default_size));
}

static void check_huge_pages(struct doctor_finding *finding)
{
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    char text[MACHINE_TEXT_BYTES], setting[32] = "absent"; /* "always [madvise] never" */
    if (machine_read_line(path, text, sizeof text) == 0 && strchr(text, '['))
        sscanf(strchr(text, '['), "[%31[^]]", setting);
    doctor_report(finding, "transparent huge pages: %s", setting);
    jsonx_write_string(&finding->json, "transparent", setting);
    if (strcmp(setting, "never") == 0)
        doctor_advise(finding, DOCTOR_NOTE,
                      "as root, run `echo madvise > %s`: read-ahead uses small pages", path);
}

static void add_limit(struct doctor_finding *finding, const char *key, rlim_t limit)
{
    if (limit == RLIM_INFINITY)
        jsonx_write_null(&finding->json, key);
    else
        jsonx_write_u64(&finding->json, key, limit);
}

static void check_locked_memory(struct doctor_finding *finding)
{
    struct rlimit limit;
    char size[STR_SIZE_BYTES];
    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    if (limit.rlim_cur == RLIM_INFINITY)
        doctor_report(finding, "unlimited");
    else
        doctor_report(finding, "at most %s, for io_uring rings and registered read-ahead",
                      str_format_size(limit.rlim_cur, size));
    add_limit(finding, "soft_bytes", limit.rlim_cur);
    add_limit(finding, "hard_bytes", limit.rlim_max);
}

static void check_open_files(struct doctor_finding *finding)
{
    struct rlimit limit;
    uint32_t shards = shard_cache_open_max();
    if (getrlimit(RLIMIT_NOFILE, &limit))
        limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    if (limit.rlim_cur == RLIM_INFINITY)
        doctor_report(finding, "unlimited");
    else
        doctor_report(finding, "at most %llu", (unsigned long long)limit.rlim_cur);
    doctor_report(finding, "; a loader keeps up to %" PRIu32 " shards open", shards);
    add_limit(finding, "soft_count", limit.rlim_cur);
    add_limit(finding, "hard_count", limit.rlim_max);
    jsonx_write_u64(&finding->json, "shards_open_max_count", shards);
    if (shards < SHARDS_OPEN_RECOMMENDED)
        doctor_advise(
            finding, DOCTOR_NOTE,
            "raise the limit to %d files, as datasets with more shards are slow to read: %s",
            4 * SHARDS_OPEN_MAX, open_files_advice());
}

static void check_shared_memory(struct doctor_finding *finding)
{
    struct statvfs space;
    char total[STR_SIZE_BYTES], available[STR_SIZE_BYTES];
    if (statvfs("/dev/shm", &space)) {
        doctor_report(finding, "no /dev/shm; ranks on one machine need it, a single rank does not");
        jsonx_write_null(&finding->json, "total_bytes");
        return;
    }
    uint64_t total_bytes = (uint64_t)space.f_blocks * space.f_frsize,
             free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    doctor_report(finding, "/dev/shm: %s, %s free; used between ranks on one machine",
                  str_format_size(total_bytes, total), str_format_size(free_bytes, available));
    jsonx_write_u64(&finding->json, "total_bytes", total_bytes);
    jsonx_write_u64(&finding->json, "free_bytes", free_bytes);
}

static void check_clock(struct doctor_finding *finding)
{
    char source[MACHINE_TEXT_BYTES];
    if (machine_read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                          source, sizeof source))
        snprintf(source, sizeof source, "unknown");
    uint64_t began_ns = clock_now_ns();
    for (int i = 0; i < CLOCK_READS; i++)
        clock_now_ns();
    double read_ns = (double)(clock_now_ns() - began_ns) / CLOCK_READS;
    doctor_report(finding, "%s, %.0f ns per read", source, read_ns);
    jsonx_write_string(&finding->json, "source", source);
    jsonx_write_f64(&finding->json, "look_seconds", read_ns / 1e9);
    if (read_ns > CLOCK_SLOW_NS)
        doctor_advise(
            finding, DOCTOR_NOTE,
            "use a clock source that needs no system call (tsc, kvm-clock): it is faster");
}

static void check_container(struct doctor_finding *finding)
{
    const char *kind = machine_container("");
    if (kind) {
        doctor_report(finding, "yes (%s): memory and CPUs above may be shared", kind);
        jsonx_write_string(&finding->json, "kind", kind);
    } else {
        doctor_report(finding, "none detected");
        jsonx_write_null(&finding->json, "kind");
    }
}

static const struct doctor_check checks[] = {
    {"cpu", check_cpu},
    {"kernels", check_kernels},
    {"memory", check_memory},
    {"huge pages", check_huge_pages},
    {"locked memory", check_locked_memory},
    {"open files", check_open_files},
    {"shared memory", check_shared_memory},
    {"clock", check_clock},
    {"container", check_container},
};

const struct doctor_group doctor_machine = {"machine", checks, sizeof checks / sizeof checks[0]};

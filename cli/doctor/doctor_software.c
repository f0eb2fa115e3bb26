/*
 * doctor_software — checks the libraries and services that this program uses. See doctor.h.
 */
#include "cli/core/storage.h"
#include "cli/doctor/doctor.h"

#include "base/os/machine.h"
#include "base/versions.h"
#include "cli/core/first_line.h"
#include "comm/ranks/ranks.h"
#include "convert/archive/unarchive.h"
#include "device/device.h"
#include "image/jpeg/jpeg.h"
#include "image/kernels/kernels.h"
#include "io/zstd/frame_writer.h"
#include "shards/format/index_cache.h"
#include "trainer/ops/cpu/blas.h"
#include "trainer/ops/ops.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_blas(struct doctor_finding *finding)
{
    struct blas blas;
    struct err err = {0};
    if (blas_open(&blas, &err)) {
        doctor_report_error(finding, DOCTOR_MISSING, &err);
        return;
    }
    const char *core_type = getenv("OPENBLAS_CORETYPE");
    size_t version_at = strcspn(blas.config, " ");
    version_at += blas.config[version_at] == ' ';
    /* "OpenBLAS 0.3.21"; its options follow */
    int version_end = (int)(version_at + strcspn(blas.config + version_at, " "));
    doctor_report(finding, "%.*s, kernels %s; single-threaded, millrace's threads divide the work",
                  version_end, blas.config, blas.core);
    jsonx_write_string(&finding->json, "config", blas.config);
    jsonx_write_string(&finding->json, "core", blas.core);
    if (core_type)
        doctor_advise(finding, DOCTOR_NOTE,
                      "OPENBLAS_CORETYPE=%s selects the kernels: unset it, or use the same value "
                      "for all runs that must match bit for bit",
                      core_type);
}

/* Reports at most a note: another check reports a missing BLAS. */
static void check_numerics(struct doctor_finding *finding)
{
    struct device *device = NULL;
    struct ops *ops = NULL;
    struct str id = {0};
    struct err err = {0};
    int status = device_cpu_open(&device, &err);
    if (!status)
        status = ops_cpu_open(device, DTYPE_F32, 1, &ops, &err);
    if (status) {
        doctor_report_error(finding, DOCTOR_NOTE, &err);
    } else {
        ops->table->numerics_id(ops, &id);
        doctor_report(finding, "%s", str_text(&id));
        jsonx_write_string(&finding->json, "numerics_id", str_text(&id));
    }
    str_deinit(&id);
    ops_close(ops);
    device_close(device);
}

static void check_jpeg(struct doctor_finding *finding)
{
    int simd = jpeg_simd();
    const char *kernels = image_kernels_name(image_kernels_best());
    doctor_report(finding, "crops of JPEGs: jpeg_fast, %s; other JPEGs: %s%s", kernels,
                  jpeg_library(),
                  simd > 0    ? ", with SIMD"
                  : simd == 0 ? ", without SIMD"
                              : "");
    jsonx_write_string(&finding->json, "crop_decoder", "jpeg_fast");
    jsonx_write_string(&finding->json, "library", jpeg_library());
    if (simd >= 0)
        jsonx_write_bool(&finding->json, "has_simd", simd > 0);
    else
        jsonx_write_null(&finding->json, "has_simd");
    if (!strstr(jpeg_library(), "turbo"))
        doctor_advise(finding, DOCTOR_NOTE,
                      "build with libjpeg-turbo: images decode several times faster");
    if (simd == 0)
        doctor_advise(finding, DOCTOR_NOTE,
                      "unset JSIMD_FORCENONE or install a libjpeg-turbo with SIMD: images decode "
                      "several times faster");
}

static void check_libraries(struct doctor_finding *finding)
{
    char json[VERSION_TEXT_BYTES], yaml[VERSION_TEXT_BYTES], hash[VERSION_TEXT_BYTES],
        hmac[VERSION_TEXT_BYTES], crc[VERSION_TEXT_BYTES], zstd[VERSION_TEXT_BYTES],
        archive[VERSION_TEXT_BYTES], libc[VERSION_TEXT_BYTES];
    snprintf(libc, sizeof libc, "glibc %s", gnu_get_libc_version());
    const char *const texts[] = {jsonx_version(json),        yaml_version(yaml),
                                 hash_version(hash),         hmac_version(hmac),
                                 crc_version(crc),           frame_writer_library(zstd),
                                 unarchive_library(archive), libc};
    jsonx_begin_array(&finding->json, "libraries");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        doctor_report(finding, "%s%s", i ? ", " : "", texts[i]);
        jsonx_write_string(&finding->json, NULL, texts[i]);
    }
    jsonx_end_array(&finding->json);
}

static const char *engine_name(void)
{
    struct io *io;
    if (storage_open("file:", NULL, &io, NULL))
        return "none";
    const char *name = io->ops->name;
    io_close(io);
    return name;
}

static void check_engine(struct doctor_finding *finding)
{
    const char *name = engine_name();
    doctor_report(finding, "uses %s%s", name,
                  strcmp(name, "threads") == 0 ? ": pread and pwrite" : "");
    jsonx_write_string(&finding->json, "engine", name);
}

static void check_uring(struct doctor_finding *finding)
{
    int status = io_probe_uring(), buffers_status = status ? status : io_probe_uring_buffers();
    if (status)
        doctor_report(finding, "not permitted by the kernel (%s)", strerror(-status));
    else
        doctor_report(finding, "permitted by the kernel");
    if (!status)
        doctor_report(finding,
                      buffers_status ? ", but cannot register read-ahead (%s)"
                                     : ", can register read-ahead",
                      strerror(-buffers_status));
    doctor_report(finding, "; this build reads with %s", engine_name());
    jsonx_write_bool(&finding->json, "is_permitted", status == 0);
    jsonx_write_bool(&finding->json, "has_registering", buffers_status == 0);
    if (status == -EPERM)
        doctor_advise(finding, DOCTOR_NOTE,
                      "allow it in the container's seccomp profile, or as root run `sysctl "
                      "kernel.io_uring_disabled=0`: reading takes more CPU without it");
    else if (buffers_status == -ENOMEM)
        doctor_advise(finding, DOCTOR_NOTE,
                      "run `ulimit -l unlimited`, or set it to at least data.memory: direct reads "
                      "then take about a quarter less CPU");
}

static void check_mpi(struct doctor_finding *finding)
{
    char line[MACHINE_TEXT_BYTES], library[RANKS_MPI_LIBRARY_BYTES], program[] = "mpirun",
                                                                     option[] = "--version";
    int status = first_line_read((char *const[]){program, option, NULL}, line, sizeof line);
    if (status == -ENOENT)
        doctor_report(finding, "no mpirun on PATH; `millrace launch` needs it (openmpi-bin)");
    else if (status)
        doctor_report(finding, "cannot get the version of mpirun (%s)", strerror(-status));
    else
        doctor_report(finding, "%s", line);
    if (status)
        jsonx_write_null(&finding->json, "version");
    else
        jsonx_write_string(&finding->json, "version", line);
    if (ranks_mpi_library(library, NULL)) {
        doctor_report(finding, "; libmillrace_mpi is missing: training is limited to one rank");
        jsonx_write_null(&finding->json, "library");
    } else {
        doctor_report(finding, "; libmillrace_mpi uses %s", library);
        jsonx_write_string(&finding->json, "library", library);
    }
}

/* The folder need not exist yet. */
static void check_index_cache(struct doctor_finding *finding)
{
    static const char consequence[] = "tars without an index are scanned each time they are opened";
    char cache[IO_PATH_BYTES_MAX];
    struct io_probe probe;
    int status = index_cache_folder(cache);
    if (status) {
        doctor_report(finding, "none: neither XDG_CACHE_HOME nor HOME is an absolute path");
        jsonx_write_null(&finding->json, "path");
        doctor_advise(finding, DOCTOR_NOTE, "%s: set XDG_CACHE_HOME", consequence);
        return;
    }
    status = io_probe_folder(cache, true, &probe, NULL);
    status = status ? status : probe.write_status;
    doctor_report(finding, status ? "cannot write to %s: %s" : "%s", cache, strerror(-status));
    jsonx_write_string(&finding->json, "path", cache);
    jsonx_write_bool(&finding->json, "is_writable", status == 0);
    if (status)
        doctor_advise(finding, DOCTOR_NOTE, "%s: set XDG_CACHE_HOME to a writable folder",
                      consequence);
}

static const struct doctor_check checks[] = {
    {"matrix products", check_blas},
    {"numerics_id", check_numerics},
    {"images", check_jpeg},
    {"libraries", check_libraries},
    {"reading", check_engine},
    {"io_uring", check_uring},
    {"mpi", check_mpi},
    {"index cache", check_index_cache},
};

const struct doctor_group doctor_software = {"software", checks, sizeof checks / sizeof checks[0]};

#!/usr/bin/env bash
# The doctor agrees with other tools on what exists and what is missing.
. "$(dirname "$0")/lib.sh"
need_python

# examine ARGUMENTS...: runs the doctor with --json into `out`; prints the exit status.
examine() { status_of millrace doctor --json "$@"; }
# check_value GROUP NAME KEY: prints a value of the last check with that name in `out`. KEY: state,
# found, advice or a fact.
check_value() {
  json "[c.get('$3', c['facts'].get('$3')) for c in d['checks'] if (c['group'], c['name']) == ('$1', '$2')][-1]" out
}
# as_nobody COMMAND: runs it as an unprivileged user who may enter the scratch folder; call
# need_nobody first.
as_nobody() {
  if [[ $(id -u) != 0 ]]; then "$@"; else setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; fi
}
need_nobody() {
  chmod 755 "$scratch"
  as_nobody "$MILLRACE" --version >version 2>&1 || skip "nobody may not run the program: $(cat version)"
}
# in_mount OPTIONS COMMAND: runs it with a tmpfs mounted at `mounted` with those options.
in_mount() {
  mkdir -p mounted
  unshare -m sh -c 'mount -t tmpfs -o size=64k none mounted && umount mounted' 2>/dev/null || skip "cannot mount here"
  unshare -m sh -c "mount -t tmpfs -o $1 none mounted && $2"
}

cpus_match_nproc() {
  same "$(examine)" 0
  local quota cpus
  quota=$(check_value machine cpu quota_count) # the machine's quota; rounded up if below the number of CPUs
  cpus=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
  same "$(check_value machine cpu usable_count)" "$(awk -v q="${quota/None/0}" -v n="$cpus" \
    'BEGIN {c = int(q) < q ? int(q) + 1 : q; print (q > 0 && c < n ? c : n)}')"
  same "$(check_value machine cpu online_count)" "$(getconf _NPROCESSORS_ONLN)"
  grep -qxF "model name	: $(check_value machine cpu model)" /proc/cpuinfo || same "$(check_value machine cpu model)" unknown
  command -v taskset >/dev/null || skip "no taskset here"
  local first
  first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
  taskset -c "$first" "$MILLRACE" doctor --json >out
  same "$(check_value machine cpu usable_count)" 1
}

memory_matches_meminfo() {
  examine >/dev/null
  same "$(check_value machine memory total_bytes)" "$(awk '/^MemTotal:/ {printf "%.0f", $2 * 1024}' /proc/meminfo)"
  [[ $(check_value machine memory available_bytes) -le $(check_value machine memory total_bytes) ]]
}

cgroup_limits_are_reported() {
  in_control_group 268435456 "$MILLRACE" doctor --json >out
  same "$(check_value machine cpu quota_count)" 0.5
  same "$(check_value machine cpu usable_count)" 1
  same "$(check_value machine cpu state)" note
  same "$(check_value machine memory limit_bytes)" 268435456
  same "$(check_value machine memory state)" note
  contains "$(check_value machine memory advice)" "--memory"
}

limits_match_the_shells() {
  (ulimit -n 64; ulimit -Sl 64; millrace doctor --json >out)
  same "$(check_value machine 'open files' soft_count)" 64
  same "$(check_value machine 'open files' hard_count)" 64
  same "$(check_value machine 'open files' shards_open_max_count)" 16
  same "$(check_value machine 'open files' state)" note
  contains "$(check_value machine 'open files' advice)" "LimitNOFILE="
  same "$(check_value machine 'locked memory' soft_bytes)" 65536
  (ulimit -Sn 64; millrace doctor --json >out) # the program raises the soft limit itself
  [[ $(check_value machine 'open files' soft_count) != 64 ]] || fail "the limit was not raised"
  examine >/dev/null
  same "$(check_value machine 'open files' hard_count)" "$(ulimit -Hn | sed 's/unlimited/None/')"
}

instruction_sets_match_cpuinfo() {
  [[ $(uname -m) == x86_64 ]] || skip "not an x86"
  examine >/dev/null
  for set in $(json "' '.join(next(c for c in d['checks'] if c['name'] == 'kernels')['facts']['instruction_sets'])" out); do
    grep -qw "${set/./_}" <(grep -m1 ^flags /proc/cpuinfo) || fail "no $set in /proc/cpuinfo"
  done
}

libraries_match_pkg_config() {
  command -v pkg-config >/dev/null || skip "no pkg-config here"
  examine >/dev/null
  contains "$(check_value software libraries found)" "jansson $(pkg-config --modversion jansson)"
  contains "$(check_value software libraries found)" "libfyaml $(pkg-config --modversion libfyaml)"
  contains "$(check_value software libraries found)" "xxHash $(pkg-config --modversion libxxhash)"
  contains "$(check_value software libraries found)" "OpenSSL $(pkg-config --modversion libcrypto)"
  contains "$(check_value software libraries found)" "ISA-L $(pkg-config --modversion libisal)"
  contains "$(check_value software libraries found)" "zstd $(pkg-config --modversion libzstd)"
  contains "$(check_value software libraries found)" "libarchive $(pkg-config --modversion libarchive)"
  contains "$(check_value software images found)" "$(pkg-config --modversion libjpeg)"
}

the_loaded_blas_kernels_are_named() {
  [[ $(uname -m) == x86_64 ]] || skip "not an x86"
  env -u OPENBLAS_CORETYPE "$MILLRACE" doctor --json >out
  same "$(check_value software 'matrix products' state)" ok
  contains "$(check_value software numerics_id found)" "($(check_value software 'matrix products' core))"
  OPENBLAS_CORETYPE=Nehalem "$MILLRACE" doctor --json >out
  same "$(check_value software 'matrix products' core)" Nehalem
  same "$(check_value software 'matrix products' state)" note
  contains "$(check_value software numerics_id found)" "(Nehalem)"
}

numerics_id_matches_a_training_run() {
  examine >/dev/null
  "$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
  millrace convert dataset photos shards --quiet >/dev/null
  cat >train.yaml <<'YAML'
run:   {dir: runs/a, steps: 1}
data:  {train: shards, memory: 32MiB, image: {size: 32}}
model: {layers: 1, heads: 2, width: 32, patch: 8}
batch: {global: 8, micro: 8}
YAML
  millrace train train.yaml --quiet >/dev/null
  contains "$(json "d['numerics_id']" runs/a/ckpt/step-00000001/manifest.json)" "$(check_value software numerics_id numerics_id)"
}

io_uring_matches_the_system_call() {
  examine >/dev/null
  same "$(check_value software io_uring is_permitted)" "$("$python" -c '
import ctypes, os
fd = ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120))
print(fd >= 0)')"
  [[ $(check_value software io_uring is_permitted) == False ]] ||
    contains "io_uring threads" "$(check_value software reading engine)" # threads: built without liburing
}

registered_memory_follows_the_locked_memory_limit() {
  need_nobody # root has no such limit
  local low_kib=1024 high_kib=262144 # KiB; the doctor tries 16 MiB
  (ulimit -l $low_kib; as_nobody "$MILLRACE" doctor --json >out) || :
  [[ $(check_value software io_uring is_permitted) == True ]] || skip "nobody has no io_uring here"
  same "$(check_value software io_uring has_registering)" False
  contains "$(check_value software io_uring found)" "cannot register read-ahead (Cannot allocate memory)"
  same "$(check_value software io_uring state)" note
  contains "$(check_value software io_uring advice)" "ulimit -l unlimited"
  if (ulimit -l $high_kib) 2>/dev/null; then
    (ulimit -l $high_kib; as_nobody "$MILLRACE" doctor --json >out) || :
  else # the limit can't be raised here, but CAP_IPC_LOCK lifts it
    setpriv --inh-caps=-all,+ipc_lock --ambient-caps=-all,+ipc_lock --reuid=65534 --regid=65534 --clear-groups \
      "$MILLRACE" doctor --json >out 2>errors || skip "locked memory is limited to $(ulimit -Hl) KiB here: $(cat errors)"
  fi
  same "$(check_value software io_uring has_registering)" True
  contains "$(check_value software io_uring found)" ", can register read-ahead"
  same "$(check_value software io_uring state)" ok
}

mpiruns_version_is_reported() {
  mkdir bin
  printf '#!/bin/sh\necho "mpirun (Open MPI) 9.8.7"; echo; exec sleep 60\n' >bin/mpirun
  chmod +x bin/mpirun
  PATH=$PWD/bin:$PATH millrace doctor --json >out
  same "$(check_value software mpi version)" "mpirun (Open MPI) 9.8.7"
  printf '#!/bin/sh\n' >bin/mpirun
  PATH=$PWD/bin:$PATH millrace doctor --json >out
  same "$(check_value software mpi version)" None
  printf '#!/bin/sh\nexec sleep 300\n' >bin/mpirun # an mpirun that hangs must not block the doctor forever
  PATH=$PWD/bin:$PATH timeout 100 "$MILLRACE" doctor --json >out
  contains "$(check_value software mpi found)" "cannot get the version of mpirun"
  rm bin/mpirun
  PATH=$PWD/bin millrace doctor --json >out
  contains "$(check_value software mpi found)" "no mpirun"
}

the_mpi_librarys_version_is_reported() {
  millrace doctor --json >out
  [[ $(check_value software mpi library) != None ]] || skip "this build found no MPI"
  command -v ompi_info >/dev/null || skip "no ompi_info here"
  same "$(check_value software mpi library)" "$(ompi_info --version | head -n 1)"
}

the_index_cache_folder_is_checked() {
  XDG_CACHE_HOME=$PWD/cache millrace doctor --json >out
  same "$(check_value software 'index cache' path)" "$PWD/cache/millrace/index"
  same "$(check_value software 'index cache' state)" ok
  [[ ! -e cache ]] || fail "it was created"
  touch file
  XDG_CACHE_HOME=$PWD/file/x millrace doctor --json >out
  same "$(check_value software 'index cache' state)" note
  env -u HOME -u XDG_CACHE_HOME "$MILLRACE" doctor --json >out
  same "$(check_value software 'index cache' path)" None
  same "$(check_value software 'index cache' state)" note
}

gpus_need_a_device_file() {
  examine >/dev/null
  same "$(check_value gpu devices device_files_count)" "$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l)"
  local usable
  usable=$(check_value gpu cuda is_usable)
  printf 'run: {dir: runs/none, steps: 1}\ndevice: cuda\ndata: {train: absent}\n' >c.yaml
  [[ $(status_of millrace train c.yaml) != 0 ]] # there is no data; a build without CUDA fails before that
  if [[ $usable == True ]]; then contains "$(cat errors)" absent; else contains "$(cat errors)" "use device cpu"; fi
  one_line errors
}

# Uses the tests' own library (tests/device/nvml_fake.c).
the_driver_version_comes_from_its_library() {
  local fake_folder
  fake_folder=$(dirname "$MILLRACE")/tests/nvml_fake
  [[ -d $fake_folder ]] || skip "no fake NVML was built"
  LD_LIBRARY_PATH=$fake_folder examine >/dev/null
  same "$(check_value gpu driver version) $(check_value gpu driver nvml_answers)" "999.12.34 True"
  LD_LIBRARY_PATH=$fake_folder NVML_FAKE=no-driver examine >/dev/null
  same "$(check_value gpu driver version) $(check_value gpu driver nvml_answers)" "None False"
  contains "$(check_value gpu driver found)" "Driver Not Loaded"
}

nvidia_library_versions_match_their_headers() {
  local folder=/usr/local/cuda/include version
  [[ -f $folder/cudnn_version.h && -f $folder/nccl.h ]] || skip "no headers of cuDNN and NCCL here"
  examine >/dev/null
  version=$(awk '/^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) / {v = v s $3; s = "."} END {print v}' "$folder/cudnn_version.h")
  same "$(json "[l['version'] for c in d['checks'] if (c['group'], c['name']) == ('gpu', 'libraries') for l in c['facts']['libraries'] if l['name'] == 'cuDNN'][0]" out)" "$version"
  version=$(awk '/^#define NCCL_(MAJOR|MINOR|PATCH) / {v = v s $3; s = "."} END {print v}' "$folder/nccl.h")
  same "$(json "[l['version'] for c in d['checks'] if (c['group'], c['name']) == ('gpu', 'libraries') for l in c['facts']['libraries'] if l['name'] == 'NCCL'][0]" out)" "$version"
}

# A library under the older name, and an unloadable one under the newer name: like a run, the doctor
# tries names before the toolkit's folder.
the_reported_library_is_the_one_a_run_loads() {
  [[ -e /usr/local/cuda/lib64/libcublasLt.so.13 ]] || skip "the toolkit's folder has no cuBLASLt 13"
  : >libcublasLt.so.13
  ln -s "$(dirname "$MILLRACE")/tests/nvml_fake/libnvidia-ml.so.1" libcublasLt.so.12
  LD_LIBRARY_PATH=$PWD examine >/dev/null
  same "$(json "[l['version'] for c in d['checks'] if (c['group'], c['name']) == ('gpu', 'libraries') for l in c['facts']['libraries'] if l['name'] == 'cuBLASLt'][0]" out)" None
}

the_file_system_matches_other_tools() {
  mkdir folder
  same "$(examine folder)" 0
  same "$(check_value folder space total_bytes)" "$(stat -f -c '%b %S' folder | awk '{printf "%.0f", $1 * $2}')"
  same "$(check_value folder 'file system' path)" folder
  same "$(ls -A folder)" "" "what is left in the folder"
  command -v findmnt >/dev/null || skip "no findmnt here"
  findmnt -T folder >/dev/null || skip "findmnt knows no mount of this folder, as in a chroot"
  same "$(check_value folder 'file system' type)" "$(findmnt -n -o FSTYPE -T folder)"
}

an_in_memory_file_system_is_flagged_for_checkpoints() {
  [[ $(stat -f -c %T /dev/shm 2>/dev/null) == tmpfs && -w /dev/shm ]] || skip "no tmpfs at /dev/shm"
  same "$(examine /dev/shm)" 0
  same "$(check_value folder 'file system' type)" tmpfs
  same "$(check_value folder 'file system' state)" ok
  same "$(examine --dir "/dev/shm/absent-$$")" 0
  same "$(check_value folder 'file system' state)" note
  [[ ! -e /dev/shm/absent-$$ ]]
}

a_missing_folder_is_a_problem() {
  same "$(examine absent)" 1
  same "$(check_value folder 'file system' state)" lack
  same "$(json "d['lacks_count']" out)" 1
  one_line errors
  contains "$(cat errors)" absent
  same "$(status_of millrace doctor absent)" 1
  contains "$(cat out)" "  lack  file system"
  contains "$(tail -n 1 out)" "1 lack,"
  same "$(status_of millrace doctor s3://bucket/x)" 2
  one_line errors
  contains "$(cat errors)" s3://bucket/x
}

a_missing_output_folder_is_fine() {
  mkdir outputs
  same "$(examine --dir outputs/a/b)" 0
  same "$(check_value folder writing state)" ok
  contains "$(check_value folder 'file system' found)" "would be created in outputs"
  same "$(ls -A outputs)" ""
  touch outputs/file
  same "$(examine --dir outputs/file/b)" 1
  same "$(examine outputs/file)" 0
}

a_read_only_folder_is_a_note_for_data_and_a_problem_for_outputs() {
  need_nobody
  mkdir sealed
  chmod 555 sealed
  same "$(status_of as_nobody "$MILLRACE" doctor --json sealed)" 0
  same "$(check_value folder writing state)" note
  same "$(json "[c['name'] for c in d['checks'] if c['group'] == 'folder'][-1]" out)" writing "the last check"
  same "$(status_of as_nobody "$MILLRACE" doctor --json --dir sealed)" 1
  same "$(check_value folder writing state)" lack
  one_line errors
  contains "$(cat errors)" "Permission denied"
}

a_read_only_mount_is_reported() {
  in_mount ro '"$MILLRACE" doctor --json mounted' >out
  same "$(check_value folder writing is_writable)" False
  contains "$(check_value folder writing found)" "Read-only file system"
  same "$(check_value folder writing state)" note
}

a_full_disk_is_reported() {
  in_mount size=1m 'cat /dev/zero >mounted/filler 2>/dev/null; "$MILLRACE" doctor --json mounted; ls -A mounted >left' >out
  contains "$(check_value folder writing found)" "No space left"
  same "$(check_value folder space free_bytes)" 0
  same "$(cat left)" filler
}

# In a chroot, the mount of the root is not listed, so only its magic number identifies the file
# system.
an_unlisted_mount_is_identified_by_its_type_number() {
  cat >enter.sh <<'SH'
set -e
mount -t tmpfs none outer
mkdir -p outer/root/proc outer/root/data
cp "$MILLRACE" outer/root/millrace
ldd "$MILLRACE" | grep -o '/[^ ]*' | xargs -I{} cp -L --parents {} outer/root
mount --rbind /proc outer/root/proc
chroot outer/root /millrace doctor --json /data
SH
  mkdir outer
  unshare -m sh -c 'mount -t tmpfs none outer && mount --rbind /proc outer && chroot / true' 2>/dev/null ||
    skip "cannot mount here"
  MILLRACE=$MILLRACE unshare -m sh enter.sh >out 2>errors || : # libraries opened by name are missing there
  same "$(check_value folder 'file system' type)" tmpfs
  same "$(check_value folder 'file system' is_memory)" True
}

little_space_is_a_note() {
  in_mount size=64m '"$MILLRACE" doctor --json mounted' >out
  same "$(check_value folder space total_bytes)" $((64 << 20))
  same "$(check_value folder space state)" note
}

the_table_and_the_json_agree() {
  examine >/dev/null
  millrace doctor >table
  json "'\n'.join('  %-6s%-16s' % (c['state'], c['name']) for c in d['checks'])" out >expected
  grep -oE '^  (ok  |note|lack)  .{16}' table | cmp - expected
  same "$(json "(d['checks_count'], d['notes_count'], d['lacks_count']) == (len(d['checks']), sum(c['state'] == 'note' for c in d['checks']), 0)" out)" True
  same "$(awk 'length > 100' table)" "" "lines that are too long"
  same "$(json "[c['name'] for c in d['checks'] if (c['state'] == 'ok') != (c['advice'] is None)]" out)" "[]" "notes without advice"
}

# with_gpu_file COMMAND...: runs it with a file /dev/nvidia0 that no driver backs. Call
# need_gpu_file first.
# shellcheck disable=SC2016 # the inner shell reads it
with_gpu_file() {
  unshare -m sh -ec 'mkdir -p dev
    for name in null zero urandom random; do : >"dev/$name" && mount --bind "/dev/$name" "dev/$name"; done
    : >dev/nvidia0
    mount --rbind dev /dev
    exec "$@"' sh "$@"
}
need_gpu_file() {
  [[ ! -e /dev/nvidia0 ]] || skip "this machine has a GPU"
  with_gpu_file true 2>/dev/null || skip "cannot mount here"
}

auto_does_not_skip_an_unusable_gpu() {
  need_gpu_file
  mkdir unusable && cd unusable
  "$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
  millrace convert dataset photos shards --quiet >/dev/null
  cat >train.yaml <<'YAML'
run:   {dir: runs/a, steps: 1}
data:  {train: shards, memory: 32MiB, image: {size: 32}}
model: {layers: 1, heads: 2, width: 32, patch: 8}
batch: {global: 4, micro: 4}
YAML
  local gpu=(env -u CUDA_VISIBLE_DEVICES)
  same "$(status_of with_gpu_file "${gpu[@]}" "$MILLRACE" train train.yaml)" 1
  one_line errors
  contains "$(cat errors)" ": /dev/nvidia0"
  contains "$(cat errors)" "; use device cpu, or "
  [[ ! -e runs/a/metrics.jsonl ]] || fail "the run started"
  same "$(status_of with_gpu_file "${gpu[@]}" "$MILLRACE" train train.yaml --set device=cpu)" 0 "$(cat errors)"
  same "$(status_of with_gpu_file env CUDA_VISIBLE_DEVICES= "$MILLRACE" train train.yaml --set run.dir=runs/b)" 0 "$(cat errors)"
  same "$(status_of with_gpu_file "${gpu[@]}" "$MILLRACE" doctor --json)" 0
  contains "$(check_value gpu cuda found)" '`device: auto` is an error'
  same "$(check_value gpu cuda state)" note
  contains "$(check_value gpu cuda advice)" "use device cpu"
}

run_cases cpus_match_nproc memory_matches_meminfo \
  cgroup_limits_are_reported limits_match_the_shells \
  instruction_sets_match_cpuinfo libraries_match_pkg_config the_loaded_blas_kernels_are_named \
  numerics_id_matches_a_training_run io_uring_matches_the_system_call \
  registered_memory_follows_the_locked_memory_limit mpiruns_version_is_reported the_mpi_librarys_version_is_reported \
  the_index_cache_folder_is_checked gpus_need_a_device_file \
  auto_does_not_skip_an_unusable_gpu the_driver_version_comes_from_its_library \
  nvidia_library_versions_match_their_headers the_reported_library_is_the_one_a_run_loads the_file_system_matches_other_tools \
  an_in_memory_file_system_is_flagged_for_checkpoints a_missing_folder_is_a_problem a_missing_output_folder_is_fine \
  a_read_only_folder_is_a_note_for_data_and_a_problem_for_outputs a_read_only_mount_is_reported a_full_disk_is_reported \
  an_unlisted_mount_is_identified_by_its_type_number little_space_is_a_note the_table_and_the_json_agree

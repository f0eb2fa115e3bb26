# lib — shared by the script tests of the program: cases reported in cmocka's format, a scratch
# folder, checks.
#
#     . lib.sh; a_behavior() { ...; }; run_cases a_behavior ...
#
# A case is a function that runs in its own shell with -e; `skip REASON` ends it. MILLRACE names
# the program, RENDER_SHAPES the program that renders labeled JPEGs. The working directory is an
# empty scratch folder.
set -uo pipefail
: "${MILLRACE:?names the millrace program}"
data=${MILLRACE_TEST_DATA:-${TEST_DATA_DEFAULT:-}}
here=$(cd "$(dirname "$0")" && pwd)
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$here/../support/libc.tsan:print_suppressions=0"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/millrace-cli-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
millrace() { "$MILLRACE" "$@"; }

skip() { echo "SKIPPED: $*" >&2; exit 77; }
fail() { echo "failed: $*" >&2; exit 1; }
same() { [[ $1 == "$2" ]] || fail "${3:-}: expected \"$2\", found \"$1\""; }
# contains TEXT PART...: all parts occur.
contains() {
  local part
  for part in "${@:2}"; do [[ $1 == *"$part"* ]] || fail "expected \"$part\" within \"$1\""; done
}

# status_of COMMAND...: runs it with output to out and errors; prints its exit status.
status_of() {
  local status=0
  "$@" >out 2>errors </dev/null || status=$?
  echo "$status"
}
one_line() { same "$(wc -l <"$1")" 1 "lines of $1 ($(cat "$1"))"; }
# refused MESSAGE COMMAND...: it fails with one line, which contains the message.
refused() {
  local message=$1
  shift
  [[ $(status_of "$@" --quiet) == [12] ]] || fail "status of $*"
  contains "$(cat errors)" "$message"
  one_line errors
}

python=
for candidate in "${MILLRACE_PYTHON:-}" "${TEST_SOURCE_DIR:-.}/build/oracles/bin/python" /usr/bin/python3; do
  [[ -n $candidate && -x $candidate ]] && { python=$candidate; break; }
done
need_python() { [[ -n $python ]] || skip "no Python here"; }
# json EXPRESSION FILE: prints the value of a Python expression over the document d (a list if the file
# has several lines).
json() {
  "$python" -c 'import json, sys
d = [json.loads(line) for line in open(sys.argv[2])]
d = d[0] if len(d) == 1 else d
print(eval(sys.argv[1]))' "$1" "$2"
}

# edit_manifest FILE REGEX REPLACEMENT: changes a checkpoint's manifest.json, which REGEX must match,
# and its checksum. Requires Python.
edit_manifest() {
  "$python" - "$@" <<'PY'
import re, sys
def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff
path, pattern, replacement = sys.argv[1:]
text = open(path, "rb").read()
rest = re.sub(pattern.encode(), lambda _: replacement.encode(), text)
assert rest != text
head = b'{"crc32c":"00000000",' + rest[rest.index(b'"format"'):]
open(path, "wb").write(head.replace(b"00000000", b"%08x" % crc32c(head), 1))
PY
}

# in_control_group MEMORY_BYTES COMMAND...: runs it with the limits of a control group with that much
# memory and half a CPU: private mounts hide the kernel's cgroup files of both versions.
in_control_group() {
  grep -q ' - cgroup' /proc/self/mountinfo || skip "no control groups here"
  unshare -m sh -c 'mount -t tmpfs none /mnt' 2>/dev/null || skip "cannot mount here"
  # shellcheck disable=SC2016
  unshare -m sh -ec 'bytes=$1
    shift
    for mount in $(awk "/ - cgroup2? / {print \$5}" /proc/self/mountinfo); do
      mount -t tmpfs none "$mount"
      echo 50000 100000 >"$mount/cpu.max"
      echo 50000 >"$mount/cpu.cfs_quota_us"
      echo 100000 >"$mount/cpu.cfs_period_us"
      echo "$bytes" | tee "$mount/memory.max" >"$mount/memory.limit_in_bytes"
    done
    exec "$@"' sh "$@"
}

# cached_pages FILE...: prints the number of their pages in the page cache.
cached_pages() { fincore -nbo PAGES "$@" | awk '{pages += $1} END {print pages + 0}'; }

# drop_cached DATASET: drops its shards from the page cache; skips if cached_pages cannot count.
drop_cached() {
  command -v fincore >/dev/null || skip "no fincore here"
  millrace read "$1" --cold --quality --quiet >/dev/null
  [[ $(cached_pages "$1"/*.tar) == 0 ]] || skip "files exist only in the page cache here"
}

before_case() { :; } # a script may define it; runs in the case's shell
run_cases() {
  local name status failed=0
  for name in "$@"; do
    echo "[ RUN      ] $name"
    (set -e; before_case "$name"; "$name")
    status=$?
    case $status in
      0) echo "[       OK ] $name" ;;
      77) echo "[  SKIPPED ] $name" ;;
      *) echo "[  FAILED  ] $name"; failed=1 ;;
    esac
  done
  exit $failed
}

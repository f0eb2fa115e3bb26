#!/usr/bin/env bash
# run.sh FILE: runs pytest on a file of this folder, with the first Python that has it.
set -euo pipefail
source=${TEST_SOURCE_DIR:?}
python=
for candidate in "${MILLRACE_PYTHON:-}" "$source"/build/{frameworks,oracles}/bin/python /usr/bin/python3; do
  [[ -n $candidate ]] && "$candidate" -c 'import pytest, numpy' 2>/dev/null && { python=$candidate; break; }
done
[[ -n $python ]] || { echo "SKIPPED: no Python with pytest and numpy"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 ASAN_OPTIONS=detect_leaks=0 # Python frees nothing at its end
[[ -z ${PRELOAD:-} ]] || export LD_PRELOAD=$PRELOAD PYTHONMALLOC=malloc
status=0
"$python" -m pytest -q -p no:cacheprovider --tb=short "$source/tests/python/$1" || status=$?
[[ $status != 5 ]] || status=77 # every test needs a package that is not there
exit $status

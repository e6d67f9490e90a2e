#!/usr/bin/env bash
# `make test`: builds the programs with their invariants on (or under $SAN), then runs the checks of the tree, the unit,
# kernel and conformance programs, the corpora of the fuzz targets and the end-to-end scripts. `--long` adds tests/long
# and the long variants. Scripts find the server's binary in $INCIPIT_BINARY and the model in $INCIPIT_MODEL.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/paths.sh

BUILD=${BUILD:-build}
SAN=${SAN:-}
export OUT=$BUILD/${SAN:-checked}
export INCIPIT_BINARY=${INCIPIT_BINARY:-$PWD/$OUT/incipit}
case "$BUILD" in /*) INCIPIT_BINARY=$OUT/incipit ;; esac
export INCIPIT_MODEL=${INCIPIT_MODEL:-$(model_file smollm2)}
export PYTHON PYTHONDONTWRITEBYTECODE=1
PYTHONPATH=$PWD:$(python_packages_dir "$TEST_PACKAGES")
[ "${1:-}" != --long ] || PYTHONPATH=$PYTHONPATH:$(python_packages_dir "$LONG_PACKAGES")
NODE_PATH=$(node_packages_dir)/node_modules
export PYTHONPATH NODE_PATH

targets=(all tests)
[ "${1:-}" != e2e ] || targets=(all "$OUT/fault.so")
if ! make BUILD="$BUILD" SAN="$SAN" CHECKED=1 "${targets[@]}"; then
    echo "FAILED build"
    echo "0 passed, 1 failed"
    exit 1
fi

shopt -s nullglob globstar
if [ "${1:-}" = e2e ]; then
    mapfile -t programs < <(printf '%s\n' tests/e2e/[!_]*.py | grep -F -- "${ONLY:-}")
    exec scripts/run_tests.sh "${programs[@]}"
fi
programs=(scripts/tidy.sh)
for source in tests/unit/**/*_test.c tests/kernels/*_test.c tests/conformance/*_test.c tests/fuzz/*_fuzz.c; do
    programs+=("$OUT/${source%.c}")
done
# Names that begin with an underscore are helpers.
folders=(tests/e2e)
[ "${1:-}" != --long ] || folders+=(tests/long)
for folder in "${folders[@]}"; do
    for script in "$folder"/[!_]*.py "$folder"/[!_]*.sh; do
        programs+=("$script")
    done
done
scripts/run_tests.sh "$@" "${programs[@]}"

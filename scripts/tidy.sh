#!/usr/bin/env bash
# `make tidy`: the checks of the tree. Each prints what is wrong; here becomes a line `ok NAME` or `FAILED NAME`.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/paths.sh

failed=0
check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "ok $name"
        [ -z "$output" ] || echo "${output}"
    else
        echo "${output}"
        echo "FAILED $name"
        failed=1
    fi
}

check format scripts/format.sh --check
check includes "$PYTHON" scripts/check_includes.py
check names "$PYTHON" scripts/check_names.py
check tables "$PYTHON" scripts/check_tables.py
check registers scripts/check_registers.sh "${OUT:-${BUILD:-build}/release}"
check size "$PYTHON" scripts/check_size.py
exit $failed

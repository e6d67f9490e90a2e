#!/usr/bin/env bash
# Runs test programs one after the other and adds up what they count. Every program is a line: its name, its counts,
# its time; one that fails also shows its output. The last line is `N passed, N failed`.
#
#     scripts/run_tests.sh [--long] PROGRAM...
#
# A program counts by a closing line `N passed, N failed`, or else by its lines `ok NAME` and `FAILED NAME`. Ending with
# an error, at the time limit, or without having run anything, is one more failure. *.py runs under $PYTHON, *.sh under
# bash.
set -uo pipefail

# Sanitizers: what they find ends the program. An allocation that cannot be served is NULL, as without them.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1}

arguments=()
seconds_max=900
[ -z "${SAN:-}" ] || seconds_max=3600
if [ "${1:-}" = --long ]; then
    arguments=(--long)
    seconds_max=7200
    shift
fi
passed=0
failed=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# The output, or both ends of it.
show_failure() {
    local lines
    lines=$(wc -l <"$output")
    if [ "$lines" -le 240 ]; then
        sed 's/^/    | /' "$output"
        return
    fi
    head -n 200 "$output" | sed 's/^/    | /'
    echo "    | ... $((lines - 240)) lines left out"
    tail -n 40 "$output" | sed 's/^/    | /'
}

run() {
    local program=$1 name started ended seconds result counts here_passed here_failed
    local -a command
    name=${program#"${OUT:-}/"}
    case "$program" in
        *.py) command=("${PYTHON:-python3}" "$program") ;;
        *.sh) command=(bash "$program") ;;
        *) command=("$program") ;;
    esac
    started=$(date +%s%N)
    timeout --kill-after=10 "$seconds_max" "${command[@]}" "${arguments[@]}" >"$output" 2>&1 </dev/null
    result=$?
    ended=$(date +%s%N)
    seconds=$(awk "BEGIN { printf \"%.1f\", ($ended - $started) / 1e9 }")

    counts=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$output" | tail -n 1)
    if [ -n "$counts" ]; then
        here_passed=${counts%% passed*}
        here_failed=${counts#* passed, }
        here_failed=${here_failed% failed}
    else
        here_passed=$(grep -acE '^ok ' "$output")
        here_failed=$(grep -acE '^FAILED ' "$output")
    fi
    if [ "$here_failed" -eq 0 ] && { [ "$result" -ne 0 ] || [ "$here_passed" -eq 0 ]; }; then
        here_failed=1
        echo "$name ended with status $result and $here_passed tests" >>"$output"
    fi
    passed=$((passed + here_passed))
    failed=$((failed + here_failed))
    if [ "$here_failed" -eq 0 ]; then
        printf 'ok      %-64s %5d  %6s s\n' "$name" "$here_passed" "$seconds"
    else
        printf 'FAILED  %-64s %5d  %6s s  %d failed\n' "$name" "$here_passed" "$seconds" "$here_failed"
        show_failure
    fi
}

for program in "$@"; do
    run "$program"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

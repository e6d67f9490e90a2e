#!/usr/bin/env bash
# Looks for inputs that break a fuzz target (tests/fuzz), with clang's libFuzzer under ASan and UBSan.
#
#     scripts/fuzz.sh                        builds the targets and lists them
#     scripts/fuzz.sh TARGET CPU_MINUTES     runs one until it has used so much processor time, or found something
#     scripts/fuzz.sh --merge TARGET         brings what was found in such runs into tests/fuzz/corpus/TARGET, without
#                                            inputs that cover nothing new
#
# Inputs lie in $INCIPIT_FUZZ_DIR (~/.cache/incipit/fuzz). A finding is an input that ends the process: a failed CHECK, a
# sanitizer's report, more than 15 s by the clock, more than 2 GiB in all or 256 MiB at once.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/paths.sh

BUILD=${BUILD:-build}
FUZZ_DIR=${INCIPIT_FUZZ_DIR:-$CACHE_DIR/fuzz}
COMPILER=clang-14
INPUT_BYTES_MAX=8192

list_targets() {
    local source
    for source in tests/fuzz/*_fuzz.c; do
        source=${source##*/}
        echo "${source%_fuzz.c}"
    done
}

build() {
    if ! command -v "$COMPILER" >/dev/null ||
        [ ! -f "$("$COMPILER" -print-runtime-dir)/libclang_rt.fuzzer-$(uname -m).a" ]; then
        die "libFuzzer is not installed; as root: apt-get install clang-14 llvm-14 libclang-rt-14-dev"
    fi
    make BUILD="$BUILD" FUZZER=1 "$1"
}

# Processor time that process $1 has used, in hundredths of a second; nothing when it has ended.
cpu_time() {
    awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat" 2>/dev/null || true
}

# The last number after word $1 in the log.
last_number() {
    grep -aoE "\\b$1:? +[0-9]+" "$log" | tail -n 1 | grep -oE '[0-9]+$' || echo 0
}

run() {
    local target=$1 ticks_max used=0 now process result=0 started executions findings
    ticks_max=$(awk "BEGIN { print int($2 * 6000) }")
    work=$FUZZ_DIR/$target
    log=$work/log
    mkdir -p "$work/corpus" "$work/found" "tests/fuzz/corpus/$target"
    local -a options=(-max_len=$INPUT_BYTES_MAX -timeout=15 -rss_limit_mb=2048 -malloc_limit_mb=256 -report_slow_units=15
        -print_final_stats=1 -use_value_profile=1 -artifact_prefix="$work/found/")
    [ ! -f "tests/fuzz/$target.dict" ] || options+=(-dict="tests/fuzz/$target.dict")
    started=$(date +%s)
    "$BUILD/fuzz/tests/fuzz/${target}_fuzz" "${options[@]}" "$work/corpus" "tests/fuzz/corpus/$target" >"$log" 2>&1 &
    process=$!
    trap 'kill -INT $process 2>/dev/null || true' EXIT
    while now=$(cpu_time "$process") && [ -n "$now" ]; do
        used=$now
        [ "$used" -lt "$ticks_max" ] || kill -INT "$process" 2>/dev/null || true
        sleep 1
    done
    wait "$process" || result=$?
    trap - EXIT
    executions=$(last_number stat::number_of_executed_units)
    findings=$(find "$work/found" -type f -newermt "@$started" | wc -l)
    echo "$target: $executions executions in $((used / 100)) s of processor time ($((executions * 100 / (used + 1)))/s)," \
        "cov $(last_number cov) ft $(last_number ft), corpus $(find "$work/corpus" -type f | wc -l) files," \
        "peak $(last_number stat::peak_rss_mb) MB, slowest $(last_number stat::slowest_unit_time_sec) s, findings $findings"
    if [ "$findings" -gt 0 ]; then
        find "$work/found" -type f -newermt "@$started"
        grep -aE 'check failed|ERROR:|SUMMARY|runtime error' "$log" | head -n 5
        return 1
    fi
}

merge() {
    local target=$1 committed=tests/fuzz/corpus/$1 fresh
    fresh=$(mktemp -d)
    mkdir -p "$FUZZ_DIR/$target/corpus" "$committed"
    "$BUILD/fuzz/tests/fuzz/${target}_fuzz" -set_cover_merge=1 -use_counters=0 -max_len=$INPUT_BYTES_MAX "$fresh" "$committed" \
        "$FUZZ_DIR/$target/corpus" >"$FUZZ_DIR/$target/merge_log" 2>&1
    # Those with a name of their own show a bug that was: they stay.
    find "$committed" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
    cp "$fresh"/* "$committed/"
    rm -rf "$fresh"
    echo "$committed: $(find "$committed" -type f | wc -l) files, $(du -sb "$committed" | cut -f 1) bytes"
}

case "${1:-}" in
    '')
        build fuzz-targets
        list_targets
        ;;
    --merge)
        build "$BUILD/fuzz/tests/fuzz/$2_fuzz"
        merge "$2"
        ;;
    *)
        list_targets | grep -qx "$1" || die "there is no fuzz target \"$1\"; there are: $(list_targets | paste -sd ' ')"
        build "$BUILD/fuzz/tests/fuzz/$1_fuzz"
        run "$1" "${2:-1}"
        ;;
esac

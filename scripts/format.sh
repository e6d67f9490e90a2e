#!/usr/bin/env bash
# Lays all sources out as .clang-format says; with `--check` only says which ones are not.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/sources.sh
[ -n "$CLANG_FORMAT" ] || { echo "clang-format is not installed; make test installs it" >&2; exit 1; }

mode=(-i)
[ "${1:-}" != --check ] || mode=(--dry-run -Werror -ferror-limit=2)
source_files | xargs -r -d '\n' -n 16 -P "$(nproc)" "$CLANG_FORMAT" "${mode[@]}"

# Sourced: source_files prints our C files, one a line.
source_files() {
    find kernels model cache api server tests -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' \) 2>/dev/null | sort
}
CLANG_FORMAT=$(command -v clang-format-14 || command -v clang-format || true)

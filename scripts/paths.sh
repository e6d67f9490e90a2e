# Sourced by the scripts here: where things lie. The Python is the system's: others may lack its packages.

CACHE_DIR=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/incipit
TABLE=$(dirname "${BASH_SOURCE[0]}")/models.txt
TEST_PACKAGES=$(dirname "${BASH_SOURCE[0]}")/test_packages.txt
LONG_PACKAGES=$(dirname "${BASH_SOURCE[0]}")/test_long_packages.txt
NODE_PACKAGE=openai@6.49.0
PYTHON=/usr/bin/python3
[ -x "$PYTHON" ] || PYTHON=python3

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# model_column NAME COLUMN: a cell of the models table; fails when the name is not in it.
model_column() {
    awk -F' *[|] *' -v name="$1" -v column="$2" '
        !/^#/ { sub(/ +$/, "", $1); if ($1 == name) { print $column; found = 1 } }
        END { exit !found }' "$TABLE"
}

model_names() {
    awk -F' *[|] *' '!/^#/ && NF > 1 { sub(/ +$/, "", $1); print $1 }' "$TABLE"
}

# model_file NAME: where the model of the table lies or will lie.
model_file() {
    echo "$CACHE_DIR/models/$1/$(model_column "$1" 4)"
}

# python_packages_dir LIST: where these Python packages lie; another list is another folder.
python_packages_dir() {
    echo "$CACHE_DIR/test-packages/$(sha256sum "$1" | cut -c 1-12)"
}

node_packages_dir() {
    echo "$CACHE_DIR/test-packages/$NODE_PACKAGE"
}

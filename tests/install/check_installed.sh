#!/usr/bin/env bash
# Installs the build into a temporary folder, looks at what is exported, compiles a program against it and runs it.
# Usage: check_installed.sh BUILD_FOLDER MPICC MPIRUN PROGRAM EXPORTS_MAP
set -euo pipefail
build=$1 mpicc=$2 mpirun=$3 program=$4 exports=$5

fail() { echo "FAILED: $*"; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
DESTDIR=$dir/root meson install -C "$build" --no-rebuild --quiet

pc=$(find "$dir/root" -name cldist.pc)
[ -n "$pc" ] || fail "no cldist.pc"
prefix=$(sed -n 's/^prefix=//p' "$pc")
mkdir "$dir/pc"
sed "s|^prefix=.*|prefix=$dir/root$prefix|" "$pc" >"$dir/pc/cldist.pc"
export PKG_CONFIG_PATH=$dir/pc${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
if pkg-config --print-requires --print-requires-private cldist | grep -i mpi; then
    fail "cldist.pc requires MPI, which the wrapper gives"
fi
libdir=$(pkg-config --variable=libdir cldist)

for name in libcldist.so libcldist.so.0; do
    [ -e "$libdir/$name" ] || fail "no $libdir/$name"
done
wanted=$(sed -n '/global:/,/local:/s/^ *\([A-Za-z_0-9]*\);.*/\1/p' "$exports" | sort)
found=$(nm -D --defined-only --format=posix "$libdir/libcldist.so" | awk '$2 != "A" {print $1}' | sed 's/@.*//' | sort)
[ -n "$wanted" ] || fail "found no symbols in $exports"
# Patterns stand for what only some MPI libraries have.
while read -r pattern; do
    # shellcheck disable=SC2053
    found=$(while read -r name; do [[ $name == $pattern ]] || echo "$name"; done <<<"$found")
done < <(sed -n '/global:/,/local:/s/^ *\([A-Za-z_0-9]*[*[][^;]*\);.*/\1/p' "$exports")
diff <(echo "$wanted") <(echo "$found") || fail "exported symbols (>) are not those of exports.map (<)"

read -ra flags < <(pkg-config --cflags --libs cldist)
"$mpicc" -std=c99 -pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=300 "$program" "${flags[@]}" \
    -o "$dir/program"
"$mpicc" -x c++ -std=c++17 -DCL_TARGET_OPENCL_VERSION=300 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -fsyntax-only \
    "$program" "${flags[@]}"

export LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
"$mpirun" -n 1 "$dir/program" || fail "the program ended with status $?"

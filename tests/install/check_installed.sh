#!/usr/bin/env bash
# Installs the build into a temporary folder, checks the exported symbols, and compiles and runs a
# program against it.
# Usage: check_installed.sh BUILD_FOLDER SOURCE_FOLDER MPI_PACKAGE MPICC MPIRUN PROGRAM OPENCL_PROGRAM COLLECTIVES_PROGRAM
#            [HDF5_PROGRAM PKG_CONFIG_NAME...]
# With HDF5_PROGRAM: also checks libcldist-hdf5, with each of the named HDF5 libraries.
set -euo pipefail
build=$1 source=$2 mpi_package=$3 mpicc=$4 mpirun=$5 program=$6 opencl_program=$7 collectives_program=$8 hdf5_program=${9-}
shift $(($# < 9 ? $# : 9))

fail() { echo "FAILED: $*"; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
DESTDIR=$dir/root meson install -C "$build" --no-rebuild --quiet

# The installation is moved to another folder, where the tests use it.
pc=$(find "$dir/root" -name cldist.pc)
[ -n "$pc" ] || fail "no cldist.pc"
old=${pc%/lib*/pkgconfig/cldist.pc}
prefix=${old#"$dir/root"}
mv "$old" "$dir/moved"
rm -r "$dir/root"
pc=$(find "$dir/moved" -name cldist.pc)
export PKG_CONFIG_PATH=${pc%/*}${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
# Only the driver file may contain the folder of `meson install`.
found=$(grep -rlE "$prefix/(lib|bin|share|include)" --exclude-dir=doc --exclude=cldist-cluster.icd "$dir/moved" || true)
[ -z "$found" ] || fail "these files contain the folder $prefix: $found"
# The first library that defines an MPI function gets the program's calls.
if [ "$mpi_package" != - ]; then
    flags=$(pkg-config --libs "$mpi_package" cldist)
    [[ $flags == *-lcldist*-lmpi* ]] || fail "pkg-config --libs $mpi_package cldist gives $flags"
fi
libdir=$(realpath "$(pkg-config --variable=libdir cldist)")

for name in libcldist.so libcldist.so.0; do
    [ -e "$libdir/$name" ] || fail "no $libdir/$name"
done
# A library's threads and callbacks outlive dlclose.
for library in "$libdir"/libcldist*.so; do
    readelf -d "$library" | grep -q 'FLAGS_1.*NODELETE' || fail "$library can be unloaded"
done
# The public symbols: without those that only this project's libraries use.
exported_by() {
    nm -D --defined-only --format=posix "$libdir/$1" | awk '$2 != "A" && $1 !~ /@@CLDIST_PRIVATE_/ {print $1}' |
        sed 's/@.*//' | sort
}
# Libraries that are loaded into any program must export only their wrappers and interface.
[ "$(exported_by libcldist-cluster.so | tr '\n' ' ')" = "clGetExtensionFunctionAddress clIcdGetPlatformIDsKHR " ] ||
    fail "libcldist-cluster exports $(exported_by libcldist-cluster.so)"
if [ -e "$libdir/libcldist-analysis.so" ]; then
    [ "$(exported_by libcldist-analysis.so)" = cldist_analyse ] ||
        fail "libcldist-analysis exports $(exported_by libcldist-analysis.so)"
fi
if [ -e "$libdir/libcldist-host.so" ]; then
    found=$(exported_by libcldist-host.so)
    diff <(grep -rhow '_Z[A-Za-z0-9_]*' "$source"/src/host/*.cpp | sort -u) <(grep '^_Z' <<<"$found") ||
        fail "the C++ symbols of libcldist-host (>) are not those that it wraps (<)"
    for name in open getpid clock_gettime; do
        grep -qx "$name" <<<"$found" || fail "libcldist-host does not export $name"
    done
fi

# Without LD_LIBRARY_PATH: the command must find its libraries.
env -u LD_LIBRARY_PATH "$dir/moved/bin/cldist" doctor --help >/dev/null || fail "bin/cldist does not run"
# Checks that `cldist tune --plot` finds the script that draws plots.
cat >"$dir/profile.toml" <<'PROFILE'
version = 1
system = { host = "a", device = "b", driver = "c", mpi = "d" }
[route.to-file]
when = "now"
between = "/"
way = [{ path = "staged", maps = false, block = 0, depth = 1, bytes = [1024, 4096], microseconds = [1.0, 2.0] }]
PROFILE
said=$("$dir/moved/bin/cldist" tune --profile "$dir/profile.toml" --plot "$dir/plot.png" 2>&1) ||
    grep -q 'needs matplotlib' <<<"$said" || fail "bin/cldist does not draw: $said"

# Checks the driver that `cldist run` gives to programs. The libraries must find each other, and an
# OpenCL program the platform, without environment variables.
bare=(env -i "PATH=$PATH" "HOME=$dir" POCL_MAX_PTHREAD_COUNT=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
vendors=$("${bare[@]}" "$dir/moved/bin/cldist" run --rank -- printenv OCL_ICD_VENDORS)
[[ $vendors == "$dir"/.cache/cldist/vendors-*/ ]] || fail "bin/cldist gives programs the drivers of $vendors"
driver=$libdir/libcldist-cluster.so.0
[ "$(cat "$vendors"/*)" = "$driver" ] || fail "the driver of the moved installation is $(cat "$vendors"/*)"
# Without a home folder, it uses another folder.
vendors=$("${bare[@]}" HOME=/dev/null "$dir/moved/bin/cldist" run --rank -- printenv OCL_ICD_VENDORS)
[ "$(cat "$vendors"/*)" = "$driver" ] || fail "without a home folder bin/cldist gives programs the drivers of $vendors"
[[ $vendors != /tmp/cldist-* ]] || rm -r "$vendors"
# If the platform cannot be loaded, an error is printed in one line.
mv "$libdir/libcldist.so.0" "$dir/away"
status=0
said=$("${bare[@]}" "$dir/moved/bin/cldist" run -n 2 "$opencl_program" 2>&1) || status=$?
[[ $status = 1 && $(wc -l <<<"$said") = 1 && $said == *"the cluster platform does not load: $driver: "* ]] ||
    fail "a platform that does not load: status $status, says $said"
said=$("${bare[@]}" "$dir/moved/bin/cldist" doctor || true)
grep -q "^PROBLEM  cluster platform: .* does not load: $driver: " <<<"$said" ||
    fail "doctor does not find the platform that does not load: $said"
mv "$dir/away" "$libdir/libcldist.so.0"
said=$("${bare[@]}" "$dir/moved/bin/cldist" run -n 2 --devices cpu "$opencl_program" --devices 2 2>&1) ||
    fail "an OpenCL program under the installed cldist run: $said"
[[ $said == *" 2 devices: "*correct* ]] || fail "an OpenCL program under the installed cldist run says $said"
said=$("${bare[@]}" "$dir/moved/bin/cldist" doctor || true)
grep -q "^ok       cluster platform: " <<<"$said" || fail "doctor does not find the installed platform: $said"
# Installed programs need only the tag "runtime".
DESTDIR=$dir/runtime meson install -C "$build" --no-rebuild --quiet --tags runtime
[ ! -e "$dir/runtime$prefix/include" ] || fail "the tag runtime installs headers"
diff <(cd "$dir/moved" && find . ! -type d ! -path './include/*' ! -path '*/pkgconfig/*' ! -path '*/cmake/*' ! -path './share/doc/*' ! -path './share/man/*' | sort) \
    <(cd "$dir/runtime$prefix" && find . ! -type d ! -path './share/doc/*' | sort) | grep '^<' | grep -v '/libcldist[a-z0-9-]*\.so$' &&
    fail "the tag runtime leaves out what is listed above (<)"
# An installation that has not been moved uses its own driver file.
vendors=$dir/runtime$prefix/share/cldist/vendors/
echo "$dir/runtime$prefix${driver#"$dir/moved"}" >"$vendors/cldist-cluster.icd"
found=$("${bare[@]}" "$dir/runtime$prefix/bin/cldist" run --rank -- printenv OCL_ICD_VENDORS)
[ "$found" = "$vendors" ] || fail "bin/cldist that was not moved gives programs the drivers of $found"
said=$("${bare[@]}" "$dir/runtime$prefix/bin/cldist" run -n 2 --devices cpu "$opencl_program" --devices 2 2>&1) ||
    fail "an OpenCL program where the tag runtime alone is installed: $said"

# Checks the documents, and the references to them.
for document in README.md CHANGELOG.md quickstart.md cluster.md configuration.md tuning.md howto/tracing.md examples/hello.c; do
    [ -s "$dir/moved/share/doc/cldist/$document" ] || fail "no share/doc/cldist/$document"
done
python3 -B "$source/tools/check_docs.py" links "$dir/moved/share/doc/cldist" || fail "links of the installed documents"
[ -s "$dir/moved/include/cldist.f90" ] || fail "no Fortran module"
for page in cldist cldist-run cldist-tune; do
    [ -s "$dir/moved/share/man/man1/$page.1" ] || fail "no manual page $page(1)"
done
said=$("${bare[@]}" CLDIST_DEPHT=3 "$dir/moved/bin/cldist" doctor || true)
named=$(sed -n 's/.*CLDIST_DEPHT.*-> correct it; \(.*\) lists the settings/\1/p' <<<"$said")
[ -s "$named" ] || fail "doctor points to \"$named\", which is not there"
for library in "$libdir"/libcldist*.so; do
    missing=$(env -u LD_LIBRARY_PATH ldd "$library" | grep 'libcldist.*not found') && fail "$library: $missing"
done

read -ra flags < <(pkg-config --cflags --libs cldist)
"$mpicc" -std=c99 -pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=300 "$program" "${flags[@]}" \
    -o "$dir/program"
"$mpicc" -x c++ -std=c++17 -DCL_TARGET_OPENCL_VERSION=300 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -fsyntax-only \
    "$program" "${flags[@]}"

export LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
"$mpirun" -n 1 "$dir/program" || fail "the program ended with status $?"

# Checks the files without MPI. Neither the header nor the library needs MPI.
read -ra flags < <(pkg-config --cflags --libs cldist-file)
cc -std=c99 -pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=300 "$source/tests/install/file_program.c" \
    "${flags[@]}" -o "$dir/file-program"
if readelf -d "$libdir/libcldist-file.so" | grep -i 'NEEDED.*mpi' || ldd "$dir/file-program" | grep -i 'libmpi\|libcldist.so'; then
    fail "libcldist-file needs MPI"
fi
"$dir/file-program" || fail "the program without MPI ended with status $?"

# Checks the collectives of several devices, without MPI.
if readelf -d "$libdir/libcldist-collectives.so" | grep -i 'NEEDED.*mpi'; then fail "libcldist-collectives needs MPI"; fi
read -ra flags < <(pkg-config --cflags --libs cldist-collectives)
cc -std=c99 -pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=300 "$collectives_program" "${flags[@]}" \
    -o "$dir/collectives-program"
POCL_DEVICES='pthread pthread' "$dir/collectives-program" || fail "the collectives program ended with status $?"

[ -n "$hdf5_program" ] || exit 0
if readelf -d "$libdir/libcldist-hdf5.so" | grep 'NEEDED.*hdf5'; then fail "libcldist-hdf5 is bound to one HDF5 library"; fi
for name; do
    read -ra flags < <(pkg-config --cflags --libs cldist-hdf5 "$name")
    "$mpicc" -std=c99 -pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=300 "$hdf5_program" \
        "${flags[@]}" -o "$dir/hdf5-program"
    "$mpicc" -x c++ -std=c++17 -DCL_TARGET_OPENCL_VERSION=300 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -fsyntax-only \
        "$hdf5_program" "${flags[@]}"
    "$mpirun" -n 1 "$dir/hdf5-program" || fail "the program with $name ended with status $?"
done

#!/usr/bin/env bash
# Installs the build into a temporary folder, checks the exported symbols, and compiles and runs a
# program against it.
# Usage: check_installed.sh BUILD_FOLDER SOURCE_FOLDER MPI_PACKAGE MPICC MPIRUN PROGRAM EXPORTS_MAP OPENCL_PROGRAM
#            COLLECTIVES_PROGRAM COLLECTIVES_EXPORTS_MAP [HDF5_PROGRAM HDF5_EXPORTS_MAP PKG_CONFIG_NAME...]
# With HDF5_PROGRAM: also checks libcldist-hdf5, with each of the named HDF5 libraries.
set -euo pipefail
build=$1 source=$2 mpi_package=$3 mpicc=$4 mpirun=$5 program=$6 exports=$7 opencl_program=$8 collectives_program=$9
shift 9
collectives_exports=$1 hdf5_program=${2-} hdf5_exports=${3-}
shift $(($# < 3 ? $# : 3))

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
# The first library that defines an MPI function gets the program's calls.
if [ "$mpi_package" != - ]; then
    flags=$(pkg-config --libs "$mpi_package" cldist)
    [[ $flags == *-lcldist*-lmpi* ]] || fail "pkg-config --libs $mpi_package cldist gives $flags"
fi
libdir=$(pkg-config --variable=libdir cldist)

for name in libcldist.so libcldist.so.0; do
    [ -e "$libdir/$name" ] || fail "no $libdir/$name"
done
# A library's threads and callbacks outlive dlclose.
for library in "$libdir"/libcldist*.so; do
    readelf -d "$library" | grep -q 'FLAGS_1.*NODELETE' || fail "$library can be unloaded"
done
wanted_of() { sed -n '/global:/,/local:/s/^ *\([A-Za-z_0-9]*\);.*/\1/p' "$1" | sort; }
# Excludes symbols that only this project's libraries use.
exported_by() {
    nm -D --defined-only --format=posix "$libdir/$1" | awk '$2 != "A" && $1 !~ /@@CLDIST_PRIVATE_/ {print $1}' |
        sed 's/@.*//' | sort
}
wanted=$(wanted_of "$exports")
found=$(exported_by libcldist.so)
[ -n "$wanted" ] || fail "found no symbols in $exports"
# Patterns match symbols that only some MPI libraries have.
while read -r pattern; do
    # shellcheck disable=SC2053
    found=$(while read -r name; do [[ $name == $pattern ]] || echo "$name"; done <<<"$found")
done < <(sed -n '/global:/,/local:/s/^ *\([A-Za-z_0-9]*[*[][^;]*\);.*/\1/p' "$exports")
diff <(echo "$wanted") <(echo "$found") || fail "exported symbols (>) are not those of exports.map (<)"

# Libraries that are loaded into any program must export only their wrappers and their interface.
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
env -u LD_LIBRARY_PATH "$dir/root$prefix/bin/cldist" doctor --help >/dev/null || fail "bin/cldist does not run"
# Checks the script that draws plots.
cat >"$dir/profile.toml" <<'PROFILE'
version = 1
system = { host = "a", device = "b", driver = "c", mpi = "d" }
[route.to-file]
when = "now"
between = "/"
way = [{ path = "pinned", maps = false, block = 0, depth = 1, bytes = [1024, 4096], microseconds = [1.0, 2.0] }]
PROFILE
said=$("$dir/root$prefix/bin/cldist" tune --profile "$dir/profile.toml" --plot "$dir/plot.png" 2>&1) ||
    grep -q 'needs matplotlib' <<<"$said" || fail "bin/cldist does not draw: $said"

# Checks the driver that `cldist run` gives to programs.
vendors=$("$dir/root$prefix/bin/cldist" run --rank -- printenv OCL_ICD_VENDORS)
[[ $vendors == "$dir/root$prefix"/* ]] || fail "bin/cldist gives programs the drivers of $vendors"
driver=$(cat "$vendors"/*.icd)
[[ $driver == "$prefix"/*libcldist-cluster.so.0 && -e $dir/root$driver ]] || fail "the installed driver is $driver"

# With an empty environment the libraries must find each other, and an OpenCL program must find the
# platform. The .icd file contains the driver's path in an installation without DESTDIR. Until that
# path is corrected, one line must report the error.
bare=(env -i "PATH=$PATH" "HOME=$dir" POCL_MAX_PTHREAD_COUNT=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
if [ ! -e "$driver" ]; then
    status=0
    said=$("${bare[@]}" "$dir/root$prefix/bin/cldist" run -n 2 "$opencl_program" 2>&1) || status=$?
    [[ $status = 1 && $(wc -l <<<"$said") = 1 && $said == *"the cluster platform does not load: $driver: "* ]] ||
        fail "a platform that does not load: status $status, says $said"
    said=$("${bare[@]}" "$dir/root$prefix/bin/cldist" doctor || true)
    grep -q "^PROBLEM  cluster platform: .* does not load: $driver: " <<<"$said" ||
        fail "doctor does not find the platform that does not load: $said"
fi
echo "$dir/root$driver" >"$vendors/cldist-cluster.icd"
said=$("${bare[@]}" "$dir/root$prefix/bin/cldist" run -n 2 --devices cpu "$opencl_program" --devices 2 2>&1) ||
    fail "an OpenCL program under the installed cldist run: $said"
[[ $said == *" 2 devices: "*correct* ]] || fail "an OpenCL program under the installed cldist run says $said"
said=$("${bare[@]}" "$dir/root$prefix/bin/cldist" doctor || true)
grep -q "^ok       cluster platform: " <<<"$said" || fail "doctor does not find the installed platform: $said"
# Installed programs need only the tag "runtime".
DESTDIR=$dir/runtime meson install -C "$build" --no-rebuild --quiet --tags runtime
[ ! -e "$dir/runtime$prefix/include" ] || fail "the tag runtime installs headers"
diff <(cd "$dir/root$prefix" && find . ! -type d ! -path './include/*' ! -path '*/pkgconfig/*' ! -path './share/doc/*' ! -path './share/man/*' | sort) \
    <(cd "$dir/runtime$prefix" && find . ! -type d ! -path './share/doc/*' | sort) | grep '^<' | grep -v '/libcldist[a-z0-9-]*\.so$' &&
    fail "the tag runtime leaves out what is listed above (<)"
echo "$dir/runtime$driver" >"$dir/runtime${vendors#"$dir/root"}/cldist-cluster.icd"
said=$("${bare[@]}" "$dir/runtime$prefix/bin/cldist" run -n 2 --devices cpu "$opencl_program" --devices 2 2>&1) ||
    fail "an OpenCL program where the tag runtime alone is installed: $said"

# Checks the documents, and the references to them.
for document in README.md CHANGELOG.md quickstart.md cluster.md configuration.md tuning.md howto/tracing.md examples/hello.c; do
    [ -s "$dir/root$prefix/share/doc/cldist/$document" ] || fail "no share/doc/cldist/$document"
done
for page in cldist cldist-run cldist-tune; do
    [ -s "$dir/root$prefix/share/man/man1/$page.1" ] || fail "no manual page $page(1)"
done
said=$("${bare[@]}" CLDIST_DEPHT=3 "$dir/root$prefix/bin/cldist" doctor || true)
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
diff <(wanted_of "$source/src/file_exports.map") <(exported_by libcldist-file.so) ||
    fail "exported symbols (>) are not those of src/file_exports.map (<)"
while read -r name; do
    grep -qx " *$name;" "$exports" || fail "libcldist does not export $name, which libcldist-file exports"
done < <(wanted_of "$source/src/file_exports.map")
sed "s|^prefix=.*|prefix=$dir/root$prefix|" "$libdir/pkgconfig/cldist-file.pc" >"$dir/pc/cldist-file.pc"
read -ra flags < <(pkg-config --cflags --libs cldist-file)
cc -std=c99 -pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=300 "$source/tests/install/file_program.c" \
    "${flags[@]}" -o "$dir/file-program"
if readelf -d "$libdir/libcldist-file.so" | grep -i 'NEEDED.*mpi' || ldd "$dir/file-program" | grep -i 'libmpi\|libcldist.so'; then
    fail "libcldist-file needs MPI"
fi
"$dir/file-program" || fail "the program without MPI ended with status $?"

# Checks the collectives of several devices, without MPI.
diff <(wanted_of "$collectives_exports") <(exported_by libcldist-collectives.so) ||
    fail "exported symbols (>) are not those of $collectives_exports"
if readelf -d "$libdir/libcldist-collectives.so" | grep -i 'NEEDED.*mpi'; then fail "libcldist-collectives needs MPI"; fi
sed "s|^prefix=.*|prefix=$dir/root$prefix|" "$libdir/pkgconfig/cldist-collectives.pc" >"$dir/pc/cldist-collectives.pc"
read -ra flags < <(pkg-config --cflags --libs cldist-collectives)
cc -std=c99 -pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=300 "$collectives_program" "${flags[@]}" \
    -o "$dir/collectives-program"
POCL_DEVICES='pthread pthread' "$dir/collectives-program" || fail "the collectives program ended with status $?"

[ -n "$hdf5_program" ] || exit 0
diff <(wanted_of "$hdf5_exports") <(exported_by libcldist-hdf5.so) || fail "exported symbols (>) are not those of $hdf5_exports"
if readelf -d "$libdir/libcldist-hdf5.so" | grep 'NEEDED.*hdf5'; then fail "libcldist-hdf5 is bound to one HDF5 library"; fi
sed "s|^prefix=.*|prefix=$dir/root$prefix|" "$libdir/pkgconfig/cldist-hdf5.pc" >"$dir/pc/cldist-hdf5.pc"
for name; do
    read -ra flags < <(pkg-config --cflags --libs cldist-hdf5 "$name")
    "$mpicc" -std=c99 -pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=300 "$hdf5_program" \
        "${flags[@]}" -o "$dir/hdf5-program"
    "$mpicc" -x c++ -std=c++17 -DCL_TARGET_OPENCL_VERSION=300 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -fsyntax-only \
        "$hdf5_program" "${flags[@]}"
    "$mpirun" -n 1 "$dir/hdf5-program" || fail "the program with $name ended with status $?"
done

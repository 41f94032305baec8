#!/usr/bin/env bash
# Builds the image of packaging/Containerfile with buildah, and compiles and runs hello.c in it. mmdebstrap makes the base image,
# so no registry is needed.
# Usage: check_container.sh SOURCE_FOLDER [FOLDER]
# If FOLDER is given, its Debian packages replace the first stage of the image, which would compile everything.
# The exit status is 77 if a tool is missing or no clean system can be made.
set -euo pipefail
skip() { echo "SKIP: test of the container image: $*"; exit 77; }

here=$(dirname "$(readlink -f "$0")")
source=$1 packages=${2-}
[ "$(id -u)" -eq 0 ] || skip "it needs root"
for tool in mmdebstrap buildah; do
    command -v $tool >/dev/null || skip "$tool is not installed"
done

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
image() { # ARGUMENTS...: runs buildah with a separate image store, without a daemon
    buildah --storage-driver vfs --root "$dir/images" --runroot "$dir/run" "$@"
}
"$here/apt_settings.sh" "$dir"
echo "== Making a clean system"
TMPDIR=$dir mmdebstrap --quiet --mode=root --variant=apt --aptopt="$dir/apt.conf" --dpkgopt=force-unsafe-io \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$dir/base.tar" "$dir/sources.list" ||
    skip "no clean system can be made (see above); is a mirror of the distribution available?"
base=$(image from scratch)
image add --quiet "$base" "$dir/base.tar" / >/dev/null
image commit --quiet --rm "$base" localhost/base >/dev/null
rm "$dir/base.tar"

echo "== Building the image"
mkdir "$dir/cldist"
(cd "$source" && git ls-files -z -co --exclude-standard | xargs -0 cp --parents -Pt "$dir/cldist")
stage=()
if [ -n "$packages" ]; then
    mkdir -p "$dir/packages/build"
    cp "$packages"/*.deb "$dir/packages/build"
    stage=(--build-context "build=$dir/packages")
fi
image bud --isolation chroot --network host --build-arg BASE=localhost/base "${stage[@]}" -t cldist \
    -f "$source/packaging/Containerfile" "$dir/cldist" >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; exit 1; }

echo "== Using the image"
container=$(image from cldist)
# shellcheck disable=SC2016
image run --isolation chroot "$container" -- sh -euxc '
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    mpicc -DCL_TARGET_OPENCL_VERSION=300 /usr/share/doc/cldist/examples/hello.c -o hello $(pkg-config --cflags --libs cldist)
    mpirun -n 2 ./hello | grep "rank 1 received 1000000 elements; the last one squared is 81"
    cldist devices -n 2
    cldist doctor'
echo "The image works."

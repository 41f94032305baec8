#!/usr/bin/env bash
# Installs the Debian packages of a folder into a clean system, which mmdebstrap makes in a temporary folder and removes
# again. Compiles and runs programs there as an ordinary user, runs the demonstration, and removes the packages. The packages
# are installed by the commands of packaging/Containerfile.
# Usage: check_packages.sh SOURCE_FOLDER BUILD_FOLDER [--build]
# --build first builds the packages with `./dev package`, which fails on any report of lintian that has no override.
# Afterwards it builds the image of packaging/Containerfile from the packages, if buildah is installed.
# BUILD_FOLDER contains the programs of the demonstration.
# The exit status is 77 if a tool is missing or no clean system can be made.
set -euo pipefail
skip() { echo "SKIP: test of the packages: $*"; exit 77; }

here=$(dirname "$(readlink -f "$0")")
source=$1 build=$2
[ "$(id -u)" -eq 0 ] || skip "it needs root"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
if [ "${3-}" = --build ]; then
    for tool in dpkg-buildpackage lintian; do
        command -v $tool >/dev/null || skip "$tool is not installed"
    done
    missing=$(dpkg-checkbuilddeps "$source/debian/control" 2>&1) || skip "$missing"
    "$source/dev" package
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/{packages,programs/demo/tools/cldist}
cp "$source"/build/packages/*.deb "$dir/packages"
cp "$here/collectives_program.c" "$here/packages_program.py" "$source/tools/demo.sh" "$source/tools/timeline.py" "$dir/programs"
(cd "$build" && cp --parents examples/himeno/himeno examples/smith_waterman/smith_waterman examples/cluster/nbody \
    "$dir/programs/demo") || { echo "The programs of the demonstration are missing; run ./dev build first"; exit 1; }
ln -s /usr/bin/cldist "$dir/programs/demo/tools/cldist/cldist"
cat >"$dir/programs/run.sh" <<'END'
set -eux
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 PKG_CONFIG_PATH=
mpicc -DCL_TARGET_OPENCL_VERSION=300 /usr/share/doc/cldist/examples/hello.c -o hello $(pkg-config --cflags --libs cldist)
mpirun -n 2 ./hello | grep 'rank 1 received 1000000 elements; the last one squared is 81'
gcc -DCL_TARGET_OPENCL_VERSION=300 collectives_program.c -o collectives $(pkg-config --cflags --libs cldist-collectives)
cldist run -n 2 ./collectives
cldist run -n 2 python3 packages_program.py | grep '2 devices, all sums are right'
python3 -c 'import cldist; print("cldist for Python", cldist.__version__)'
[ -e "$(pkg-config --variable=fortran_module cldist)" ]
ldd demo/examples/himeno/himeno | grep ' => /lib.*libcldist\.so\.0'
DEMO_PATIENCE=5 bash demo.sh demo
cldist --version
cldist doctor
END

"$here/apt_settings.sh" "$dir"
python3 "$here/check_recipes.py" "$source" --print-last-run >"$dir/install.sh"

cat >"$dir/check" <<'END'
set -eu
root=$1 dir=$2
touch "$dir/started"
cp -r "$dir/packages" "$root/packages"
cp "$dir/install.sh" "$root"
quiet() { "$@" >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; return 1; }; }
echo "== Installing $(cd "$dir/packages" && echo *.deb)"
# The demonstration draws a picture.
quiet chroot "$root" sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-matplotlib'
quiet chroot "$root" sh -eu /install.sh
cp -r "$dir"/programs/* "$root/home/user"
chroot "$root" chown -R user: /home/user
echo "== Using the packages"
chroot "$root" runuser -l user -c 'sh run.sh'
echo "== Removing the packages"
names=$(cd "$dir/packages" && ls | sed 's/_.*//')
quiet chroot "$root" apt-get purge -y $names
left=$(cd "$root" && find usr etc var/lib -iname '*cldist*' -not -path 'var/lib/apt/*')
[ -z "$left" ] || { echo "FAILED: these files are left: $left"; exit 1; }
END
echo "== Making a clean system"
status=0
TMPDIR=$dir mmdebstrap --quiet --mode=root --variant=apt --format=null --aptopt="$dir/apt.conf" \
    --dpkgopt=force-unsafe-io --skip=cleanup/apt --customize-hook="sh '$dir/check' \"\$1\" '$dir'" \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" /dev/null "$dir/sources.list" || status=$?
[ -e "$dir/started" ] || skip "no clean system can be made (see above); is a mirror of the distribution available?"
[ $status -eq 0 ] || { echo "FAILED: see above"; exit 1; }
echo "The packages work in a clean system."
[ "${3-}" != --build ] || "$here/check_container.sh" "$source" "$source/build/packages" || [ $? -eq 77 ]

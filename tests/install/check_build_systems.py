#!/usr/bin/env python3
"""Installs the build, moves the installation, and builds and runs a program against it.

Usage: check_build_systems.py SYSTEM BUILD_FOLDER SOURCE_FOLDER MPI MPICC MPIRUN

SYSTEM is cmake, meson, make or mpicc. MPI is openmpi or mpich. The programs are those of this folder.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

CMAKE = """cmake_minimum_required(VERSION 3.13)
project(sample C)
find_package(cldist 0.1 REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE cldist::cldist)
add_executable(collectives collectives_program.c)
target_link_libraries(collectives PRIVATE cldist::collectives)
add_executable(file file_program.c)
target_link_libraries(file PRIVATE cldist::file)
find_package(HDF5 COMPONENTS C)
if(TARGET cldist::hdf5 AND HDF5_FOUND)
    add_executable(hdf5 hdf5_program.c)
    target_include_directories(hdf5 PRIVATE ${HDF5_C_INCLUDE_DIRS})
    target_link_libraries(hdf5 PRIVATE cldist::hdf5 ${HDF5_C_LIBRARIES})
endif()
"""

CMAKE_WITHOUT_MPI = """cmake_minimum_required(VERSION 3.13)
project(sample C)
find_package(cldist REQUIRED COMPONENTS file collectives)
if(NOT TARGET cldist::file OR NOT TARGET cldist::collectives OR TARGET cldist::cldist)
    message(FATAL_ERROR "the components file and collectives need no MPI")
endif()
"""

MESON = """project('sample', 'c', default_options: ['c_std=gnu99'])
executable('program', 'program.c', dependencies: dependency('cldist'))
executable('collectives', 'collectives_program.c', dependencies: dependency('cldist-collectives'))
executable('file', 'file_program.c', dependencies: dependency('cldist-file'))
"""

MAKE = """all: program collectives file
program: program.c
\t$(MPICC) $< $$(pkg-config --cflags --libs cldist) -o $@
collectives: collectives_program.c
\t$(CC) $< $$(pkg-config --cflags --libs cldist-collectives) -o $@
file: file_program.c
\t$(CC) $< $$(pkg-config --cflags --libs cldist-file) -o $@
"""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def needed(program):
    """The libraries that the program is linked with, in their order."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", program))


def main():
    system, build, source, mpi, mpicc, mpirun = sys.argv[1:]
    if system == "cmake" and shutil.which("cmake") is None:
        print("SKIP: cmake is not installed")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        run("meson", "install", "-C", build, "--no-rebuild", "--quiet", env=dict(os.environ, DESTDIR=str(folder / "root")))
        config = next(folder.glob("root/**/cldist.pc")).parent
        prefix = next(parent for parent in config.parents if (parent / "include/CL").exists())
        prefix = prefix.rename(folder / "moved")
        libraries = next(prefix.glob("**/libcldist.so")).parent
        for file in HERE.glob("*program.c"):
            shutil.copy(file, folder)
        environment = dict(os.environ, PKG_CONFIG_PATH=f"{libraries}/pkgconfig", MPICC=mpicc)
        place = folder
        if system == "cmake":
            (folder / "CMakeLists.txt").write_text(CMAKE)
            run("cmake", "-B", folder / "out", "-S", folder, f"-DCMAKE_PREFIX_PATH={prefix}")
            run("cmake", "--build", folder / "out")
            place = folder / "out"
            # Debian's /lib is a link to /usr/lib.
            (folder / "linked").symlink_to(libraries)
            run("cmake", "-B", folder / "through-link", "-S", folder, f"-Dcldist_DIR={folder}/linked/cmake/cldist")
            for other, text in ("without-mpi", CMAKE_WITHOUT_MPI), ("newer", CMAKE.replace("cldist 0.1 ", "cldist 0.99 ")):
                (folder / other).mkdir()
                (folder / other / "CMakeLists.txt").write_text(text)
            run("cmake", "-B", folder / "without-mpi/out", "-S", folder / "without-mpi", f"-DCMAKE_PREFIX_PATH={prefix}")
            refused = subprocess.run(["cmake", "-B", folder / "other", "-S", folder / "newer", f"-DCMAKE_PREFIX_PATH={prefix}"],
                                     capture_output=True, text=True, check=False)
            if refused.returncode == 0 or "0.1.0" not in refused.stderr:
                sys.exit(f"FAILED: CMake accepts cldist 0.1.0 for 0.99: {refused.stderr}")
        elif system == "meson":
            (folder / "meson.build").write_text(MESON)
            run("meson", "setup", folder / "out", folder, env=environment)
            run("ninja", "-C", folder / "out")
            place = folder / "out"
            # As a subproject, cldist is only configured, because compiling it again takes minutes.
            parts = folder / "parts/subprojects"
            parts.mkdir(parents=True)
            (parts / "cldist-0.1.0").symlink_to(source)
            shutil.copy(pathlib.Path(source, "packaging/cldist.wrap"), parts)
            (folder / "parts/meson.build").write_text(MESON)
            shutil.copy(folder / "program.c", folder / "parts")
            shutil.copy(folder / "collectives_program.c", folder / "parts")
            shutil.copy(folder / "file_program.c", folder / "parts")
            told = run("meson", "setup", folder / "parts/out", folder / "parts", "--force-fallback-for=cldist,cldist-file,cldist-collectives",
                       f"-Dcldist:mpi={mpi}")
            if not re.search(r"Dependency cldist (for host machine |from subproject .*)?found: YES.*overridden", told):
                sys.exit(f"FAILED: the subproject does not provide cldist: {told}")
        elif system == "make":
            (folder / "Makefile").write_text(MAKE)
            run("make", "-C", folder, env=environment)
        else:
            flags = [f"-I{prefix}/include", f"-L{libraries}"]
            run(mpicc, folder / "program.c", *flags, "-lcldist", "-lOpenCL", "-o", folder / "program")
            run("cc", folder / "collectives_program.c", *flags, "-lcldist-collectives", "-lOpenCL", "-o", folder / "collectives")
            run("cc", folder / "file_program.c", *flags, "-lcldist-file", "-lOpenCL", "-o", folder / "file")
        # CMake and Meson give programs a run path.
        running = dict(os.environ, POCL_DEVICES="pthread pthread")
        if system in ("make", "mpicc"):
            running["LD_LIBRARY_PATH"] = f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        order = [library for library in needed(place / "program") if re.match(r"libcldist\.|libmpi", library)]
        if not order or not order[0].startswith("libcldist"):
            sys.exit(f"FAILED: the program lists {order}; libcldist must precede the MPI library")
        run(mpirun, "-n", "1", place / "program", env=running)
        run(place / "collectives", env=running)
        run(place / "file", env=running)
        if (place / "hdf5").exists():
            run(mpirun, "-n", "1", place / "hdf5", env=running)
            print("with HDF5")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# A Spack package. In the folder that contains meson.build:
#   spack repo create /tmp/cldist-spack cldist
#   mkdir -p /tmp/cldist-spack/packages/cldist && cp packaging/package.py /tmp/cldist-spack/packages/cldist
#   spack repo add /tmp/cldist-spack && spack dev-build cldist@0.1.0
# README.md lists what was tried.
from spack.package import *


class Cldist(MesonPackage):
    """MPI messages, collectives and files as OpenCL commands, and an OpenCL platform with the devices of several hosts."""

    version("0.1.0")
    license("BSD-3-Clause")

    variant("hdf5", default=True, description="libcldist-hdf5: HDF5 datasets as ends of OpenCL commands")
    variant("analysis", default=False, description="libcldist-analysis: derives which bytes kernels access")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("meson@1.0.1:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("cli11@2.1.2:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("tomlplusplus@3.3:", type="build")
    depends_on("fmt@9.1:10")
    depends_on("mpi@3:")
    depends_on("ocl-icd@2.3: +headers")
    depends_on("hdf5", when="+hdf5")
    depends_on("llvm@14:16 +clang", when="+analysis")

    requires("^[virtuals=mpi] openmpi", "^[virtuals=mpi] mpich", policy="one_of", msg="other MPI libraries were not tried")

    def meson_args(self):
        def feature(name):
            return f"-D{name}={'enabled' if self.spec.satisfies('+' + name) else 'disabled'}"

        return [
            "-Dmpi=" + self.spec["mpi"].name,
            feature("hdf5"),
            feature("analysis"),
            "-Dtests=disabled",
            "-Dexamples=false",
            "-Dbenchmarks=false",
            "-Dwrap_mode=nofallback",
        ]

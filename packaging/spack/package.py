# SPDX-License-Identifier: Apache-2.0
"""Spack's recipe. Put it into a repository of yours as packages/tutti/package.py; then, in a
checkout, `spack dev-build tutti@0.1.0`. To install from a clone, let `git` name it."""
from spack.package import *


class Tutti(CMakePackage):
    """Gradient communication for data-parallel training: a library that sums and moves tensors
    between the ranks of a job, with its command line."""

    homepage = "https://tutti.example"
    git = "https://tutti.example/tutti.git"
    license("Apache-2.0")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("tools", default=True, description="the command tutti, examples and plugins")
    variant("mpi", default=False, when="+tools", description="a plugin for the site's MPI")
    variant("ucx", default=False, when="+tools", description="a plugin for UCX")
    variant("pmix", default=False, when="+tools", description="a plugin for PMIx")

    depends_on("c", type="build")
    depends_on("cmake@3.21:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("libsodium")
    depends_on("jansson", when="+tools")
    depends_on("mpi", when="+mpi")
    depends_on("ucx@1.13:", when="+ucx")
    depends_on("pmix", when="+pmix")

    generator("ninja")
    requires("platform=linux", msg="Tutti uses memfd, epoll and pidfd")

    def cmake_args(self):
        has_plugins = any(self.spec.satisfies(f"+{name}") for name in ("mpi", "ucx", "pmix"))
        return [
            self.define("TUTTI_LIBRARY_ONLY", not self.spec.satisfies("+tools")),
            self.define("TUTTI_PLUGINS", has_plugins),
            self.define("TUTTI_TESTS", "OFF"),
        ]

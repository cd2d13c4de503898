# SPDX-License-Identifier: Apache-2.0
"""Files for packagers agree with the tree: one version everywhere, options that exist.

Spack itself is not needed: a stand-in for its module records the directives of the recipe.
"""
import os
import pathlib
import re
import sys
import types
import unittest
from unittest import mock

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).parents[2]))


def text(path):
    return (SOURCE / path).read_text(encoding="utf-8")


def find(path, pattern):
    return re.search(pattern, text(path), re.M)[1]


VERSION = find("CMakeLists.txt", r"^project\(tutti VERSION ([\d.]+)")
OPTIONS = set(re.findall(r"(?:option|set)\((TUTTI_\w+)", text("CMakeLists.txt")))


class Spec:
    def __init__(self, *variants):
        self.variants = variants

    def satisfies(self, variant):
        return variant in self.variants


def recipe():
    """The class of packaging/spack/package.py, and its declarations: {directive: [arguments]}."""
    said = {}

    def directive(name):
        return lambda *words, **more: said.setdefault(name, []).append((words, more))

    package = types.ModuleType("spack.package")
    for name in "license version variant depends_on generator requires".split():
        setattr(package, name, directive(name))
    package.CMakePackage = type("CMakePackage", (), {
        "define": lambda self, name, value: (name, value)})
    modules = {"spack": types.ModuleType("spack"), "spack.package": package}
    with mock.patch.dict(sys.modules, modules):
        names = {}
        exec(compile(text("packaging/spack/package.py"), "package.py", "exec"), names)
    return names["Tutti"], said


class Packages(unittest.TestCase):
    def test_all_files_have_the_same_version(self):
        short = ".".join(VERSION.split(".")[:2])
        for path, pattern, version in (
                ("pyproject.toml", r'^version = "(.*)"', VERSION),
                ("debian/changelog", r"^tutti \((.*)\)", VERSION),
                ("CITATION.cff", r"^version: (.*)", VERSION),
                ("cmake/tutti.map", r"^TUTTI_([\d.]+)", short),
                ("debian/control", r"^Package: libtutti([\d.]+)", short)):
            self.assertEqual(find(path, pattern), version, path)
        self.assertTrue((SOURCE / f"debian/libtutti{short}.install").exists())

    def test_debian_gives_options_that_exist(self):
        given = set(re.findall(r"-D(TUTTI_\w+)", text("debian/rules")))
        self.assertTrue(given)
        self.assertLessEqual(given, OPTIONS)

    def test_spack_s_recipe_gives_options_that_exist(self):
        tutti, said = recipe()
        self.assertIn(VERSION, [words[0] for words, _ in said["version"]])
        package = tutti()
        for variants, wanted in (
                (("+tools", "+mpi"), {"TUTTI_LIBRARY_ONLY": False, "TUTTI_PLUGINS": True}),
                (("+tools",), {"TUTTI_LIBRARY_ONLY": False, "TUTTI_PLUGINS": False}),
                ((), {"TUTTI_LIBRARY_ONLY": True, "TUTTI_PLUGINS": False})):
            package.spec = Spec(*variants)
            given = dict(package.cmake_args())
            self.assertLessEqual(set(given), OPTIONS)
            self.assertEqual({name: given[name] for name in wanted}, wanted, variants)

    def test_spack_s_recipe_depends_on_all_requirements_of_the_build(self):
        _, said = recipe()
        needed = {words[0].split("@")[0] for words, _ in said["depends_on"]}
        self.assertLessEqual({"cmake", "pkgconfig", "libsodium", "jansson"}, needed)


if __name__ == "__main__":
    unittest.main()

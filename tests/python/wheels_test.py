"""The wheel: what lies in it, and which systems its tag says that it is for."""

import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, "python")
import wheel_platform

# What every system has that a manylinux tag is for (PEP 600).
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
          "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}
MODULE = "python/stowage/_core.so"


def dynamic(path):
    return subprocess.run(["readelf", "-d", path], check=True, capture_output=True,
                          text=True).stdout


class WheelsTest(unittest.TestCase):
    def test_a_tag_is_of_the_oldest_system_that_has_all_symbols(self):
        for needed, tag in [
            ({}, "2_17"),
            ({"GLIBC": (2, 34)}, "2_34"),
            ({"GLIBC": (2, 29), "GLIBCXX": (3, 4, 28)}, "2_31"),
            ({"GLIBC": (2, 34), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}, "2_35"),
            ({"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30)}, "2_36"),
            ({"GLIBC": (2, 17), "CXXABI": (1, 3, 15)}, "2_39"),
            ({"GCC": (12, 0)}, "2_35"),
        ]:
            self.assertEqual(wheel_platform.platform_tag(needed), f"manylinux_{tag}_x86_64")
        self.assertEqual(wheel_platform.platform_tag({"GLIBC": (2, 34)}, "aarch64"),
                         "manylinux_2_34_aarch64")
        with self.assertRaises(ValueError) as caught:
            wheel_platform.platform_tag({"GLIBCXX": (3, 4, 99)})
        self.assertIn("(3, 4, 99)", str(caught.exception))

    def test_symbols_are_those_that_readelf_finds(self):
        said = subprocess.run(["readelf", "-V", "-W", MODULE], check=True,
                              capture_output=True, text=True).stdout
        found = {}
        for library, numbers in re.findall(
                r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)  Flags", said):
            version = tuple(int(number) for number in numbers.split("."))
            found[library] = max(version, found.get(library, version))
        self.assertGreater(len(found), 2)
        self.assertEqual(wheel_platform.needed_versions([MODULE]), found)
        self.assertEqual(wheel_platform.needed_versions([MODULE, MODULE]), found)
        self.assertEqual(wheel_platform.needed_versions([]), {})

    def make(self, folder):
        said = subprocess.run(
            [sys.executable, "python/make_wheel.py", "--version", "1.2.3", "--module", MODULE,
             "--readme", "README.md", "--license", "LICENSE", "--out", folder,
             "python/stowage/__init__.py", "python/stowage/ops.py"],
            check=True, capture_output=True, text=True)
        return pathlib.Path(said.stdout.strip())

    def test_a_wheel_is_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            path = self.make(folder)
            again = self.make(os.path.join(folder, "again"))
            self.assertEqual(path.read_bytes(), again.read_bytes())
            python = f"cp{sys.version_info.major}{sys.version_info.minor}"
            self.assertRegex(path.name, rf"^stowage-1.2.3-{python}-{python}-manylinux_2_\d+_"
                                        r"x86_64\.whl$")
            archive = zipfile.ZipFile(path)
            names = set(archive.namelist())
            info = "stowage-1.2.3.dist-info/"
            self.assertLessEqual({"stowage/__init__.py", "stowage/ops.py", info + "METADATA",
                                  info + "WHEEL", info + "RECORD",
                                  info + "licenses/LICENSE"}, names)
            metadata = archive.read(info + "METADATA").decode()
            self.assertIn("\nRequires-Python: >=3.9\n", metadata)
            self.assertIn("\nRequires-Dist: numpy>=", metadata)
            self.assertIn(f"\nTag: {path.stem.split('-', 2)[2]}\n",
                          archive.read(info + "WHEEL").decode())
            self.check_record(archive, info + "RECORD")
            self.check_libraries(archive, folder)

    def check_record(self, archive, record):
        rows = {row[0]: row[1:] for row in
                csv.reader(io.StringIO(archive.read(record).decode()))}
        self.assertEqual(set(rows), set(archive.namelist()))
        for name, (digest, size) in rows.items():
            if name == record:
                continue
            content = archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            self.assertEqual((digest, int(size)), ("sha256=" + expected.rstrip("="),
                                                   len(content)))

    def check_libraries(self, archive, folder):
        """All that its binaries ask for is in it, or every system's."""
        archive.extractall(folder)
        package = pathlib.Path(folder, "stowage")
        (module,) = package.glob("_core.*.so")
        brought = {path.name for path in (package / "libs").glob("*")}
        for path in [module, *(package / "libs").glob("*")]:
            asked = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic(path)))
            self.assertLessEqual(asked, SYSTEM | brought, path.name)
        # The module finds them beside it, and has loaded all before they look for each other.
        self.assertRegex(dynamic(module), r"\(RUNPATH\).*\[\$ORIGIN/libs\]")
        asked = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic(module)))
        self.assertLessEqual(brought, asked)


if __name__ == "__main__":
    unittest.main(verbosity=2)

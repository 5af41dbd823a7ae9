"""Checks the includes of every tracked C++ and CUDA file.

BUILD visibility and the layering build enforce the directions between targets. This also
checks headers of third-party libraries on the compiler's own search path, and packages that
must stay apart whatever a BUILD file says.
"""

import re
import subprocess
import sys

# Package -> packages whose headers it may include, besides its own. A listed folder within a
# package counts as another package. Packages that are not listed (tests, tools, python,
# examples, bench) may include any.
PACKAGES = {
    "base": [],
    "math": [],
    "ir": ["base"],
    "autodiff": ["base", "ir"],
    "admission": ["base"],
    "planner/packing": ["base"],
    "planner": ["base", "ir", "planner/packing"],
    "planner/fit": ["base", "ir", "planner", "planner/packing"],
    "runtime": ["base", "formats", "ir", "math", "planner"],
    "cluster": ["base", "ir", "math", "runtime"],
    "cpu": ["base", "ir", "math", "runtime"],
    "gpu": ["base", "ir", "math", "runtime"],
    "formats": ["base", "ir", "math"],
    "onnx": ["base", "formats", "ir"],
    "text": ["base", "formats"],
    "nn": ["base", "formats", "ir", "math"],
    "data": ["base", "formats", "math", "text"],
    "compile": ["base", "ir", "planner"],
    "report": ["base", "formats", "ir", "planner", "planner/packing"],
    "train": ["autodiff", "base", "cluster", "cpu", "data", "formats", "gpu", "ir", "math",
              "nn", "planner", "planner/fit", "planner/packing", "report", "runtime"],
}

# Headers of a library -> directories whose files may include them.
LIBRARIES = {
    r"cuda.*|cu(blas|rand|dnn|fft)\w*\.h|cooperative_groups.*|mma\.h|nv(tx3|ml|rtc).*|"
    r"(device_functions|device_launch_parameters|vector_types)\.h":
        ["gpu", "tests/gpu"],
    r"(unsupported/)?Eigen/.*": ["cpu", "tests", "bench"],
    r"(zlib|png|jpeglib|jerror)\.h": ["formats", "tests"],
    r"google/protobuf/.*|onnx/onnx\.pb\.h": ["onnx", "tests/onnx"],
    r"pcre2\.h": ["text"],
    r"nlohmann/.*": ["data", "formats", "report", "text", "train", "tools", "python", "tests",
                     "bench", "examples"],
    r"CLI/.*": ["tools", "bench", "examples", "tests/gpu"],
    r"doctest/.*": ["tests"],
    r"pybind11/.*|Python\.h": ["python"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def within(path, directories):
    return any(path.startswith(directory + "/") for directory in directories)


def package_of(path):
    """The innermost package of a file or header."""
    parts = path.split("/")
    for count in range(len(parts) - 1, 1, -1):
        if "/".join(parts[:count]) in PACKAGES:
            return "/".join(parts[:count])
    return parts[0]


def complaints(path, text):
    package = package_of(path)
    for header in INCLUDE.findall(text):
        target = package_of(header)
        if package in PACKAGES and "/" in header and target != package:
            known = target in PACKAGES or target in (
                "bench", "examples", "python", "tests", "tools")
            if known and target not in PACKAGES[package]:
                allowed = ", ".join(PACKAGES[package]) or "no other package"
                yield f'{path}: includes "{header}"; {package}/ may include {allowed}'
        for library, directories in LIBRARIES.items():
            if re.fullmatch(library, header) and not within(path, directories):
                yield (f"{path}: includes <{header}>, which only "
                       f"{', '.join(directories)} may")
    cuda = re.search(r"\.(cu\.cc|cuh?)$", path)
    if cuda and not within(path, ["gpu", "tests/gpu"]):
        yield f"{path}: CUDA source outside gpu/"


def main():
    files = subprocess.run(
        ["git", "ls-files", "*.h", "*.inc", "*.def", "*.cc", "*.cu", "*.cuh"],
        check=True, capture_output=True, text=True).stdout.split("\n")
    found = []
    for path in filter(None, files):
        with open(path, encoding="utf-8") as source:
            found += complaints(path, source.read())
    print("\n".join(found) if found else "directions: as designed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

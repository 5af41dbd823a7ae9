"""Every library that Stowage does not write itself.

Those that are needed are header-only: @eigen, @doctest, @cli11 and @nlohmann_json
(target :json). The system's copy comes first; the archives, used where a system has
none, are the releases that Debian 12 packages. The CUDA toolkit (@cuda), what reads
files of others' formats (@jpeg, @png, @protobuf, @zlib), what cuts text into words
(@pcre2) and what Python's door is made with (@python) are optional: without them, less is
built.
"""

load("//third_party:cuda.bzl", "cuda_repository")
load("//third_party:optional_library.bzl", "optional_library")
load("//third_party:python.bzl", "python_repository")
load("//third_party:system_library.bzl", "system_library")

_INCLUDE = ["/usr/include", "/usr/local/include"]

_HEADERS = {
    "eigen": dict(
        target = "eigen",
        headers = ["Eigen"],
        package = "libeigen3-dev",
        probe = "Eigen/Core",
        roots = [root + "/eigen3" for root in _INCLUDE] + _INCLUDE,
        sha256 = "8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72",
        strip_prefix = "eigen-3.4.0",
        url = "https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz",
    ),
    "doctest": dict(
        target = "doctest",
        headers = ["doctest"],
        package = "doctest-dev",
        probe = "doctest/doctest.h",
        roots = _INCLUDE,
        sha256 = "19b2df757f2f3703a5e63cee553d85596875f06d91a3333acd80a969ef210856",
        strip_prefix = "doctest-2.4.9",
        url = "https://github.com/doctest/doctest/archive/refs/tags/v2.4.9.tar.gz",
    ),
    "cli11": dict(
        target = "cli11",
        archive_include = "include",
        headers = ["CLI"],
        package = "libcli11-dev",
        probe = "CLI/CLI.hpp",
        roots = _INCLUDE,
        sha256 = "26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb",
        strip_prefix = "CLI11-2.1.2",
        url = "https://github.com/CLIUtils/CLI11/archive/v2.1.2.tar.gz",
    ),
    "nlohmann_json": dict(
        target = "json",
        archive_include = "include",
        headers = ["nlohmann"],
        package = "nlohmann-json3-dev",
        probe = "nlohmann/json.hpp",
        roots = _INCLUDE,
        sha256 = "e5c7a9f49a16814be27e4ed0ee900ecd0092bfb7dbfca65b5a421b774dccaaed",
        url = "https://github.com/nlohmann/json/releases/download/v3.11.2/include.zip",
    ),
}

_OPTIONAL = {
    "jpeg": dict(
        headers = ["jconfig.h", "jerror.h", "jmorecfg.h", "jpeglib.h"],
        linkopts = ["-ljpeg"],
        package = "libjpeg-dev",
    ),
    "pcre2": dict(
        headers = ["pcre2.h"],
        linkopts = ["-lpcre2-8"],
        package = "libpcre2-dev",
    ),
    "png": dict(
        headers = ["png.h", "pngconf.h", "pnglibconf.h"],
        linkopts = ["-lpng16"],
        package = "libpng-dev",
    ),
    "protobuf": dict(
        headers = ["google/protobuf"],
        linkopts = ["-lprotobuf-lite"],
        package = "libprotobuf-dev and protobuf-compiler",
        programs = ["protoc"],
    ),
    "zlib": dict(
        headers = ["zconf.h", "zlib.h"],
        linkopts = ["-lz"],
        package = "zlib1g-dev",
    ),
}

def library_repositories(but = []):
    """Declares them, save those that `but` names."""
    if "cuda" not in but:
        cuda_repository(name = "cuda")
    if "python" not in but:
        python_repository(name = "python")
    for name, of in _HEADERS.items():
        if name not in but:
            system_library(name = name, **of)
    for name, of in _OPTIONAL.items():
        if name not in but:
            optional_library(name = name, **of)

"""Every library that Stowage does not write itself; all are header-only."""

load("//third_party:system_library.bzl", "system_library")

_INCLUDE = ["/usr/include", "/usr/local/include"]

def library_repositories():
    """Declares @eigen//:eigen, @doctest//:doctest, @cli11//:cli11, @nlohmann_json//:json."""
    system_library(
        name = "eigen",
        target = "eigen",
        headers = ["Eigen"],
        package = "libeigen3-dev",
        probe = "Eigen/Core",
        roots = [root + "/eigen3" for root in _INCLUDE] + _INCLUDE,
    )
    system_library(
        name = "doctest",
        target = "doctest",
        headers = ["doctest"],
        package = "doctest-dev",
        probe = "doctest/doctest.h",
        roots = _INCLUDE,
    )
    system_library(
        name = "cli11",
        target = "cli11",
        headers = ["CLI"],
        package = "libcli11-dev",
        probe = "CLI/CLI.hpp",
        roots = _INCLUDE,
    )
    system_library(
        name = "nlohmann_json",
        target = "json",
        headers = ["nlohmann"],
        package = "nlohmann-json3-dev",
        probe = "nlohmann/json.hpp",
        roots = _INCLUDE,
    )

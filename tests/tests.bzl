"""Programs of doctest cases, and the libraries that they share."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

def unit_test(name, deps, srcs = None, size = "small", enabled = True, **kwargs):
    """A cc_test of some sources and the main function of tests/support.

    Args:
      name: the program's name, which ends in _test.
      deps: the libraries that the sources include, besides doctest.
      srcs: sources and headers; by default NAME.cc.
      size: as of cc_test.
      enabled: False where a library that the test needs was not found.
      **kwargs: other attributes of cc_test.
    """
    if enabled:
        cc_test(
            name = name,
            size = size,
            srcs = srcs or [name + ".cc"],
            deps = deps + ["//tests/support:main"],
            **kwargs
        )

def unit_tests(names, deps, **kwargs):
    """A unit_test of each name; dependencies and attributes are those of all."""
    for name in names:
        unit_test(name, deps, **kwargs)

def test_library(name, deps = [], enabled = True, **kwargs):
    """A testonly cc_library of NAME.h and, if there is one, NAME.cc."""
    if enabled:
        cc_library(
            name = name,
            testonly = True,
            srcs = native.glob([name + ".cc"], allow_empty = True),
            hdrs = [name + ".h"],
            deps = deps,
            **kwargs
        )

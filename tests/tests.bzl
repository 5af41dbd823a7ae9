"""What most tests are: one source, and the main function of tests/support."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def unit_test(name, deps, size = "small", more = [], **kwargs):
    """A cc_test of NAME.cc.

    Args:
      name: the test's name, which ends in _test.
      deps: what it includes, besides doctest.
      size: as of cc_test.
      more: its sources and headers besides NAME.cc.
      **kwargs: any other attribute of cc_test.
    """
    cc_test(
        name = name,
        size = size,
        srcs = [name + ".cc"] + more,
        deps = deps + ["//tests/support:main"],
        **kwargs
    )

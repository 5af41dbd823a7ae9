"""Fuzzers of single parsers."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def fuzz_target(name, deps):
    """NAME_fuzz, which runs LLVMFuzzerTestOneInput of NAME_fuzz.cc."""
    cc_binary(
        name = name + "_fuzz",
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps + ["//tests/fuzz:check"],
    )

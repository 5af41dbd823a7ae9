"""Libraries whose sources are compiled several at a time.

Reading headers takes more than half of the time that a source of its own takes to
compile, so a unity build (several sources as one) takes a third off a first build. A
name that is local to a source must therefore be local to its library: .ci/unity.py
says where one is not. Errors, warnings and debuggers name the sources themselves, and
.ci/clang.py reads each by itself, so that none lives on what another includes.

    unity_library(name = "ir", srcs = glob(["*.cc"]), hdrs = glob(["*.h"]))
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")

# As many sources at most; the larger, the longer a change of one of them takes.
_MOST = 8

def _merged(name, srcs, apart):
    """The sources but those apart, in files of several; and what is no source."""
    sources = sorted([each for each in srcs if each.endswith(".cc") and each not in apart])
    others = [each for each in srcs if not each.endswith(".cc") or each in apart]
    count = (len(sources) + _MOST - 1) // _MOST
    merged = []
    for i in range(count):
        part = sources[i * len(sources) // count:(i + 1) * len(sources) // count]
        out = "%s_%d.unity.cc" % (name.split("/")[-1].split(".")[0], i + 1)
        native.genrule(
            name = "%s_%d_unity" % (name, i + 1),
            srcs = part,
            outs = [out],
            cmd = "for each in $(SRCS); do echo \"#line 1 \\\"$$each\\\"\" && cat $$each; done > $@",
        )
        merged.append(out)
    return merged + others

def unity_library(name, srcs, apart = [], **kwargs):
    """cc_library of sources in this package; those `apart` are compiled alone."""
    cc_library(name = name, srcs = _merged(name, srcs, apart), **kwargs)

def unity_binary(name, srcs, apart = [], **kwargs):
    """cc_binary, likewise."""
    cc_binary(name = name, srcs = _merged(name, srcs, apart), **kwargs)

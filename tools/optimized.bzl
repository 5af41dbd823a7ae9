"""Builds what a target depends on for use: optimized, as C++20, and once.

    rule(attrs = {"deps": attr.label_list(cfg = optimized)}, ...)

Flags of a workspace are for its own sources, and a workspace that says nothing
builds all of them without optimization. Steps would then take several times as
long, of which nobody would know. Therefore, whatever uses it, Stowage is built

    optimized   unless --compilation_mode=dbg, or a --copt that begins with -O
    in C++20    unless a --cxxopt names that or a later one
    as archives not again as shared libraries for tests, Bazel's default

and by the flags of the workspace otherwise. Where these say so already, as
Stowage's own .bazelrc does, nothing is changed, and no file is built twice.
"""

_MODE = "//command_line_option:compilation_mode"
_COPT = "//command_line_option:copt"
_CXXOPT = "//command_line_option:cxxopt"
_FEATURES = "//command_line_option:features"

_NEW_ENOUGH = ["20", "2a", "23", "2b", "26", "2c"]
_ARCHIVES = "-supports_dynamic_linker"

def _begins(options, prefix):
    return [option for option in options if option.startswith(prefix)]

def _optimized_impl(settings, _attr):
    mode = str(settings[_MODE])  # which Bazel 4 hands in as a thing of its own
    copt = settings[_COPT]
    cxxopt = settings[_CXXOPT]
    features = settings[_FEATURES]
    if mode != "dbg" and not _begins(copt, "-O"):
        mode = "opt"
        copt = copt + ["-O3"]
    standards = _begins(cxxopt, "-std=")
    if not standards or standards[-1][-2:] not in _NEW_ENOUGH:
        cxxopt = cxxopt + ["-std=c++20"]
    if _ARCHIVES not in features:
        features = features + [_ARCHIVES]
    return {_MODE: mode, _COPT: copt, _CXXOPT: cxxopt, _FEATURES: features}

_OPTIONS = [_MODE, _COPT, _CXXOPT, _FEATURES]

optimized = transition(
    implementation = _optimized_impl,
    inputs = _OPTIONS,
    outputs = _OPTIONS,
)

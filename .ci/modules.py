"""Checks what MODULE.bazel says against what WORKSPACE's macro declares.

Bazel 7 and later read MODULE.bazel, which the Bazel of Debian does not know. This
reads the files that both need as Python, which their Starlark also is, with
stand-ins for Bazel's functions: so what one of them has and another lacks is seen
where there is no such Bazel. What Bazel makes of them is not.
"""

import re
import sys
import types

REPOSITORY_RULES = ["_builtin_rules", "_no_coverage_tools", "cuda_repository",
                    "optional_library", "python_repository", "system_library"]


def run(path, **stand_ins):
    """The file's globals. A rule or function that it makes is as good as any."""
    scope = {"load": lambda *_, **__: None, "struct": types.SimpleNamespace,
             "repository_rule": lambda **_: None, "attr": types.SimpleNamespace(
                 string=lambda **_: None, string_list=lambda **_: None)}
    scope.update(stand_ins)
    with open(path, encoding="utf-8") as source:
        exec(compile(source.read(), path, "exec"), scope)  # pylint: disable=W0122
    return scope


def declared(path, function):
    """The names of the repositories that a macro declares."""
    names = []
    scope = run(path)
    for rule in REPOSITORY_RULES:
        scope[rule] = lambda name, **_: names.append(name)
    scope[function]()
    return names


def module(path):
    """name, version, deps, overrides and use_repo of a MODULE.bazel."""
    of = types.SimpleNamespace(name="", version="", deps={}, paths={}, repos=[])

    def say(name, version="", **_):
        of.name, of.version = name, version

    run(path, module=say,
        bazel_dep=lambda name, version: of.deps.update({name: version}),
        local_path_override=lambda module_name, path: of.paths.update(
            {module_name: path}),
        use_extension=lambda *_: None,
        use_repo=lambda _, *names: of.repos.extend(names))
    return of


def complaints():
    ours = module("MODULE.bazel")
    theirs = module("examples/external/MODULE.bazel")
    with open("base/version.h", encoding="utf-8") as header:
        version = re.search(r'kVersion = "(.*)"', header.read()).group(1)
    if ours.version != version:
        yield f"MODULE.bazel says {ours.version}, base/version.h {version}"
    if theirs.deps.get("stowage") != version:
        yield (f'examples/external/MODULE.bazel asks for '
               f'{theirs.deps.get("stowage")}, this is {version}')
    if theirs.paths != {"stowage": "../.."}:
        yield f"examples/external/MODULE.bazel overrides {theirs.paths}"
    if theirs.deps.get("rules_cc") != ours.deps.get("rules_cc"):
        yield (f"rules_cc is {ours.deps.get('rules_cc')} in MODULE.bazel, "
               f"{theirs.deps.get('rules_cc')} in examples/external")
    libraries = declared("third_party/libraries.bzl", "library_repositories")
    if sorted(libraries) != sorted(ours.repos):
        yield f"MODULE.bazel uses {ours.repos}, libraries.bzl declares {libraries}"
    builtin = declared("third_party/bazel_builtin.bzl",
                       "bazel_builtin_repositories")
    with open("docs/tutorials/using.md", encoding="utf-8") as page:
        text = page.read()
    for name in libraries + builtin:
        if f"`@{name}`" not in text:
            yield f"docs/tutorials/using.md does not name @{name}"


def main():
    found = list(complaints())
    print("\n".join(found) if found else "modules: as in WORKSPACE")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Reads the sources as clang does, without making code of them.

    .ci/clang.py [all] [BAZEL OPTION]...

What clang refuses and g++ takes is found, and includes of headers that no direct
dependency exports (layering_check). Takes the command lines from Bazel, and a third
of the time that compiling takes. Without `all`, the sources that are installed; with
it also tests, examples and benchmarks. The last line reads "N passed, N failed".
"""

import json
import multiprocessing.pool
import os
import re
import subprocess
import sys
import tempfile

PRODUCT = ["//" + package + "/..." for package in
           ("admission", "autodiff", "base", "cluster", "cpu", "data", "formats", "gpu", "ir",
            "math", "nn", "onnx", "planner", "python", "report", "runtime", "text", "tools", "train")]
# Headers of the standard library that most sources include: read once, not a thousand
# times.
COMMON = ["algorithm", "array", "atomic", "chrono", "condition_variable", "cstdint",
          "cstring", "filesystem", "fstream", "functional", "limits", "map", "memory",
          "mutex", "optional", "random", "ranges", "set", "span", "sstream", "string",
          "thread", "tuple", "unordered_map", "utility", "variant", "vector"]


def bazel(*arguments):
    return subprocess.run(["bazel", *arguments], check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def command_lines(targets, options, root):
    """source -> clang's arguments, of what Bazel would compile, each source by itself."""
    found = json.loads(bazel(
        "aquery", *options, "--output=jsonproto",
        f'mnemonic("CppCompile", set({" ".join(targets)}))'))
    lines = {}
    for action in found.get("actions", []):
        arguments = action["arguments"]
        source = arguments[arguments.index("-c") + 1]
        # Kernels for another CPU target (cpu/cpu_target.bzl): read once is enough.
        if any(each.startswith("-DSTOWAGE_CPU_KERNEL_TABLE") for each in arguments):
            continue
        if source.endswith(".unity.cc"):  # unity_library.bzl
            with open(os.path.join(root, source), encoding="utf-8") as file:
                members = re.findall(r'^#line 1 "(.*)"$', file.read(), re.MULTILINE)
            for member in members:
                lines[member] = [member if each == source else each for each in arguments]
        # tests/using sees what is not there but in a sandbox, and nothing is read in one.
        elif not source.startswith(("external/", "bazel-out/", "tests/using/")):
            lines[source] = arguments
    return lines


def syntax_only(arguments):
    """Without what is about code: that the common headers were read without it, too."""
    kept = []
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in ("-o", "-MF"):
            next(rest)
        elif not re.match(r"-(MD|O\d|f(no-)?sanitize|D_FORTIFY_SOURCE)", argument):
            kept.append(argument)
    return kept


def main():
    options = [each for each in sys.argv[1:] if each != "all"]
    options += ["--config=layers", "--config=werror"]
    targets = ["//..."] if "all" in sys.argv[1:] else PRODUCT
    # What is made of other files: headers, and maps of modules.
    bazel("build", *options, "--keep_going",
          "--output_groups=compilation_prerequisites_INTERNAL_", *targets)
    root = bazel("info", *options, "execution_root").strip()
    lines = command_lines(targets, options, root)

    with tempfile.TemporaryDirectory() as work:
        header = os.path.join(work, "common.h")
        with open(header, "w", encoding="utf-8") as file:
            file.writelines(f"#include <{each}>\n" for each in COMMON)
        common = os.path.join(work, "common.pch")
        subprocess.run(["clang++", "-std=c++20", "-march=native", "-x", "c++-header",
                        header, "-o", common], check=True)

        # Unvalidated, since options of modules differ: which headers a source may include
        # is looked at where it includes them.
        def read(source):
            return source, subprocess.run(
                ["clang++", "-fsyntax-only", "-Xclang", "-fno-validate-pch",
                 "-include-pch", common, *syntax_only(lines[source])],
                cwd=root, stderr=subprocess.PIPE, text=True, check=False)

        failed = 0
        with multiprocessing.pool.ThreadPool() as pool:
            for source, done in pool.imap(read, sorted(lines)):
                if done.returncode != 0:
                    failed += 1
                    print(f"FAILED: {source}\n{done.stderr}", flush=True)
    print(f"{len(lines) - failed} passed, {failed} failed")
    return 1 if failed or not lines else 0


if __name__ == "__main__":
    sys.exit(main())

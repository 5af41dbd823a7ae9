"""A Python that extensions can be built for, and pybind11, by which they are.

    python_repository(name = "python")

gives, on every machine, @python//:defs.bzl with

    FOUND                 whether there is a Python with its headers, NumPy and pybind11
    INTERPRETER           its path
    SUFFIX                of its extension modules: ".cpython-311-x86_64-linux-gnu.so"
    if_found(yes, no)     yes where there is one, else no

and, where there is one, @python//:pybind11 to depend on. The interpreter is the one that
the environment variable STOWAGE_PYTHON names, else the system's /usr/bin/python3, for
which the packages python3-dev, python3-numpy and pybind11-dev are. The headers of
pybind11 are the system's, or those of a package of that name that the interpreter has.
--config=nolibs leaves all of it out.
"""

_PROBE = """
import os, sysconfig
import numpy
roots = ["/usr/include", "/usr/local/include"]
try:
    import pybind11
    roots.insert(0, pybind11.get_include())
except ImportError:
    pass
root = [r for r in roots if os.path.exists(r + "/pybind11/pybind11.h")][0]
include = sysconfig.get_path("include")
os.stat(include + "/Python.h")
print(sysconfig.get_config_var("EXT_SUFFIX"))
print(include)
print(root)
"""

_DEFS = """\"\"\"Which Python extensions are built for.\"\"\"

# {why}
FOUND = {found}
INTERPRETER = "{interpreter}"
SUFFIX = "{suffix}"

def if_found(yes, no = []):
    \"\"\"`yes` where there is one, else `no`.\"\"\"
    return yes if FOUND else no
"""

_BUILD = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "pybind11",
    hdrs = glob(["include/**", "python/**"]),
    includes = ["include", "python"],
)
"""

def _python_repository_impl(ctx):
    interpreter = ctx.os.environ.get("STOWAGE_PYTHON", "/usr/bin/python3")
    why = None
    lines = []
    if "python" in ctx.os.environ.get("STOWAGE_WITHOUT", "").split(","):
        why = "STOWAGE_WITHOUT names it"
    elif not ctx.path(interpreter).exists:
        why = "no " + interpreter
    else:
        # Not by what lies in the folder of the repository.
        result = ctx.execute([interpreter, "-c", _PROBE], working_directory = "/")
        lines = result.stdout.strip().split("\n")
        if result.return_code != 0 or len(lines) != 3:
            why = ("%s lacks its headers, NumPy or pybind11; to be had from " +
                   "python3-dev, python3-numpy and pybind11-dev") % interpreter
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("defs.bzl", _DEFS.format(
        found = why == None,
        interpreter = interpreter,
        suffix = lines[0] if not why else ".so",
        why = why or "As the system has it.",
    ))
    if why:
        ctx.file("BUILD", "# No targets: %s.\n" % why)
        return
    ctx.symlink(lines[1], "python")
    ctx.symlink(lines[2] + "/pybind11", "include/pybind11")
    ctx.file("BUILD", _BUILD)

python_repository = repository_rule(
    implementation = _python_repository_impl,
    configure = True,
    environ = ["STOWAGE_PYTHON", "STOWAGE_SYSTEM", "STOWAGE_WITHOUT"],
    local = True,
    doc = "A Python of this system and pybind11, or a note that there is none.",
)

"""The CUDA toolkit, where there is one.

    cuda_repository(name = "cuda")

gives, on every machine, @cuda//:defs.bzl with

    CUDA_FOUND          whether GPU code is built: there is a toolkit that can be used,
                        and a GPU, or GPU code was asked for
    CUDA_VERSION        such as "13.0.88", or ""
    CUDA_NVCC           the compiler's path, or ""
    CUDA_ARCHITECTURES  what to compile for, oldest first: ["80", ...]
    if_cuda(yes, no)    yes where CUDA_FOUND, else no

and, where it is found, @cuda//:headers (of the runtime, the driver and cuBLASLt,
for host code; nvcc finds its own), @cuda//:cudart_static, the runtime to link, and
@cuda//:toolkit.txt, which changes when the toolkit does.
Nothing here links a library that a machine without a GPU would lack: cuBLASLt is
opened at run time, and only its header is used.

Looked at, in order: CUDA_HOME, CUDA_PATH, /usr/local/cuda, /usr/lib/cuda and
whatever the nvcc on the PATH belongs to, in the layouts of NVIDIA's installer, of
Debian's packages and of the Python wheels (CUDA_HOME=.../site-packages/nvidia/cu13).
A toolkit counts when it preprocesses a probe as C++20; so one that is too old,
that lacks a header, or that refuses the system's g++ is passed over.

The environment variable STOWAGE_CUDA decides whether it is looked for:

    unset   where there is a GPU, or STOWAGE_CUDA_ARCHITECTURES names any
    0       no (--config=nocuda)
    1       yes, and its absence is an error (--config=cuda)

STOWAGE_CUDA_ARCHITECTURES, such as "90" or "80,90" or "all", names what to compile for.
Unset, that is the architecture of the GPU that is there, which takes a fifth of the time
that all take, and all of them where there is none.
"""

_PROBE = """#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
nvcc_is __CUDACC_VER_MAJOR__ __CUDACC_VER_MINOR__ __CUDACC_VER_BUILD__
"""

# The toolkit that first compiled for an architecture.
_ARCHITECTURES = {
    "80": (11, 0),
    "90": (11, 8),
    "100": (12, 8),
    "120": (12, 8),
}

_TARGET = "targets/x86_64-linux"

# Where a toolkit's root, or the system, keeps the parts.
_INCLUDE = ["{root}/include", "{root}/" + _TARGET + "/include", "/usr/include"]
_LIBRARY = [
    "{root}/lib64",
    "{root}/lib",
    "{root}/" + _TARGET + "/lib",
    "{root}/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
]

# What of the include directory is the toolkit's, by how the names begin. It is
# /usr/include where Debian's packages are used; that as a whole must never be on
# a search path of ours.
_HEADERS = [
    "builtin_types",
    "channel_descriptor",
    "common_functions",
    "crt",
    "cu",
    "device_",
    "driver_",
    "host_",
    "library_types",
    "math_constants",
    "nv",
    "sm_",
    "surface_",
    "texture_",
    "vector_",
]

_DEFS = """\"\"\"The CUDA toolkit that was found, or none.\"\"\"

# {why}
CUDA_FOUND = {found}
CUDA_VERSION = "{version}"
CUDA_NVCC = "{nvcc}"
CUDA_ARCHITECTURES = {architectures}

def if_cuda(yes, no = []):
    \"\"\"`yes` where there is a toolkit, else `no`.\"\"\"
    return yes if CUDA_FOUND else no
"""

_BUILD = """load("@rules_cc//cc:defs.bzl", "cc_import", "cc_library")

package(default_visibility = ["//visibility:public"])

exports_files(["toolkit.txt"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],
)

cc_import(
    name = "cudart_archive",
    static_library = "lib/libcudart_static.a",
    visibility = ["//visibility:private"],
)

cc_library(
    name = "cudart_static",
    linkopts = ["-ldl", "-lrt", "-lpthread"],
    deps = [
        ":cudart_archive",
        ":headers",
    ],
)
"""

def _roots(ctx):
    roots = [ctx.os.environ.get(name) for name in ["CUDA_HOME", "CUDA_PATH"]]
    roots += ["/usr/local/cuda", "/usr/lib/cuda"]
    nvcc = ctx.which("nvcc")
    if nvcc:
        roots += [str(nvcc.dirname.dirname), str(nvcc.realpath.dirname.dirname)]
    found = []
    for root in roots:
        if root and root not in found:
            found.append(root)
    return found

def _first(ctx, directories, root, name):
    """The first of the directories that holds the file, or None."""
    for directory in directories:
        directory = directory.format(root = root)
        if ctx.path(directory + "/" + name).exists:
            return directory
    return None

def _gpus(ctx):
    """The compute capabilities of this machine's GPUs: [(9, 0)], [] where there is none."""
    smi = ctx.which("nvidia-smi")
    if not smi:
        return []
    result = ctx.execute([smi, "--query-gpu=compute_cap", "--format=csv,noheader"])
    found = []
    for line in result.stdout.split("\n") if result.return_code == 0 else []:
        digits = line.strip().split(".")
        if len(digits) == 2 and digits[0].isdigit() and digits[1].isdigit():
            found.append((int(digits[0]), int(digits[1])))
    return found

def _capability(architecture):
    return (int(architecture[:-1]), int(architecture[-1]))

def _architectures(ctx, version, known):
    """What to compile for, of what this toolkit knows."""
    wish = ctx.os.environ.get("STOWAGE_CUDA_ARCHITECTURES", "")
    if wish and wish != "all":
        wanted = wish.split(",")
        for name in wanted:
            if name not in known:
                fail("[third_party] STOWAGE_CUDA_ARCHITECTURES is \"%s\", and CUDA %s has no \"%s\": expected \"all\", or some of %s, with commas between." % (wish, version, name, ", ".join(known)))
        return [name for name in known if name in wanted]
    gpus = [] if wish else _gpus(ctx)
    if not gpus:
        return known
    wanted = []
    for gpu in gpus:
        # Machine code runs on GPUs of its generation that are as new or newer. Others
        # compile the PTX, which comes with any.
        fitting = [
            name
            for name in known
            if _capability(name)[0] == gpu[0] and _capability(name) <= gpu
        ]
        wanted.append(fitting[-1] if fitting else known[0])
    return [name for name in known if name in wanted]

def _examine(ctx, root):
    """A struct of what a root holds; its `missing` says why it cannot be used."""
    nvcc = root + "/bin/nvcc"
    if not ctx.path(nvcc).exists:
        return struct(missing = "no bin/nvcc")
    include = _first(ctx, _INCLUDE, root, "cublasLt.h")
    if not include:
        return struct(missing = "no cublasLt.h (a package of its own: libcublas-dev)")
    library = _first(ctx, _LIBRARY, root, "libcudart_static.a")
    if not library:
        return struct(missing = "no libcudart_static.a")
    ctx.file("probe.cu", _PROBE, executable = False)
    result = ctx.execute([nvcc, "-std=c++20", "-E", "probe.cu"])
    lines = [line for line in result.stdout.split("\n") if line.startswith("nvcc_is ")]
    if result.return_code != 0 or not lines:
        complaints = [line for line in result.stderr.split("\n") if line.strip()]
        return struct(missing = "nvcc does not compile C++20 with this system's g++: " +
                                (complaints[0] if complaints else "it says nothing"))
    version = lines[0].split(" ")[1:]
    number = (int(version[0]), int(version[1]))
    known = [name for name, since in _ARCHITECTURES.items() if number >= since]
    return struct(
        architectures = _architectures(ctx, ".".join(version), known),
        cudart = library + "/libcudart_static.a",
        include = include,
        missing = None,
        nvcc = nvcc,
        version = ".".join(version),
    )

def _write(ctx, why, toolkit = None):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", _BUILD if toolkit else "# No targets: %s.\n" % why)
    ctx.file("defs.bzl", _DEFS.format(
        architectures = repr(toolkit.architectures if toolkit else []),
        found = bool(toolkit),
        nvcc = toolkit.nvcc if toolkit else "",
        version = toolkit.version if toolkit else "",
        why = why,
    ))

def _cuda_repository_impl(ctx):
    wish = ctx.os.environ.get("STOWAGE_CUDA", "")
    if wish not in ["", "0", "1"]:
        fail("[third_party] STOWAGE_CUDA is \"%s\": expected 0 (no CUDA), 1 (CUDA, or an error) or nothing (where there is a GPU)." % wish)
    if wish == "0":
        _write(ctx, "STOWAGE_CUDA is 0")
        return
    if not wish and not ctx.os.environ.get("STOWAGE_CUDA_ARCHITECTURES") and not _gpus(ctx):
        _write(ctx, "nvidia-smi finds no GPU; --config=cuda builds GPU code all the same")
        return

    reasons = []
    for root in _roots(ctx):
        toolkit = _examine(ctx, root)
        if toolkit.missing:
            reasons.append("%s: %s" % (root, toolkit.missing))
            continue
        for entry in ctx.path(toolkit.include).readdir():
            if [name for name in _HEADERS if entry.basename.startswith(name)]:
                ctx.symlink(entry, "include/" + entry.basename)
        if not ctx.path("include/nv").exists:
            ctx.symlink(toolkit.include + "/cccl/nv", "include/nv")
        ctx.symlink(
            toolkit.cudart,
            "lib/libcudart_static.a",
        )
        ctx.file("toolkit.txt", toolkit.version + "\n", executable = False)
        _write(ctx, "CUDA %s at %s" % (toolkit.version, root), toolkit)
        return

    if wish == "1":
        fail(("[third_party] no CUDA toolkit that can be used: %s; expected CUDA 12.0 or later with nvcc, the static runtime and the headers of cuBLAS. " +
              "Install one (docs/guides/gpu.md says how), name it in CUDA_HOME, or build with --config=nocuda.") % "; ".join(reasons))
    _write(ctx, "no toolkit that can be used: " + "; ".join(reasons))

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    configure = True,
    environ = [
        "CUDA_HOME",
        "CUDA_PATH",
        "NVCC_CCBIN",
        "PATH",
        "STOWAGE_CUDA",
        "STOWAGE_CUDA_ARCHITECTURES",
        "STOWAGE_SYSTEM",
    ],
    local = True,
    doc = "The CUDA toolkit of this machine, or a note that there is none.",
)

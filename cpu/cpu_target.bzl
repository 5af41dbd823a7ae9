"""Sources compiled for one CPU target, as one object that exports one symbol.

    cpu_target(
        name = "kernels_v3",
        srcs = glob(["kernels/*.cc"]),
        hdrs = glob(["kernels/*.h"]),
        copts = ["-march=x86-64-v3"],
        symbol = "stowage_cpu_kernels_v3",
        deps = ["//base"],
    )

The sources use inline functions and templates of the standard library, of Eigen and of
this library. Each object file has its own copy of these, and a linker keeps one copy for
the whole program: one with AVX2, say, which then also runs where the processor has none.
So the objects are linked into one (ld -r) in which all names but the symbol are local.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@rules_cc//cc:defs.bzl", "cc_library")

# $1: ld, $2: objcopy, $3: nm, $4: objdump, $5: the symbol, $6: the result, then objects.
# Initializers would run when the program starts, whichever processor it is on.
_LINK = """
set -euo pipefail
ld=$1 objcopy=$2 nm=$3 objdump=$4 symbol=$5 out=$6
shift 6
"$ld" -r --force-group-allocation -o "$out" "$@"
# objcopy makes no unique symbol local, unless it is weak before.
"$nm" "$out" | sed -n 's/.* u //p' >"$out.unique"
"$objcopy" --weaken-symbols="$out.unique" "$out"
"$objcopy" --keep-global-symbol="$symbol" "$out"
exported=$("$nm" --defined-only --extern-only "$out" | sed 's/.* //')
if [[ $exported != "$symbol" ]]; then
  echo "[cpu] $out exports" $exported "; expected $symbol alone" >&2
  exit 1
fi
if "$objdump" -h "$out" | grep -E ' \\.(preinit_array|init_array|ctors)' >&2; then
  echo "[cpu] $out has initializers, which would run on any processor" >&2
  exit 1
fi
"""

def _object_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    objects = []
    for one in ctx.attr.compiled[CcInfo].linking_context.linker_inputs.to_list():
        if one.owner == ctx.attr.compiled.label:
            for library in one.libraries:
                objects += library.pic_objects or library.objects
    out = ctx.actions.declare_file(ctx.label.name + ".o")
    ctx.actions.run_shell(
        arguments = [
            toolchain.ld_executable,
            toolchain.objcopy_executable,
            toolchain.nm_executable,
            toolchain.objdump_executable,
            ctx.attr.symbol,
            out.path,
        ] + [each.path for each in objects],
        command = _LINK,
        inputs = depset(objects, transitive = [toolchain.all_files]),
        outputs = [out],
        mnemonic = "CpuTarget",
        progress_message = "Linking %s" % ctx.label,
    )
    return [DefaultInfo(files = depset([out]))]

_object = rule(
    implementation = _object_impl,
    attrs = {
        "compiled": attr.label(mandatory = True, providers = [CcInfo]),
        "symbol": attr.string(mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cpu_target(name, srcs, hdrs, copts, symbol, deps):
    """A library of one object, NAME.o; built only where it is linked."""
    cc_library(
        name = name + "_objects",
        srcs = srcs + hdrs,
        copts = copts,
        local_defines = ["STOWAGE_CPU_KERNEL_TABLE=" + symbol],
        tags = ["manual"],
        deps = deps,
    )
    _object(
        name = name + "_object",
        compiled = name + "_objects",
        symbol = symbol,
        tags = ["manual"],
    )
    cc_library(
        name = name,
        srcs = [name + "_object"],
        tags = ["manual"],
        deps = deps,
    )

def _flag_impl(ctx):
    return []

cpu_flag = rule(
    implementation = _flag_impl,
    build_setting = config.bool(flag = True),
    doc = "An option of the command line, true or false.",
)

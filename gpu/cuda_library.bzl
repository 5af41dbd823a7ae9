"""A cc_library whose sources nvcc compiles.

    cuda_library(
        name = "cuda",
        srcs = ["softmax.cu.cc"],
        deps = ["//gpu:simt"],
    )

It can stand in the deps of any C++ target; the final link is g++'s, with the
static CUDA runtime, which comes along. Attributes are those of cc_library and, for
options of nvcc's parts, of rules_cuda. Where no CUDA toolkit was found the target
does not exist; depend on it through if_cuda([...]) of @cuda//:defs.bzl.

One action compiles one source: to PTX of the oldest architecture of @cuda, once,
and from that to machine code for each. (PTX for each of them would be the same,
since kernels use nothing that the oldest lacks, and would take twice the time.)
GPUs to come compile the PTX when the program starts. What only one architecture has is
compiled for that alone, by `architectures = ["90a"]`: in a library of its own, and other
GPUs run a program that holds it, as long as they launch none of its kernels.

The output group `reports` has what ptxas said of every kernel (NAME.ptxas.txt:
registers, spills, shared memory) and the PTX (NAME.ptx), from the same action;
tests read both (tests/gpu/compiled_kernels_test.cc).
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:defs.bzl", "CUDA_ARCHITECTURES", "CUDA_FOUND", "CUDA_NVCC")

_OPTIONS = [
    "-x=cu",
    "-std=c++20",
    "-O1",  # of host code; device code is always optimized
    "--expt-relaxed-constexpr",
    "--resource-usage",
    "-Xfatbin=-compress-all",
    "-Xcompiler=-fPIC,-Wall,-Wextra",
    # A comparison that is pointless for unsigned types, in a template for all.
    "-diag-suppress=186",
]

def _gencode(architectures):
    """The option to compile PTX for the first, and from it machine code for each."""
    return "-gencode=arch=compute_%s,code=[%s,compute_%s]" % (
        architectures[0],
        ",".join(["sm_" + name for name in architectures]),
        architectures[0],
    )

def _host_options(flag, values):
    """Options that nvcc hands to g++, which preprocesses for it."""
    return ["-Xcompiler=%s,%s" % (flag, value) for value in values]

def _compile(ctx, src, context):
    """Declares the action for one source; returns the object and the reports."""
    stem = src.basename[:-len("." + src.extension)]
    prefix = "_objs/%s/%s" % (ctx.label.name, stem)
    object = ctx.actions.declare_file(prefix + ".o")
    log = ctx.actions.declare_file(prefix + ".ptxas.txt")
    unused = ctx.actions.declare_file(prefix + ".unused_inputs")
    ptx = ctx.actions.declare_file(prefix + ".ptx")

    # Not the source: that is always read.
    headers = ctx.actions.args()
    headers.add_all(context.headers)
    headers.use_param_file("%s", use_always = True)
    headers.set_param_file_format("multiline")

    arguments = ctx.actions.args()
    arguments.add_all([CUDA_NVCC, src, object, log, ptx, unused])
    arguments.add_all(_OPTIONS)
    arguments.add(_gencode(ctx.attr.architectures or CUDA_ARCHITECTURES))
    arguments.add_all(ctx.attr.ptxasopts, format_each = "-Xptxas=%s")
    arguments.add_all(ctx.attr.copts)
    arguments.add_all(context.defines, format_each = "-D%s")
    arguments.add_all(context.includes, format_each = "-I%s")
    arguments.add_all(_host_options("-iquote", context.quote_includes.to_list()))
    arguments.add_all(_host_options("-isystem", context.system_includes.to_list()))

    ctx.actions.run(
        executable = ctx.executable._compile,
        arguments = [headers, arguments],
        # The compiler itself is no input; its version stands for it.
        inputs = depset([src, ctx.file._toolkit], transitive = [context.headers]),
        outputs = [object, log, ptx, unused],
        unused_inputs_list = unused,
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s for the GPU" % src.short_path,
        use_default_shell_env = True,
    )
    return object, [log, ptx]

def _cuda_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    dep = cc_common.merge_cc_infos(
        cc_infos = [target[CcInfo] for target in ctx.attr.deps],
    )

    # Compiles nothing: it makes the context that dependents and our sources see.
    # The toolkit's headers are not in it; nvcc finds its own.
    context, _ = cc_common.compile(
        name = ctx.label.name,
        actions = ctx.actions,
        cc_toolchain = toolchain,
        compilation_contexts = [dep.compilation_context],
        defines = ctx.attr.defines,
        feature_configuration = features,
        includes = ["/".join([part for part in [
            ctx.label.workspace_root,
            ctx.label.package,
            include,
        ] if part]) for include in ctx.attr.includes],
        public_hdrs = ctx.files.hdrs,
    )

    objects = []
    reports = []
    for src in ctx.files.srcs:
        object, report = _compile(ctx, src, context)
        objects.append(object)
        reports += report
    objects = depset(objects)

    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        name = ctx.label.name,
        actions = ctx.actions,
        alwayslink = ctx.attr.alwayslink,
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = objects,
            pic_objects = objects,
        ),
        # One copy of the kernels and of the runtime in every program.
        disallow_dynamic_library = True,
        feature_configuration = features,
        linking_contexts = [
            dep.linking_context,
            ctx.attr._runtime[CcInfo].linking_context,
        ],
    )
    return [
        CcInfo(compilation_context = context, linking_context = linking_context),
        DefaultInfo(files = objects),
        OutputGroupInfo(reports = depset(reports)),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "architectures": attr.string_list(
            doc = "What to compile for, oldest first, in place of those of @cuda.",
        ),
        "alwayslink": attr.bool(doc = "Whether to link objects that nothing refers to."),
        "copts": attr.string_list(doc = "Options for nvcc."),
        "defines": attr.string_list(doc = "Macros, for dependents too."),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".inc"]),
        "includes": attr.string_list(doc = "Directories of this package to search, for dependents too."),
        "ptxasopts": attr.string_list(doc = "Options for ptxas, such as --maxrregcount=128."),
        "srcs": attr.label_list(allow_files = [".cu.cc", ".cu"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_compile": attr.label(
            allow_single_file = True,
            cfg = "exec",
            default = "//gpu:cuda_compile.sh",
            executable = True,
        ),
        "_runtime": attr.label(default = "@cuda//:cudart_static" if CUDA_FOUND else None),
        "_toolkit": attr.label(
            allow_single_file = True,
            default = "@cuda//:toolkit.txt" if CUDA_FOUND else None,
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(**kwargs):
    """Declares the library where there is a CUDA toolkit, and nothing elsewhere."""
    if CUDA_FOUND:
        _cuda_library(**kwargs)

def cuda_targets(rule, **kwargs):
    """Declares a target of any rule where there is a CUDA toolkit.

    For targets that are about compiled GPU code, such as tests of it:
    cuda_targets(cc_test, name = "resource_gates_test", ...).
    """
    if CUDA_FOUND:
        rule(**kwargs)

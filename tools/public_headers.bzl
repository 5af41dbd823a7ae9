"""A library as users see it: its headers under one prefix, and nothing else.

    public_headers(
        name = "stowage",
        libraries = ["@nlohmann_json//:json"],
        deps = [":umbrella_header"],
    )

Within this repository a header is included by its path, "base/result.h". A user may
well have a base/result.h too, and whichever came first on the compiler's search
path would be taken for both. Therefore this target offers copies, as
"stowage/base/result.h", that include each other by these names; the folder of the
copies is all it puts on the search path. Copied are the headers that the deps
export directly and what those include, and so this is also what decides which
headers are API. (public_headers.py does the copying, in one action.)

It can stand in the deps of any C++ target; what it links is what its deps link. Of
other libraries' headers, users see those of `libraries` alone: those that public
headers include.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("//tools:optimized.bzl", "optimized")

def _name(header):
    """The path by which the header's own repository includes it."""
    if header.short_path.startswith("../"):
        return "/".join(header.short_path.split("/")[2:])
    return header.short_path

def _line(header):
    return "%s\t%s" % (_name(header), header.path)

def _copy(ctx, contexts):
    """Declares the action; returns the folder of copies."""
    headers = [
        header
        for header in depset(transitive = [one.headers for one in contexts]).to_list()
        if header.owner.workspace_name == ctx.label.workspace_name
    ]
    roots = ctx.actions.args()
    for context in contexts:
        roots.add_all(context.direct_public_headers, map_each = _name)
    names = ctx.actions.args()
    names.add_all(headers, map_each = _line)
    for file in [roots, names]:
        file.use_param_file("%s", use_always = True)
        file.set_param_file_format("multiline")

    folder = ctx.actions.declare_directory("_virtual_includes/" + ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add_all([folder], expand_directories = False)
    arguments.add(ctx.attr.prefix)
    ctx.actions.run(
        executable = ctx.executable._copy,
        arguments = [arguments, roots, names],
        inputs = headers,
        outputs = [folder],
        mnemonic = "PublicHeaders",
        progress_message = "Copying the public headers of %s" % ctx.label,
        use_default_shell_env = True,
    )
    return folder

def _context(ctx, folder):
    """The compilation context of users: the folder is its only search path."""
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    if not cc_common.is_enabled(
        feature_configuration = features,
        feature_name = "module_maps",
    ):
        return cc_common.create_compilation_context(
            headers = depset([folder]),
            system_includes = depset([folder.path]),
        )

    # With clang, layering_check refuses a header that no module map names, and only
    # this call, which compiles nothing, makes one. It also puts this repository's
    # root on the search path, after the user's own; the plain headers there are no
    # inputs of the user's actions, so that a sandbox does not have them.
    context, _ = cc_common.compile(
        name = ctx.label.name,
        actions = ctx.actions,
        cc_toolchain = toolchain,
        feature_configuration = features,
        public_hdrs = [folder],
        system_includes = [folder.path],
    )
    return context

def _public_headers_impl(ctx):
    deps = [target[CcInfo] for target in ctx.attr.deps]
    folder = _copy(ctx, [dep.compilation_context for dep in deps])

    own = CcInfo(
        compilation_context = _context(ctx, folder),
        linking_context = cc_common.merge_cc_infos(cc_infos = deps).linking_context,
    )
    return [
        cc_common.merge_cc_infos(direct_cc_infos = [own], cc_infos = [
            target[CcInfo]
            for target in ctx.attr.libraries
        ]),
        DefaultInfo(files = depset([folder])),
    ]

public_headers = rule(
    implementation = _public_headers_impl,
    attrs = {
        "deps": attr.label_list(
            cfg = optimized,
            doc = "Whose headers are public, with what these include.",
            mandatory = True,
            providers = [CcInfo],
        ),
        "libraries": attr.label_list(
            doc = "Libraries of other repositories whose headers public headers include.",
            providers = [CcInfo],
        ),
        "prefix": attr.string(
            default = "stowage",
            doc = "What precedes the headers' paths.",
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_copy": attr.label(
            allow_single_file = True,
            cfg = "exec",
            default = "//tools:public_headers.py",
            executable = True,
        ),
    },
    doc = "The public headers of some libraries, under a prefix, and what they link.",
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

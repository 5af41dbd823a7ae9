"""One static archive of everything that a target links.

    static_archive(
        name = "archive",
        archive = "libstowage.a",
        deps = ["//:stowage"],
    )

gives libstowage.a, with the objects of all libraries below the deps in it, and
NAME.linkopts, the options with which a program links it, one a line. For builds
other than Bazel's (tools/install.sh).
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _static_archive_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    linked = cc_common.merge_cc_infos(
        cc_infos = [target[CcInfo] for target in ctx.attr.deps],
    ).linking_context.linker_inputs.to_list()

    objects = []
    archives = []
    options = []
    for one in linked:
        options += [option for option in one.user_link_flags if option not in options]
        for library in one.libraries:
            if library.objects or library.pic_objects:
                objects += library.objects or library.pic_objects
            else:
                archives.append(library.static_library or library.pic_static_library)

    # An MRI script merges archives, and keeps objects of equal names from different folders.
    lines = ctx.actions.args()
    lines.set_param_file_format("multiline")
    lines.add(ctx.outputs.archive, format = "CREATE %s")
    lines.add_all(objects, format_each = "ADDMOD %s")
    lines.add_all(archives, format_each = "ADDLIB %s")
    lines.add("SAVE")
    lines.add("END")
    script = ctx.actions.declare_file(ctx.label.name + ".mri")
    ctx.actions.write(script, lines)

    ar = cc_common.get_tool_for_action(
        action_name = "c++-link-static-library",
        feature_configuration = features,
    )
    ctx.actions.run_shell(
        arguments = [ar, script.path],
        command = '"$1" -M <"$2"',
        inputs = depset(objects + archives + [script], transitive = [toolchain.all_files]),
        outputs = [ctx.outputs.archive],
        mnemonic = "StaticArchive",
        progress_message = "Archiving %s" % ctx.label,
    )

    linkopts = ctx.actions.declare_file(ctx.label.name + ".linkopts")
    ctx.actions.write(linkopts, "".join([option + "\n" for option in options]))
    return [DefaultInfo(files = depset([ctx.outputs.archive, linkopts]))]

static_archive = rule(
    implementation = _static_archive_impl,
    attrs = {
        "archive": attr.output(doc = "What the archive is called.", mandatory = True),
        "deps": attr.label_list(mandatory = True, providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    doc = "One static archive of everything that the deps link.",
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

"""A header-only library, taken from the system where it is installed.

    system_library(
        name = "doctest",
        target = "doctest",
        headers = ["doctest"],
        roots = ["/usr/include", "/usr/local/include"],
        probe = "doctest/doctest.h",
        package = "doctest-dev",
        url = "https://...", sha256 = "...",
    )

gives @doctest//:doctest, and its files alone as @doctest//:headers. Only the
named directories are linked into the repository, so the system's include
directory as a whole is never on a search path of ours. Where no root holds the
probe, the pinned archive is downloaded; where that fails too, the build stops
and names the package to install.
"""

_BUILD = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

filegroup(
    name = "headers",
    srcs = glob({globs}),
)

cc_library(
    name = "{target}",
    hdrs = [":headers"],
    includes = ["include"],
)
"""

def _find_root(ctx):
    for root in ctx.attr.roots:
        if ctx.path(root + "/" + ctx.attr.probe).exists:
            return root
    download = ctx.download_and_extract(
        ctx.attr.url,
        allow_fail = True,
        output = "archive",
        sha256 = ctx.attr.sha256,
        stripPrefix = ctx.attr.strip_prefix,
    )
    if not download.success:
        fail("[third_party] %s is missing: no %s under %s, and %s cannot be downloaded; install the package %s (tools/setup.sh does)." % (
            ctx.attr.target,
            ctx.attr.probe,
            " or ".join(ctx.attr.roots),
            ctx.attr.url,
            ctx.attr.package,
        ))
    return str(ctx.path("archive/" + ctx.attr.archive_include))

def _system_library_impl(ctx):
    root = _find_root(ctx)
    for header in ctx.attr.headers:
        ctx.symlink(root + "/" + header, "include/" + header)
    ctx.file("BUILD", _BUILD.format(
        globs = repr(["include/%s/**" % header for header in ctx.attr.headers]),
        target = ctx.attr.target,
    ))

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "archive_include": attr.string(default = ".", doc = "The include directory within the archive."),
        "headers": attr.string_list(mandatory = True, doc = "Directories below the root that are the library's."),
        "package": attr.string(mandatory = True, doc = "The Debian and Ubuntu package, for the message."),
        "probe": attr.string(mandatory = True, doc = "A header, relative to the root, that shows it is there."),
        "roots": attr.string_list(mandatory = True, doc = "Include directories to look in, in order."),
        "sha256": attr.string(mandatory = True),
        "strip_prefix": attr.string(),
        "target": attr.string(mandatory = True, doc = "The name of the cc_library."),
        "url": attr.string(mandatory = True, doc = "The archive to use where no root holds the probe."),
    },
    environ = ["STOWAGE_SYSTEM"],
    local = True,
    doc = "A header-only cc_library from the system's include directories.",
)

"""A library of the system that some of Stowage uses where it is there.

    optional_library(
        name = "png",
        headers = ["png.h", "pngconf.h", "pnglibconf.h"],
        linkopts = ["-lpng16"],
        package = "libpng-dev",
    )

gives, on every machine, @png//:defs.bzl with

    FOUND               whether all of its headers are there
    if_found(yes, no)   yes where they are, else no

and, where they are, @png//:png to depend on. What needs the library is built from
another source without it, which says so when it is called.

The environment variable STOWAGE_WITHOUT names libraries that are not looked for,
separated by commas; --config=nolibs sets it to all of them. STOWAGE_SYSTEM changes when
libraries are installed or removed (tools/bazel), so that the next build looks again.
STOWAGE_MULTIARCH is what Debian calls another architecture than this machine's, such as
"aarch64-linux-gnu", for which a cross compiler builds: a library counts if it is there for
that one. --config=aarch64 sets it.
"""

_MULTIARCH = ["x86_64-linux-gnu", "aarch64-linux-gnu"]

_DEFS = """\"\"\"Whether {name} was found.\"\"\"

# {why}
FOUND = {found}

def if_found(yes, no = []):
    \"\"\"`yes` where the library is, else `no`.\"\"\"
    return yes if FOUND else no
"""

_BUILD = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "{name}",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = {linkopts},
)
"""

def _find(ctx, header):
    other = ctx.os.environ.get("STOWAGE_MULTIARCH", "")
    roots = ["/usr/include/" + name for name in ([other] if other else _MULTIARCH)]
    for root in ["/usr/include"] + roots + ([] if other else ["/usr/local/include"]):
        if ctx.path(root + "/" + header).exists:
            return root + "/" + header
    return None

def _missing_of(ctx, multiarch):
    """What a cross compiler would not find to link; headers are often of any architecture."""
    files = [
        "/usr/lib/%s/lib%s.so" % (multiarch, option[2:])
        for option in ctx.attr.linkopts
    ]
    return [file for file in files if not ctx.path(file).exists]

def _optional_library_impl(ctx):
    missing = [header for header in ctx.attr.headers if not _find(ctx, header)]
    if ctx.os.environ.get("STOWAGE_MULTIARCH"):
        missing += _missing_of(ctx, ctx.os.environ["STOWAGE_MULTIARCH"])
    missing += [program for program in ctx.attr.programs if not ctx.which(program)]
    if ctx.name in ctx.os.environ.get("STOWAGE_WITHOUT", "").split(","):
        why = "STOWAGE_WITHOUT names it"
    elif missing:
        why = "no %s; to be had from %s" % (missing[0], ctx.attr.package)
    else:
        why = None
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("defs.bzl", _DEFS.format(
        found = why == None,
        name = ctx.name,
        why = why or "As the system has it.",
    ))
    if why:
        ctx.file("BUILD", "# No targets: %s.\n" % why)
        return
    for header in ctx.attr.headers:
        ctx.symlink(_find(ctx, header), "include/" + header)
    ctx.file("BUILD", _BUILD.format(
        linkopts = repr(ctx.attr.linkopts),
        name = ctx.name,
    ))

optional_library = repository_rule(
    implementation = _optional_library_impl,
    attrs = {
        "headers": attr.string_list(mandatory = True, doc = "All of its headers that are included, by it or by us; or their folder."),
        "linkopts": attr.string_list(mandatory = True),
        "package": attr.string(mandatory = True, doc = "The Debian and Ubuntu package."),
        "programs": attr.string_list(doc = "Commands that a build with it runs."),
    },
    configure = True,
    environ = ["STOWAGE_MULTIARCH", "STOWAGE_SYSTEM", "STOWAGE_WITHOUT"],
    local = True,
    doc = "A library of this system, or a note that there is none.",
)

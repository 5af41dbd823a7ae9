"""The repositories Bazel 4 fetches for itself, defined here so that it need not.

Even a build of nothing but C++ makes Bazel 4 resolve @rules_cc, @rules_java,
@rules_proto and @remote_coverage_tools; by default it downloads them. For the
rules that Bazel 4 has built in, those repositories are no more than another
name, so a generated `defs.bzl` that forwards to the built-in rules will do, and
the build needs neither a network nor further packages.

A later Bazel takes the real rules_cc from MODULE.bazel; BUILD files are the same
for both: load("@rules_cc//cc:defs.bzl", "cc_library").
"""

def _builtin_rules_impl(ctx):
    lines = ["\"\"\"Bazel's built-in rules, under the names of @%s.\"\"\"" % ctx.name]
    for rule in ctx.attr.rules:
        lines.append("%s = native.%s" % (rule, rule))
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file(ctx.attr.package + "/BUILD", "exports_files([\"defs.bzl\"])\n")
    ctx.file(ctx.attr.package + "/defs.bzl", "\n".join(lines) + "\n")

_builtin_rules = repository_rule(
    implementation = _builtin_rules_impl,
    attrs = {
        "package": attr.string(mandatory = True),
        "rules": attr.string_list(mandatory = True),
    },
    doc = "A repository whose //package:defs.bzl exports built-in rules.",
)

def _no_coverage_tools_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", """package(default_visibility = ["//visibility:public"])
filegroup(name = "coverage_report_generator")
filegroup(name = "lcov_merger")
""")

_no_coverage_tools = repository_rule(
    implementation = _no_coverage_tools_impl,
    doc = "Names that every test depends on, and only `bazel coverage` uses.",
)

_RULES = {
    "rules_cc": struct(package = "cc", rules = [
        "cc_binary",
        "cc_import",
        "cc_library",
        "cc_proto_library",
        "cc_test",
        "cc_toolchain",
        "cc_toolchain_suite",
        "objc_library",
    ]),
    "rules_java": struct(package = "java", rules = [
        "java_binary",
        "java_import",
        "java_library",
        "java_proto_library",
        "java_runtime",
        "java_toolchain",
    ]),
    "rules_proto": struct(package = "proto", rules = [
        "proto_lang_toolchain",
        "proto_library",
    ]),
}

def bazel_builtin_repositories(but = []):
    """Declares them, save those that `but` names."""
    for name, of in _RULES.items():
        if name not in but:
            _builtin_rules(name = name, package = of.package, rules = of.rules)
    if "remote_coverage_tools" not in but:
        _no_coverage_tools(name = "remote_coverage_tools")

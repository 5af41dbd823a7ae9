"""The module extension that gives MODULE.bazel the repositories of libraries.bzl.

A file of its own: Bazel 4 has no module_extension and never loads this one.
"""

load("//third_party:libraries.bzl", "library_repositories")

libraries = module_extension(
    implementation = lambda ctx: library_repositories(),
    doc = "Declares the libraries that Stowage uses.",
)

"""What a WORKSPACE that uses Stowage declares, Stowage's own included.

    load("@stowage//:workspace.bzl", "stowage_workspace")

    stowage_workspace()

docs/tutorials/using.md lists the repositories. (MODULE.bazel does the same for Bazel 7 and
later.)
"""

load("//third_party:bazel_builtin.bzl", "bazel_builtin_repositories")
load("//third_party:libraries.bzl", "library_repositories")

def stowage_workspace():
    """Declares what Stowage needs, save what was declared before."""
    declared = native.existing_rules()
    bazel_builtin_repositories(but = declared)
    library_repositories(but = declared)

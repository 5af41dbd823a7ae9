#include "tests/onnx/op_table.h"

#include "base/strings.h"
#include "onnx/ops.h"

namespace stowage {

std::string OnnxOpTable() {
  std::string text = StrCat(
      "# ONNX ops\n"
      "\n"
      "This page lists the ops that Stowage imports from ONNX files, with the "
      "operator sets whose definition\n"
      "is supported and the limits. [onnx.md](../guides/onnx.md) explains how "
      "a file is imported:\n"
      "\n"
      "    stowage plan --onnx net.onnx --batch 64\n"
      "\n"
      "Functions that a file defines are inlined. Element types are those of "
      "the [ops](ops.md) that an op\n"
      "becomes. \"Known\" means known when the graph is built.\n"
      "\n"
      "This page is made by `bazel run //tests/onnx:write_op_table > "
      "docs/reference/onnx_ops.md` and checked\n"
      "by `tests/onnx/op_table_test.cc`.\n"
      "\n"
      "| op | operator sets | limits |\n|---|---|---|\n");
  for (const onnx::ImportedOp& op : onnx::ImportedOps()) {
    const int64_t newest =
        op.changed == 0 ? onnx::kNewestOpset : op.changed - 1;
    text += StrCat("| `", op.name, "` | ", op.since, " to ", newest, " | ",
                   op.limits, " |\n");
  }
  return text;
}

}  // namespace stowage

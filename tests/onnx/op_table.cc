#include "tests/onnx/op_table.h"

#include "base/strings.h"
#include "onnx/ops.h"

namespace stowage {

std::string OnnxOpTable() {
  std::string text = StrCat(
      "# Ops of ONNX files\n\n",
      "The ops that `ReadOnnx`, `stowage plan --onnx` and all else that reads "
      "ONNX "
      "files\nknow, of ONNX's own domain; functions that a file brings itself "
      "are "
      "written out.\n[onnx.md](../guides/onnx.md) tells what becomes of a "
      "file.\n\n",
      "The operator sets are those whose definition of the op is known; a file "
      "may "
      "ask for\nany of them. Of each op, elements may be of the types that the "
      "ops "
      "have that it\nbecomes ([ops.md](ops.md)), and a plan has to know what a "
      "shape "
      "depends on.\n\n",
      "This page is made by `bazel run //tests/onnx:write_op_table > "
      "docs/reference/onnx_ops.md` and\nchecked by "
      "`tests/onnx/op_table_test.cc`.\n\n",
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

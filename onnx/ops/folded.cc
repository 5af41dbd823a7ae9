// Ops that a plan takes only where their result is known before a step (onnx/fold.h).

#include "onnx/ops.h"

namespace stowage::onnx {
namespace {

Error NotKnown(const ImportedNode& node) {
  return node.Unsupported(
      "depends on what is computed in each step; it is there only where its "
      "result "
      "is known when a plan is made");
}

}  // namespace

Result<Values> ConvertConstant(ImportedNode& node) { return NotKnown(node); }
Result<Values> ConvertNonZero(ImportedNode& node) { return NotKnown(node); }
Result<Values> ConvertShape(ImportedNode& node) { return NotKnown(node); }
Result<Values> ConvertSize(ImportedNode& node) { return NotKnown(node); }

}  // namespace stowage::onnx

// Losses that a file computes itself.

#include "base/strings.h"
#include "ir/ops.h"
#include "onnx/ops.h"
#include "onnx/ops/common.h"

namespace stowage::onnx {
namespace {

// The loss of log-probabilities (N, C, d...) at labels (N, d...), by the node's
// reduction; operand 2, if it is there, weighs classes.
Result<Value> NegativeLogLikelihood(ImportedNode& node, Value log_p) {
  const Shape& shape = node.ShapeOf(0);
  const std::string reduction = node.Text("reduction", "mean");
  if (shape.rank() < 2 || node.ShapeOf(1).rank() != shape.rank() - 1 ||
      !IsIndex(node.Type(1).dtype)) {
    return node.Wrong(
        StrCat("judges ", node.Type(0).ToString(), " by labels ",
               node.Type(1).ToString(),
               "; expected i32 or i64 labels of its shape without "
               "the second dimension"));
  }
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    return node.Wrong(StrCat("reduces by ", Quoted(reduction)));
  }
  const DType dtype = node.Type(0).dtype;
  Value labels = node.In(1);
  Value weights = Fill(node.graph(), 1, dtype, node.ShapeOf(1));
  Value ignored;
  if (node.Find("ignore_index")) {
    ignored = Equal(
        labels, Like(labels, static_cast<double>(node.Int("ignore_index", 0))));
    labels = Where(ignored, Like(labels, 0), labels);
  }
  if (node.Has(2)) weights = Gather(node.In(2), labels);
  if (ignored.ok()) weights = Where(ignored, Like(log_p, 0), weights);
  // Classes last, where each label picks its own.
  Axes order = {0};
  for (int i = 2; i < shape.rank(); ++i) order.push_back(i);
  order.push_back(1);
  Shape column = node.ShapeOf(1);
  column.push_back(1);
  const Value picked =
      Reshape(TakeAlongAxis(Permute(log_p, order), Reshape(labels, column), -1),
              node.ShapeOf(1));
  const Value losses = Neg(Mul(picked, weights));
  if (reduction == "none") return losses;
  const Value sum = ReduceSum(losses);
  return reduction == "sum" ? sum : Div(sum, ReduceSum(weights));
}

}  // namespace

Result<Values> ConvertNegativeLogLikelihoodLoss(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Value loss,
                           NegativeLogLikelihood(node, node.In(0)));
  return Values{loss};
}

Result<Values> ConvertSoftmaxCrossEntropyLoss(ImportedNode& node) {
  const Value log_p = LogSoftmax(node.In(0), 1);
  STOWAGE_ASSIGN_OR_RETURN(const Value loss,
                           NegativeLogLikelihood(node, log_p));
  return Values{loss, log_p};
}

}  // namespace stowage::onnx

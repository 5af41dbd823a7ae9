#include "onnx/loss.h"

#include <optional>
#include <span>
#include <utility>

#include "base/strings.h"
#include "ir/ops.h"

namespace stowage::onnx {
namespace {

Error Wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, StrCat("[onnx] ", message)};
}

Shape Without(const Shape& shape, int axis) {
  Shape rest;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) rest.push_back(shape[i]);
  }
  return rest;
}

// The axis of classes: the one that the labels lack.
Result<int> ClassAxis(const Shape& logits, const OnnxLoss& loss) {
  if (logits.rank() < 2) {
    return Wrong(
        StrCat("the loss cross_entropy takes logits of two dimensions "
               "or more; they are ",
               logits.ToString()));
  }
  if (!loss.labels_shape) return logits.rank() >= 4 ? 1 : logits.rank() - 1;
  const Shape labels{std::span<const int64_t>(*loss.labels_shape)};
  std::optional<int> axis;
  for (int i = 1; i < logits.rank(); ++i) {
    if (Without(logits, i) != labels) continue;
    if (axis) {
      return Wrong(StrCat("labels ", labels.ToString(), " lack dimension ",
                          *axis, " or ", i, " of logits ", logits.ToString(),
                          ": which are the classes cannot be told"));
    }
    axis = i;
  }
  if (!axis) {
    return Wrong(StrCat("labels ", labels.ToString(), " do not go with logits ",
                        logits.ToString(),
                        "; expected their shape without the classes"));
  }
  return *axis;
}

// Which part of the labels the largest logit is at.
Value Accuracy(Value logits, Value labels) {
  return ReduceMean(
      Cast(Equal(Cast(ArgMax(logits), labels.dtype()), labels), DType::kF32));
}

Result<Value> LossOf(GraphBuilder& g, const OnnxLoss& loss, Value output,
                     bool judges) {
  if (loss.kind == OnnxLossKind::kOutput) return output;
  const Shape shape = output.shape();  // which a new input may move
  if (loss.kind == OnnxLossKind::kCrossEntropy) {
    STOWAGE_ASSIGN_OR_RETURN(const int axis, ClassAxis(shape, loss));
    const Value labels =
        g.Input(loss.labels, DType::kI64, Without(shape, axis));
    Axes order;
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != axis) order.push_back(i);
    }
    order.push_back(axis);
    const Value logits = Permute(output, order);
    const Value cross_entropy = CrossEntropy(logits, labels);
    if (judges) g.Output("accuracy", Accuracy(logits, labels));
    return cross_entropy;
  }
  if (loss.labels_shape &&
      *loss.labels_shape != std::vector<int64_t>(shape.begin(), shape.end())) {
    return Wrong(
        StrCat("the loss compares ", shape.ToString(), " with ",
               Shape(std::span<const int64_t>(*loss.labels_shape)).ToString(),
               "; expected one shape"));
  }
  const Value target = g.Input(loss.labels, output.dtype(), shape);
  if (loss.kind == OnnxLossKind::kMse) {
    return MeanSquaredError(output, target);
  }
  // log(1 + e^x) - x t: the cross-entropy of sigmoid(x), which does not overflow.
  return ReduceMean(Sub(Softplus(output), Mul(output, target)));
}

}  // namespace

Status AddLoss(GraphBuilder& g, const OnnxLoss& loss, const std::string& name,
               Value output, bool judges) {
  STOWAGE_ASSIGN_OR_RETURN(Value value, LossOf(g, loss, output, judges));
  if (g.error()) return *g.error();
  if (value.shape().num_elements() != 1 || !IsFloat(value.dtype())) {
    return Wrong(StrCat("the output ", Quoted(name), " is ",
                        value.type().ToString(),
                        "; a loss is one number, or one of cross_entropy, mse "
                        "and bce of an output"));
  }
  if (value.rank() > 0) value = Reshape(value, {});
  // As losses are, whatever the model computes in (Runner::ReadScalar).
  if (value.dtype() != DType::kF32) value = Cast(value, DType::kF32);
  g.Output("loss", value);
  if (g.error()) return *g.error();
  return {};
}

}  // namespace stowage::onnx

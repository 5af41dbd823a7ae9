// Normalizations.

#include <algorithm>

#include "base/strings.h"
#include "ir/composites.h"
#include "ir/ops.h"
#include "onnx/ops.h"

namespace stowage::onnx {

namespace {

DType StatisticsOf(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// x, normalized in `count` contiguous parts, by a batch norm of one example with as many
// channels, which saves x and two numbers per channel.
Value NormalizedParts(ImportedNode& node, int64_t count, double eps) {
  const Shape& shape = node.ShapeOf(0);
  const DType dtype = node.Type(0).dtype;
  const Value rows =
      Reshape(node.In(0), {1, count, shape.num_elements() / count});
  return Reshape(BatchNorm(rows, Fill(node.graph(), 1, dtype, {count}),
                           Fill(node.graph(), 0, dtype, {count}), eps)
                     .y,
                 shape);
}

// x with the dimensions from `axis` on merged.
struct NormRows {
  Value x;
  int64_t width = 1;
};
Result<NormRows> RowsFrom(ImportedNode& node) {
  const Shape& shape = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", -1), shape.rank()));
  NormRows rows;
  Shape flat;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < axis) {
      flat.push_back(shape[i]);
    } else {
      rows.width *= shape[i];
    }
  }
  flat.push_back(rows.width);
  rows.x = Reshape(node.In(0), flat);
  return rows;
}

// The scale or bias of rows of `width`, or `otherwise` for all elements.
Result<Value> OfRows(ImportedNode& node, int i, int64_t width,
                     double otherwise) {
  if (!node.Has(i)) {
    return Fill(node.graph(), otherwise, node.Type(0).dtype, {width});
  }
  const int64_t count = node.ShapeOf(i).num_elements();
  if (count == width) return Reshape(node.In(i), {width});
  if (count == 1) {
    return BroadcastTo(Reshape(node.In(i), {1}), {width});
  }
  return node.Unsupported(StrCat("scales rows of ", width, " by ",
                                 node.Type(i).ToString(),
                                 "; expected as many numbers, or one"));
}

}  // namespace

Result<Values> ConvertBatchNormalization(ImportedNode& node) {
  const Shape& shape = node.ShapeOf(0);
  if (shape.rank() < 2) {
    return node.Wrong(StrCat("normalizes ", shape.ToString(),
                             "; expected batches of channels"));
  }
  if (node.Int("spatial", 1) == 0) {
    return node.Unsupported(
        "has statistics of each element; expected channels");
  }
  const DType dtype = node.Type(0).dtype, statistics = StatisticsOf(dtype);
  const double eps = node.Float("epsilon", 1e-5f);
  const double momentum = node.Float("momentum", 0.9f);
  const Value x = node.In(0);
  const Value gamma = node.In(1), beta = node.In(2);
  const Value mean = node.Keep(3), variance = node.Keep(4);
  // A norm without running statistics, such as of weights, is not a layer.
  const bool judged = node.context().evaluation && node.IsKept(3);
  const bool of_training = node.Int("training_mode", 0) != 0;
  if (node.context().training || (of_training && !judged)) {
    const BatchNormResults r = BatchNorm(x, gamma, beta, eps);
    Values results = {r.y};
    const auto follow = [&](int i, Value kept, Value now) {
      const DType type = node.Type(i).dtype;
      const Value weight = Fill(node.graph(), 1 - momentum, type, {});
      return node.IsKept(i)
                 ? LerpUpdate(kept, Cast(now, type), weight)
                 : Add(kept, Mul(Sub(Cast(now, type), kept), weight));
    };
    results.push_back(follow(3, mean, r.mean));
    // In training mode ONNX's running variance is biased. A file in evaluation mode comes from
    // PyTorch, whose running variance is unbiased.
    const auto count = static_cast<double>(shape.num_elements() /
                                           std::max(shape[1], int64_t{1}));
    results.push_back(follow(4, variance,
                             of_training || count < 2
                                 ? r.variance
                                 : MulScalar(r.variance, count / (count - 1))));
    results.resize(static_cast<size_t>(std::max(node.num_results(), 1)));
    return results;
  }
  // y = x scale + shift, per channel.
  const Value rstd = Rsqrt(AddScalar(Cast(variance, statistics), eps));
  const Value scale = Mul(Cast(gamma, statistics), rstd);
  const Value shift =
      Sub(Cast(beta, statistics), Mul(Cast(mean, statistics), scale));
  Values results = {Add(Mul(x, PerChannel(Cast(scale, dtype), shape.rank())),
                        PerChannel(Cast(shift, dtype), shape.rank())),
                    mean, variance};
  results.resize(static_cast<size_t>(std::clamp(node.num_results(), 1, 3)));
  return results;
}

Result<Values> ConvertLayerNormalization(ImportedNode& node) {
  const double eps = node.Float("epsilon", 1e-5f);
  STOWAGE_ASSIGN_OR_RETURN(const NormRows rows, RowsFrom(node));
  STOWAGE_ASSIGN_OR_RETURN(const Value gamma, OfRows(node, 1, rows.width, 1));
  STOWAGE_ASSIGN_OR_RETURN(const Value beta, OfRows(node, 2, rows.width, 0));
  Values results = {
      Reshape(LayerNorm(rows.x, gamma, beta, eps), node.ShapeOf(0))};
  // The mean and reciprocal deviation of each row, if they are read.
  if (node.Wants(1) || node.Wants(2)) {
    Shape shape = node.ShapeOf(0);
    STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                             node.Axis(node.Int("axis", -1), shape.rank()));
    for (int i = static_cast<int>(axis); i < shape.rank(); ++i) shape[i] = 1;
    const DType statistics = StatisticsOf(node.Type(0).dtype);
    const Value wide = Cast(rows.x, statistics);
    results.push_back(Reshape(ReduceMean(wide, {-1}), shape));
    results.push_back(Reshape(
        Rsqrt(AddScalar(Variance(wide, {-1}, /*correction=*/0), eps)), shape));
    results.resize(static_cast<size_t>(node.num_results()));
  }
  return results;
}

Result<Values> ConvertRMSNormalization(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const NormRows rows, RowsFrom(node));
  STOWAGE_ASSIGN_OR_RETURN(const Value gamma, OfRows(node, 1, rows.width, 1));
  return Values{Reshape(RmsNorm(rows.x, gamma, node.Float("epsilon", 1e-5f)),
                        node.ShapeOf(0))};
}

Result<Values> ConvertInstanceNormalization(ImportedNode& node) {
  const Shape& shape = node.ShapeOf(0);
  if (shape.rank() < 3) {
    return node.Wrong(StrCat("normalizes ", shape.ToString(),
                             "; expected channels of several elements"));
  }
  const Value normal =
      NormalizedParts(node, shape[0] * shape[1], node.Float("epsilon", 1e-5f));
  return Values{Add(Mul(normal, PerChannel(node.In(1), shape.rank())),
                    PerChannel(node.In(2), shape.rank()))};
}

Result<Values> ConvertGroupNormalization(ImportedNode& node) {
  const Shape& shape = node.ShapeOf(0);
  const int64_t groups = node.Int("num_groups", 0);
  if (shape.rank() < 2 || groups < 1 || shape[1] % groups != 0) {
    return node.Wrong(StrCat("normalizes ", shape.ToString(), " in ", groups,
                             " groups; they must divide the channels"));
  }
  const int64_t channels = shape[1];
  // Scales are per group up to operator set 20, later per channel.
  const auto spread = [&](int i) {
    Value v = node.In(i);
    if (node.ShapeOf(i).num_elements() == groups && groups != channels) {
      v = Reshape(
          BroadcastTo(Reshape(v, {groups, 1}), {groups, channels / groups}),
          {channels});
    }
    return PerChannel(v, shape.rank());
  };
  const Value normal =
      NormalizedParts(node, shape[0] * groups, node.Float("epsilon", 1e-5f));
  return Values{Add(Mul(normal, spread(1)), spread(2))};
}

Result<Values> ConvertLpNormalization(ImportedNode& node) {
  const double p = static_cast<double>(node.Int("p", 2));
  const Value x = node.In(0);
  const Value norm = Norm(x, p, {node.Int("axis", -1)}, /*keep=*/true);
  if (!norm.ok()) return Values{norm};
  // A slice of zeros is unchanged, as in ONNX Runtime, and has no gradient.
  const Value is_zero = Equal(norm, Like(x, 0));
  return Values{
      Where(is_zero, Like(x, 0), Div(x, Where(is_zero, Like(x, 1), norm)))};
}

Result<Values> ConvertMeanVarianceNormalization(ImportedNode& node) {
  const Axes axes = node.IntList("axes", {0, 2, 3});
  const Value x = node.In(0);
  const Value centred = Sub(x, ReduceMean(x, axes, /*keep=*/true));
  const Value deviation =
      Root(ReduceMean(Square(centred), axes, /*keep=*/true));
  return Values{Div(centred, AddScalar(deviation, 1e-9))};
}

Result<Values> ConvertLRN(ImportedNode& node) {
  return Values{
      LocalResponseNorm(node.In(0), {.size = node.Int("size", 1),
                                     .alpha = node.Float("alpha", 1e-4f),
                                     .beta = node.Float("beta", 0.75),
                                     .bias = node.Float("bias", 1)})};
}

// Losses that are part of a file.

namespace {

// The loss of log-probabilities (N, C, d...) at labels (N, d...), by the node's reduction;
// optional operand 2 has the class weights.
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
  // Classes last, for the gather by label.
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

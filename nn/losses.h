#ifndef STOWAGE_NN_LOSSES_H_
#define STOWAGE_NN_LOSSES_H_

// Losses as functions over the IR, with PyTorch's definitions; each is a scalar,
// the mean or the sum over elements, rows or examples. (CrossEntropy and
// MeanSquaredError as single functions are in ir/ops.h.)
//
//   Value loss = BceWithLogits(logits, targets, {.positive_weight = 3});
//
// Operands of one shape and float type, unless said otherwise; errors poison the
// builder. Where a loss has a kink, its gradient there is 0.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

enum class Reduction { kMean, kSum };

#define STOWAGE_LOC SourceLoc loc = SourceLoc::Current()

/// |x - y|, (x - y)^2.
Value L1Loss(Value x, Value y, Reduction reduction = Reduction::kMean,
             STOWAGE_LOC);
Value MseLoss(Value x, Value y, Reduction reduction = Reduction::kMean,
              STOWAGE_LOC);

/// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2); d = x - y, delta > 0.
Value HuberLoss(Value x, Value y, double delta = 1,
                Reduction reduction = Reduction::kMean, STOWAGE_LOC);
/// d^2 / (2 beta) where |d| <= beta, else |d| - beta / 2; beta > 0.
Value SmoothL1Loss(Value x, Value y, double beta = 1,
                   Reduction reduction = Reduction::kMean, STOWAGE_LOC);

struct BceOptions {
  double positive_weight = 1;  // of the part that a target of 1 has
  Reduction reduction = Reduction::kMean;
};
/// Binary cross-entropy of sigmoid(logits), for targets in [0, 1]; it neither
/// overflows nor loses a gradient for logits of any size.
Value BceWithLogits(Value logits, Value targets, const BceOptions& options = {},
                    STOWAGE_LOC);

/// y (log y - x): how far the distribution y is from the one whose logarithms are
/// x; 0 where y is 0. The mean is over elements; PyTorch's "batchmean" is the sum
/// divided by the rows.
Value KlDivergence(Value log_probabilities, Value probabilities,
                   Reduction reduction = Reduction::kMean, STOWAGE_LOC);

/// x (..., C), y (..., C) -> (...): x y / (max(|x|, eps) max(|y|, eps)).
Value CosineSimilarity(Value x, Value y, double eps = 1e-8, STOWAGE_LOC);

struct CosineEmbeddingOptions {
  double margin = 0;  // in [-1, 1]
  Reduction reduction = Reduction::kMean;
};
/// x, y (..., C) and sides (...) of 1 and -1: 1 - cos where they are alike (1), else
/// max(0, cos - margin).
Value CosineEmbeddingLoss(Value x, Value y, Value sides,
                          const CosineEmbeddingOptions& options = {},
                          STOWAGE_LOC);

/// max(0, 1 - score side) for sides of 1 and -1.
Value HingeLoss(Value scores, Value sides,
                Reduction reduction = Reduction::kMean, STOWAGE_LOC);

struct ClassLossOptions {
  /// Rows with this label count for nothing. -100 in PyTorch.
  std::optional<int64_t> ignored_label = {};
  /// A weight for each class, not negative; empty: 1 for all. The mean divides by
  /// the sum of the weights of the rows' classes.
  std::vector<double> class_weights = {};
  /// Part of every target, in [0, 1), that is spread evenly over all classes.
  double label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
};

/// -log_probabilities[label]; (..., V) and labels (...) of i32 or i64 in [0, V). A
/// step whose label is out of range, and not the ignored one, reports it. Where
/// every row is ignored the loss is 0 (NaN in PyTorch). No smoothing.
Value NllLoss(Value log_probabilities, Value labels,
              const ClassLossOptions& options = {}, STOWAGE_LOC);

/// Cross-entropy of softmax(logits), likewise, with all options. Without any of
/// them, CrossEntropy does the same in one op and less memory.
Value ClassCrossEntropy(Value logits, Value labels,
                        const ClassLossOptions& options, STOWAGE_LOC);

#undef STOWAGE_LOC

// Label smoothing (Szegedy et al. 2016) of a graph that is there already: its loss
// becomes that of torch.nn.CrossEntropyLoss(label_smoothing=...), the share `smoothing` of
// every target spread evenly over all classes.
//
//   Result<Graph> smoothed = WithLabelSmoothing(*forward, 0.1);

/// `graph` with its output "loss" smoothed, which must come from a cross_entropy or a
/// linear_cross_entropy. Composed of other ops: the first makes its softmax once more, and
/// the second still never holds its logits. Errors: a smoothing outside [0, 1);
/// kUnsupported for a loss of another kind, or whose weight is in blocks.
Result<Graph> WithLabelSmoothing(const Graph& graph, double smoothing);

}  // namespace stowage

#endif  // STOWAGE_NN_LOSSES_H_

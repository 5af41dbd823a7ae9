#ifndef STOWAGE_NN_LOSSES_H_
#define STOWAGE_NN_LOSSES_H_

// Provides losses as functions that add ops to a graph. Losses are defined as in PyTorch, and the
// losses of preference optimization as in TRL. Except for PreferenceLoss, a loss is a scalar, the
// mean or sum over elements, rows or examples. CrossEntropy and MeanSquaredError are ops
// (ir/ops.h).
//
//   Value loss = BceWithLogits(logits, targets, {.positive_weight = 3});
//
//   const PreferenceResults results = PreferenceLoss(
//       {.log_probs = p, .reference = q}, {.objective = PreferenceObjective::kDpo});
//   g.Output("loss", ReduceMean(results.losses));
//
// The operands of a loss must have the same shape and floating-point type unless stated otherwise.
// Errors are recorded in the GraphBuilder. At a point where a loss is not differentiable, its
// gradient is 0.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

enum class Reduction { kMean, kSum };

#define STOWAGE_LOC SourceLoc loc = SourceLoc::Current()

/// L1Loss returns the mean or sum of |x - y|, and MseLoss the mean or sum of (x - y)^2.
Value L1Loss(Value x, Value y, Reduction reduction = Reduction::kMean,
             STOWAGE_LOC);
Value MseLoss(Value x, Value y, Reduction reduction = Reduction::kMean,
              STOWAGE_LOC);

/// Returns the mean or sum of d^2 / 2 where |d| <= delta and delta (|d| - delta / 2) elsewhere, for
/// d = x - y. `delta` must be positive.
Value HuberLoss(Value x, Value y, double delta = 1,
                Reduction reduction = Reduction::kMean, STOWAGE_LOC);
/// Returns the mean or sum of d^2 / (2 beta) where |d| <= beta and |d| - beta / 2 elsewhere, for
/// d = x - y. `beta` must be positive.
Value SmoothL1Loss(Value x, Value y, double beta = 1,
                   Reduction reduction = Reduction::kMean, STOWAGE_LOC);

struct BceOptions {
  double positive_weight = 1;  // PyTorch's pos_weight; must be positive
  Reduction reduction = Reduction::kMean;
};
/// Returns the mean or sum of the binary cross-entropy of sigmoid(logits) for targets in [0, 1].
/// The computation is numerically stable for logits of any magnitude.
Value BceWithLogits(Value logits, Value targets, const BceOptions& options = {},
                    STOWAGE_LOC);

/// Returns the mean or sum of y (log y - x), where x are `log_probabilities` and y are
/// `probabilities`. The sum is the divergence of the distribution y from the distribution whose
/// logarithm is x. An element with y = 0 contributes 0. The mean is over elements. PyTorch's
/// "batchmean" is the sum divided by the number of rows.
Value KlDivergence(Value log_probabilities, Value probabilities,
                   Reduction reduction = Reduction::kMean, STOWAGE_LOC);

/// Returns the cosine of the angle between corresponding rows of x and y (..., C), as (...): their
/// dot product divided by max(|x|, eps) max(|y|, eps). `eps` must be positive.
Value CosineSimilarity(Value x, Value y, double eps = 1e-8, STOWAGE_LOC);

struct CosineEmbeddingOptions {
  double margin = 0;  // must be in [-1, 1]
  Reduction reduction = Reduction::kMean;
};
/// Returns the mean or sum of a loss of each row. The loss is 1 - cos if the row's side is 1, and
/// max(0, cos - margin) if it is -1, where cos is the CosineSimilarity of the row. x and y are
/// (..., C). `sides` is (...), with the type of x.
Value CosineEmbeddingLoss(Value x, Value y, Value sides,
                          const CosineEmbeddingOptions& options = {},
                          STOWAGE_LOC);

/// Returns the mean or sum of max(0, 1 - score * side). Sides are 1 or -1.
Value HingeLoss(Value scores, Value sides,
                Reduction reduction = Reduction::kMean, STOWAGE_LOC);

struct ClassLossOptions {
  /// Rows with this label are ignored. If absent, no rows are ignored. PyTorch's default is -100.
  std::optional<int64_t> ignored_label = {};
  /// A nonnegative weight for each class. If empty, all weights are 1. Each row has the weight of
  /// its label, and Reduction::kMean divides the weighted sum by the sum of the weights of all rows
  /// that are not ignored.
  std::vector<double> class_weights = {};
  /// The fraction of every target that is spread evenly over all classes, in [0, 1). Must be 0 for
  /// NllLoss.
  double label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
};

/// Returns the mean or sum of -log_probabilities[label] over rows. log_probabilities are (..., V),
/// and labels are i32 or i64 (...) in [0, V). A step with a label out of range, other than the
/// ignored label, fails with kIndexOutOfRange. If every row is ignored, the mean is 0, where
/// PyTorch returns NaN.
Value NllLoss(Value log_probabilities, Value labels,
              const ClassLossOptions& options = {}, STOWAGE_LOC);

/// Returns the cross-entropy of softmax(logits), with the options above. Requirements of labels and
/// errors are those of NllLoss. With default options, the op CrossEntropy computes the same value
/// and uses less memory.
Value ClassCrossEntropy(Value logits, Value labels,
                        const ClassLossOptions& options, STOWAGE_LOC);

#undef STOWAGE_LOC

/// Returns `graph` with label smoothing (Szegedy et al. 2016) in its output "loss", as in
/// torch.nn.CrossEntropyLoss(label_smoothing=...). The smoothed loss is composed of several ops. If
/// the loss is a cross_entropy, its softmax is computed twice. If it is a linear_cross_entropy,
/// logits are never stored, as before. Returns kInvalidArgument if `smoothing` is outside [0, 1).
/// Returns kUnsupported if the loss is not the result of a cross_entropy or linear_cross_entropy,
/// or if that op reads a quantized weight or caps logits.
Result<Graph> WithLabelSmoothing(const Graph& graph, double smoothing);

/// Objectives of preference optimization, as functions of the log-probabilities of whole answers. p
/// is the log-probability under the model. q is the log-probability under the reference, which is
/// the model before training. The subscripts c and r denote the chosen and the rejected answer.
///
///   DPO    softplus(-beta h), h = (p_c - q_c) - (p_r - q_r)    Rafailov et al. 2023
///   IPO    (h - 1 / (2 beta))^2                                Azar et al. 2024
///   ORPO   nll_c + beta softplus(odds_r - odds_c),
///          odds = p - log(1 - e^p); no reference               Hong et al. 2024
///   SimPO  softplus(gamma - beta (p_c - p_r)); no reference    Meng et al. 2024
///   KTO    w sigmoid(-beta s (p - q - k)), s = 1 for good answers and -1 for bad ones,
///          k = max(0, mean of p' - q' over answers to other prompts),
///          which has no gradient                               Ethayarajh et al. 2024
///
/// w is a weight (PreferenceInputs::sides), and nll is the negative log-likelihood of the chosen
/// answer. The log-probability of an answer is the sum over its tokens in DPO and KTO, and the mean
/// over its tokens in the other objectives.
enum class PreferenceObjective { kDpo, kIpo, kOrpo, kSimpo, kKto };

/// Returns the objective named `name`: "dpo", "ipo", "orpo", "simpo" or "kto". Returns nullopt for
/// another name.
std::optional<PreferenceObjective> FindPreferenceObjective(
    std::string_view name);
std::string_view PreferenceObjectiveName(PreferenceObjective objective);

struct PreferenceRules {
  PreferenceObjective objective = PreferenceObjective::kDpo;
  /// The coefficient beta in the losses above. It determines how strongly deviations from the
  /// reference are penalized, or, in ORPO, the weight of the odds term.
  double beta = 0.1;
  /// SimPO's target margin.
  double gamma = 0.5;
};

/// Returns TRL's default beta: 2 for SimPO, and 0.1 for the other objectives.
double UsualBeta(PreferenceObjective objective);

/// Returns whether the loss compares the model with a reference.
bool HasReference(PreferenceObjective objective);
/// Returns whether the log-probability of an answer is the mean over its tokens rather than the
/// sum.
bool IsMeanOverTokens(PreferenceObjective objective);
/// Returns whether an example consists of two answers to one prompt. If not (KTO), an example has
/// one answer. The second sequence of its pair is then an answer to another prompt, from which k is
/// estimated.
bool IsPaired(PreferenceObjective objective);

/// Returns kInvalidArgument unless beta is finite and positive, gamma is finite and at least 0, and
/// for IPO (1 / (2 beta))^2 is finite in f32.
Status CheckPreference(const PreferenceRules& rules);

struct PreferenceInputs {
  Value log_probs;       // (B, 2), chosen answer first
  Value reference = {};  // (B, 2), if HasReference
  Value nll = {};        // (B), for ORPO
  /// (B), for KTO: w for a good answer with weight w, and -w for a bad answer with weight w.
  Value sides = {};
};

struct PreferenceResults {
  Value losses;   // (B)
  Value margins;  // (B), positive if the model prefers the right answer
};
/// Returns the loss and margin of each example. Requires that CheckPreference succeeds, and that
/// `inputs` has the values that the objective uses, which must all have the same floating-point
/// type. A margin is beta h, or beta (p_c - p_r) without a reference, or beta s (p - q - k) for
/// KTO. With KTO, each loss depends on all examples of the batch through k.
PreferenceResults PreferenceLoss(const PreferenceInputs& inputs,
                                 const PreferenceRules& rules,
                                 SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_LOSSES_H_

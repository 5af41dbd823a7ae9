#ifndef STOWAGE_NN_LOSSES_H_
#define STOWAGE_NN_LOSSES_H_

// Provides losses as functions over the IR, as defined by PyTorch, and losses of preference
// optimization, as defined by TRL. A loss of the first kind is a scalar, the mean or sum over
// elements, rows or examples. CrossEntropy and MeanSquaredError are ops (ir/ops.h).
//
//   Value loss = BceWithLogits(logits, targets, {.positive_weight = 3});
//
//   const PreferenceResults results = PreferenceLoss(
//       {.log_probs = p, .reference = q}, {.objective = PreferenceObjective::kDpo});
//   g.Output("loss", ReduceMean(results.losses));
//
// The operands of a loss must have the same shape and floating-point type unless stated otherwise.
// Errors are recorded in the builder. The gradient at a kink is 0.

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

/// Return the mean or sum of |x - y| or of (x - y)^2.
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
  double positive_weight = 1;  // PyTorch's pos_weight
  Reduction reduction = Reduction::kMean;
};
/// Returns the binary cross-entropy of sigmoid(logits) for targets in [0, 1]. It is numerically
/// stable for logits of any magnitude.
Value BceWithLogits(Value logits, Value targets, const BceOptions& options = {},
                    STOWAGE_LOC);

/// Returns the mean or sum of y (log y - x), the divergence of the distribution y from the
/// distribution whose logarithm is x. An element with y = 0 contributes 0. The mean is over
/// elements; PyTorch's "batchmean" is the sum divided by the number of rows.
Value KlDivergence(Value log_probabilities, Value probabilities,
                   Reduction reduction = Reduction::kMean, STOWAGE_LOC);

/// Returns x y / (max(|x|, eps) max(|y|, eps)), of shape (...), for the rows of x and y (..., C).
Value CosineSimilarity(Value x, Value y, double eps = 1e-8, STOWAGE_LOC);

struct CosineEmbeddingOptions {
  double margin = 0;  // must be in [-1, 1]
  Reduction reduction = Reduction::kMean;
};
/// Returns the mean or sum of 1 - cos for rows with side 1 and of max(0, cos - margin) for rows
/// with side -1. x and y are (..., C), and `sides` is (...).
Value CosineEmbeddingLoss(Value x, Value y, Value sides,
                          const CosineEmbeddingOptions& options = {},
                          STOWAGE_LOC);

/// Returns the mean or sum of max(0, 1 - score * side) for sides of 1 and -1.
Value HingeLoss(Value scores, Value sides,
                Reduction reduction = Reduction::kMean, STOWAGE_LOC);

struct ClassLossOptions {
  /// Rows with this label are ignored. PyTorch's default is -100.
  std::optional<int64_t> ignored_label = {};
  /// A nonnegative weight for each class. If empty, all weights are 1. The mean divides by the sum
  /// of the weights of the rows' classes.
  std::vector<double> class_weights = {};
  /// The fraction of every target that is spread evenly over all classes, in [0, 1).
  double label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
};

/// Returns the mean or sum of -log_probabilities[label], without smoothing. log_probabilities are
/// (..., V), and labels are i32 or i64 (...) in [0, V). A step with a label out of range, other
/// than the ignored label, fails with kIndexOutOfRange. If every row is ignored, the mean is 0,
/// where PyTorch returns NaN.
Value NllLoss(Value log_probabilities, Value labels,
              const ClassLossOptions& options = {}, STOWAGE_LOC);

/// Returns the cross-entropy of softmax(logits), with all options. Labels and errors are as for
/// NllLoss. Without options, the op CrossEntropy computes the same value and uses less memory.
Value ClassCrossEntropy(Value logits, Value labels,
                        const ClassLossOptions& options, STOWAGE_LOC);

#undef STOWAGE_LOC

/// Returns `graph` with label smoothing (Szegedy et al. 2016) in its output "loss", as in
/// torch.nn.CrossEntropyLoss(label_smoothing=...). The smoothed loss is composed of ops: with a
/// cross_entropy the softmax is computed twice, and with a linear_cross_entropy the logits are
/// still never stored. Returns kInvalidArgument if `smoothing` is outside [0, 1). Returns
/// kUnsupported if the loss is not the result of a cross_entropy or linear_cross_entropy, if its
/// weight is quantized in blocks, or if it caps logits.
Result<Graph> WithLabelSmoothing(const Graph& graph, double smoothing);

/// Objectives of preference optimization, as functions of the log-probabilities of whole answers.
/// p is the log-probability under the model and q under a reference, the model before training.
/// The subscripts c and r denote the chosen and the rejected answer.
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
/// The log-probability of an answer is the sum over its tokens in DPO and KTO, and the mean over
/// its tokens in the others.
enum class PreferenceObjective { kDpo, kIpo, kOrpo, kSimpo, kKto };

/// Returns the objective named `name`: "dpo", "ipo", "orpo", "simpo" or "kto". Returns nullopt for
/// another name.
std::optional<PreferenceObjective> FindPreferenceObjective(
    std::string_view name);
std::string_view PreferenceObjectiveName(PreferenceObjective objective);

struct PreferenceRules {
  PreferenceObjective objective = PreferenceObjective::kDpo;
  /// The strength of the penalty for deviating from the reference. For ORPO, the weight of the
  /// odds.
  double beta = 0.1;
  /// SimPO's target margin.
  double gamma = 0.5;
};

/// Returns TRL's default beta: 2 for SimPO and 0.1 for the others.
double UsualBeta(PreferenceObjective objective);

/// Returns whether the loss compares the model with a reference.
bool HasReference(PreferenceObjective objective);
/// Returns whether the log-probability of an answer is the mean over its tokens rather than the
/// sum.
bool IsMeanOverTokens(PreferenceObjective objective);
/// Returns whether an example consists of two answers to one prompt. Otherwise it consists of one
/// answer, and the second sequence of the pair is an answer to another prompt.
bool IsPaired(PreferenceObjective objective);

/// Returns kInvalidArgument unless beta is finite and positive, gamma is finite and at least 0, and
/// for IPO (1 / (2 beta))^2 is finite in f32.
Status CheckPreference(const PreferenceRules& rules);

struct PreferenceInputs {
  Value log_probs;       // (B, 2), chosen answer first
  Value reference = {};  // (B, 2), if HasReference
  Value nll = {};        // (B), for ORPO
  /// (B), for KTO: the weight w of a good answer, or -w of a bad one.
  Value sides = {};
};

struct PreferenceResults {
  Value losses;   // (B)
  Value margins;  // (B), positive if the model prefers the chosen answer
};
/// Returns the loss and margin of each example. Requires that CheckPreference succeeds, and that
/// `inputs` has the values that the objective uses, all of one floating-point type. With KTO, each
/// loss depends on all examples of the batch through k.
PreferenceResults PreferenceLoss(const PreferenceInputs& inputs,
                                 const PreferenceRules& rules,
                                 SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_LOSSES_H_

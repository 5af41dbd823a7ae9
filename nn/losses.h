#ifndef STOWAGE_NN_LOSSES_H_
#define STOWAGE_NN_LOSSES_H_

// Losses as functions over the IR, with PyTorch's definitions; each is a scalar, the mean or
// sum over elements, rows or examples. (CrossEntropy and MeanSquaredError are ops,
// ir/ops.h.) And losses of preference optimization, with TRL's definitions.
//
//   Value loss = BceWithLogits(logits, targets, {.positive_weight = 3});
//
//   const PreferenceResults results = PreferenceLoss(
//       {.log_probs = p, .reference = q}, {.objective = PreferenceObjective::kDpo});
//   g.Output("loss", ReduceMean(results.losses));
//
// Operands have one shape and float type unless stated otherwise; errors poison the
// builder. At a kink the gradient is 0.

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
  double positive_weight = 1;  // PyTorch's pos_weight
  Reduction reduction = Reduction::kMean;
};
/// Binary cross-entropy of sigmoid(logits), for targets in [0, 1]; numerically stable for
/// logits of any size.
Value BceWithLogits(Value logits, Value targets, const BceOptions& options = {},
                    STOWAGE_LOC);

/// y (log y - x), the divergence of the distribution y from the one with logarithms x; 0 at
/// y = 0. The mean is over elements; PyTorch's "batchmean" is the sum divided by the rows.
Value KlDivergence(Value log_probabilities, Value probabilities,
                   Reduction reduction = Reduction::kMean, STOWAGE_LOC);

/// x (..., C), y (..., C) -> (...): x y / (max(|x|, eps) max(|y|, eps)).
Value CosineSimilarity(Value x, Value y, double eps = 1e-8, STOWAGE_LOC);

struct CosineEmbeddingOptions {
  double margin = 0;  // in [-1, 1]
  Reduction reduction = Reduction::kMean;
};
/// x, y (..., C) and sides (...): 1 - cos for a side of 1, max(0, cos - margin) for -1.
Value CosineEmbeddingLoss(Value x, Value y, Value sides,
                          const CosineEmbeddingOptions& options = {},
                          STOWAGE_LOC);

/// max(0, 1 - score side) for sides of 1 and -1.
Value HingeLoss(Value scores, Value sides,
                Reduction reduction = Reduction::kMean, STOWAGE_LOC);

struct ClassLossOptions {
  /// Rows with this label are ignored. -100 in PyTorch.
  std::optional<int64_t> ignored_label = {};
  /// A nonnegative weight for each class; empty: 1 for all. The mean divides by the sum of
  /// the weights of the rows' classes.
  std::vector<double> class_weights = {};
  /// The fraction of every target, in [0, 1), that is spread evenly over all classes.
  double label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
};

/// -log_probabilities[label]; (..., V) and labels (...) of i32 or i64 in [0, V). A step with
/// a label out of range, other than the ignored one, fails with kIndexOutOfRange. If every
/// row is ignored the loss is 0 (NaN in PyTorch). No smoothing.
Value NllLoss(Value log_probabilities, Value labels,
              const ClassLossOptions& options = {}, STOWAGE_LOC);

/// Cross-entropy of softmax(logits), likewise, with all options. Without options, CrossEntropy
/// computes the same in one op and less memory.
Value ClassCrossEntropy(Value logits, Value labels,
                        const ClassLossOptions& options, STOWAGE_LOC);

#undef STOWAGE_LOC

/// `graph` with label smoothing (Szegedy et al. 2016) in its output "loss", which must come
/// from a cross_entropy or linear_cross_entropy: that of
/// torch.nn.CrossEntropyLoss(label_smoothing=...). Composed of ops: a cross_entropy computes
/// its softmax twice; a linear_cross_entropy still never holds its logits. Errors: a
/// smoothing outside [0, 1); kUnsupported for another loss, or one whose weight is in
/// blocks.
Result<Graph> WithLabelSmoothing(const Graph& graph, double smoothing);

/// Objectives of preference optimization, as functions of the log-probabilities of whole
/// answers: p of the model, q of a reference, the model before training; c is the chosen
/// answer, r the rejected one.
///
///   DPO    softplus(-beta h), h = (p_c - q_c) - (p_r - q_r)    Rafailov et al. 2023
///   IPO    (h - 1 / (2 beta))^2                                Azar et al. 2024
///   ORPO   nll_c + beta softplus(odds_r - odds_c),
///          odds = p - log(1 - e^p), without a reference        Hong et al. 2024
///   SimPO  softplus(gamma - beta (p_c - p_r)), likewise        Meng et al. 2024
///   KTO    w sigmoid(-beta s (p - q - k)), s = 1 for good answers and -1 for bad ones,
///          k = max(0, mean of p' - q' over answers to other prompts),
///          which has no gradient                               Ethayarajh et al. 2024
///
/// The log-probability of an answer is the sum over its tokens in DPO and KTO, and the mean
/// in the others.
enum class PreferenceObjective { kDpo, kIpo, kOrpo, kSimpo, kKto };

/// "dpo", "ipo", "orpo", "simpo" or "kto"; absent for another name.
std::optional<PreferenceObjective> FindPreferenceObjective(
    std::string_view name);
std::string_view PreferenceObjectiveName(PreferenceObjective objective);

struct PreferenceRules {
  PreferenceObjective objective = PreferenceObjective::kDpo;
  /// The strength of the penalty for leaving the reference; for ORPO, the weight of the odds.
  double beta = 0.1;
  /// The target margin of SimPO.
  double gamma = 0.5;
};

/// TRL's default beta: 2 for SimPO, 0.1 for the others.
double UsualBeta(PreferenceObjective objective);

/// Returns whether the loss compares with a reference.
bool HasReference(PreferenceObjective objective);
/// Returns whether the log-probability of an answer is the mean over its tokens, not the sum.
bool IsMeanOverTokens(PreferenceObjective objective);
/// Returns whether an example is two answers to one prompt; else it is one answer, and the
/// pair's second is an answer to another prompt.
bool IsPaired(PreferenceObjective objective);

/// Error kInvalidArgument unless beta is finite and above 0 and gamma finite and at least 0.
Status CheckPreference(const PreferenceRules& rules);

struct PreferenceInputs {
  Value log_probs;       // (B, 2): of the chosen and the rejected answer
  Value reference = {};  // (B, 2), if HasReference
  Value nll = {};        // (B), for ORPO
  /// (B), for KTO: above 0 for good answers, below for bad ones.
  Value sides = {};
};

struct PreferenceResults {
  Value losses;   // (B)
  Value margins;  // (B), above 0 if the model prefers the chosen answer
};
/// Preconditions: CheckPreference; the inputs that the objective requires, all of one float
/// type. With KTO each loss depends on all examples of the batch, through k.
PreferenceResults PreferenceLoss(const PreferenceInputs& inputs,
                                 const PreferenceRules& rules,
                                 SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_LOSSES_H_

#ifndef STOWAGE_NN_PREFERENCE_H_
#define STOWAGE_NN_PREFERENCE_H_

// Losses that a language model learns preferences by: which of two answers to a prompt is
// better, or whether an answer is good. Each is a function of the log-probabilities of
// whole answers, p of the model and q of a reference, which is the model before training.
// c is the chosen answer, r the rejected one.
//
//   DPO    softplus(-beta h), h = (p_c - q_c) - (p_r - q_r)    Rafailov et al. 2023
//   IPO    (h - 1 / (2 beta))^2                                Azar et al. 2024
//   ORPO   nll_c + beta softplus(odds_r - odds_c),
//          odds = p - log(1 - e^p), without a reference        Hong et al. 2024
//   SimPO  softplus(gamma - beta (p_c - p_r)), likewise        Meng et al. 2024
//   KTO    w sigmoid(-beta s (p - q - k)), s = 1 for good answers and -1 for bad ones,
//          k = max(0, mean of p' - q' over answers to other prompts),
//          which lets no gradient through                      Ethayarajh et al. 2024
//
// The log-probability of an answer is the sum over its tokens in DPO and KTO, and the mean
// in the others. Formulas and means are those of Hugging Face's TRL.
//
//   const PreferenceRules rules{.objective = PreferenceObjective::kDpo};
//   const PreferenceResults results =
//       PreferenceLoss({.log_probs = p, .reference = q}, rules);
//   g.Output("loss", ReduceMean(results.losses));

#include <optional>
#include <string_view>

#include "base/result.h"
#include "ir/builder.h"

namespace stowage {

enum class PreferenceObjective { kDpo, kIpo, kOrpo, kSimpo, kKto };

/// "dpo", "ipo", "orpo", "simpo" or "kto"; nothing for another name.
std::optional<PreferenceObjective> FindPreferenceObjective(
    std::string_view name);
std::string_view PreferenceObjectiveName(PreferenceObjective objective);

struct PreferenceRules {
  PreferenceObjective objective = PreferenceObjective::kDpo;
  /// How far the model may go from the reference; of ORPO, the weight of the odds.
  double beta = 0.1;
  /// Only for SimPO: by how much the chosen answer is to be better.
  double gamma = 0.5;
};

/// The beta that TRL takes where none is given: 2 for SimPO, 0.1 for the others.
double UsualBeta(PreferenceObjective objective);

/// Whether the loss compares with a reference.
bool HasReference(PreferenceObjective objective);
/// Whether the log-probability of an answer is the mean over its tokens, not the sum.
bool IsMeanOverTokens(PreferenceObjective objective);
/// Whether an example is two answers to one prompt; else it is one answer, and the pair's
/// second is the answer to another prompt.
bool IsPaired(PreferenceObjective objective);

/// Error kInvalidArgument unless beta is finite and above 0 and gamma finite and at least 0.
Status CheckPreference(const PreferenceRules& rules);

struct PreferenceInputs {
  Value log_probs;       // (B, 2): of the chosen and the rejected answer
  Value reference = {};  // (B, 2), where HasReference
  Value nll = {};        // (B), of ORPO
  /// (B), of KTO: above 0 for good answers, below for bad ones.
  Value sides = {};
};

struct PreferenceResults {
  Value losses;   // (B)
  Value margins;  // (B), above 0 where the model prefers as the example does
};
/// Precondition: CheckPreference, and the inputs that the objective has, all of one float
/// type. KTO's k makes each loss depend on all examples of the batch.
PreferenceResults PreferenceLoss(const PreferenceInputs& inputs,
                                 const PreferenceRules& rules,
                                 SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_PREFERENCE_H_

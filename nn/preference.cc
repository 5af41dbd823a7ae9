#include "nn/preference.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/strings.h"
#include "ir/ops.h"

namespace stowage {

namespace {

constexpr std::array<std::string_view, 5> kObjectives = {"dpo", "ipo", "orpo",
                                                         "simpo", "kto"};

// Column i of (B, 2), as (B).
Value Column(Value pairs, int64_t i, SourceLoc loc) {
  if (!pairs.ok()) return pairs;
  return Reshape(Slice(pairs, 1, i, i + 1, 1, loc), {pairs.dim(0)}, loc);
}

// What the chosen answer of each pair has more than the rejected one.
Value Difference(Value pairs, SourceLoc loc) {
  return Sub(Column(pairs, 0, loc), Column(pairs, 1, loc), loc);
}

// log(p / (1 - p)) of a log-probability. One that rounds to 0 counts as a little below.
Value LogOdds(Value log_prob, SourceLoc loc) {
  constexpr double kMin = 1e-7;
  const Value rest = AddScalar(Neg(Exp(log_prob, loc), loc), 1, loc);
  return Sub(log_prob, Log(Clamp(rest, kMin, 1, loc), loc), loc);
}

PreferenceResults Kto(const PreferenceInputs& inputs, double beta,
                      SourceLoc loc) {
  const Value above = Sub(inputs.log_probs, inputs.reference, loc);
  const Value mean = ReduceMean(Column(above, 1, loc), {}, false, loc);
  const Value k = StopGradient(Relu(mean, loc), loc);
  const Value margins =
      Mul(MulScalar(Sub(Column(above, 0, loc), k, loc), beta, loc),
          Sign(inputs.sides, loc), loc);
  return {.losses =
              Mul(Sigmoid(Neg(margins, loc), loc), Abs(inputs.sides, loc), loc),
          .margins = margins};
}

}  // namespace

std::optional<PreferenceObjective> FindPreferenceObjective(
    std::string_view name) {
  for (size_t i = 0; i < kObjectives.size(); ++i) {
    if (kObjectives[i] == name) return static_cast<PreferenceObjective>(i);
  }
  return std::nullopt;
}

std::string_view PreferenceObjectiveName(PreferenceObjective objective) {
  return kObjectives[static_cast<size_t>(objective)];
}

double UsualBeta(PreferenceObjective objective) {
  return objective == PreferenceObjective::kSimpo ? 2 : 0.1;
}

bool HasReference(PreferenceObjective objective) {
  return objective != PreferenceObjective::kOrpo &&
         objective != PreferenceObjective::kSimpo;
}

bool IsMeanOverTokens(PreferenceObjective objective) {
  return objective != PreferenceObjective::kDpo &&
         objective != PreferenceObjective::kKto;
}

bool IsPaired(PreferenceObjective objective) {
  return objective != PreferenceObjective::kKto;
}

Status CheckPreference(const PreferenceRules& rules) {
  const auto refuse = [&](std::string_view name, double value,
                          std::string_view expected) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[preference] ", name, " of ",
                        PreferenceObjectiveName(rules.objective), " is ", value,
                        "; expected a finite number ", expected)};
  };
  // In f32, as it is multiplied by.
  const auto beta = static_cast<float>(rules.beta);
  if (!std::isfinite(beta) || beta <= 0) {
    return refuse("beta", rules.beta, "above 0");
  }
  // IPO compares with its inverse, squared.
  if (rules.objective == PreferenceObjective::kIpo &&
      !std::isfinite(1 / (2 * beta) * (1 / (2 * beta)))) {
    return refuse("beta", rules.beta, "whose inverse has a square in f32");
  }
  const auto gamma = static_cast<float>(rules.gamma);
  if (!std::isfinite(gamma) || gamma < 0) {
    return refuse("gamma", rules.gamma, "of at least 0");
  }
  return {};
}

PreferenceResults PreferenceLoss(const PreferenceInputs& inputs,
                                 const PreferenceRules& rules, SourceLoc loc) {
  const double beta = rules.beta;
  if (rules.objective == PreferenceObjective::kKto) {
    return Kto(inputs, beta, loc);
  }
  const Value above = HasReference(rules.objective)
                          ? Sub(inputs.log_probs, inputs.reference, loc)
                          : inputs.log_probs;
  const Value margins = MulScalar(Difference(above, loc), beta, loc);
  switch (rules.objective) {
    case PreferenceObjective::kIpo: {
      const Value off = AddScalar(Difference(above, loc), -1 / (2 * beta), loc);
      return {.losses = Mul(off, off, loc), .margins = margins};
    }
    case PreferenceObjective::kOrpo: {
      const Value odds = Difference(LogOdds(inputs.log_probs, loc), loc);
      const Value of_odds = MulScalar(Softplus(Neg(odds, loc), loc), beta, loc);
      return {.losses = Add(inputs.nll, of_odds, loc), .margins = margins};
    }
    case PreferenceObjective::kSimpo:
      return {.losses =
                  Softplus(AddScalar(Neg(margins, loc), rules.gamma, loc), loc),
              .margins = margins};
    case PreferenceObjective::kDpo:
    case PreferenceObjective::kKto:  // above
      break;
  }
  return {.losses = Softplus(Neg(margins, loc), loc), .margins = margins};
}

}  // namespace stowage

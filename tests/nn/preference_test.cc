#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "nn/losses.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

using Objective = PreferenceObjective;
using Numbers = std::vector<double>;

// Of three pairs: the first prefers as it should, the second is even, the third does not.
const Numbers kLogProbs = {-1, -3, -2, -2, -5, -0.5};
const Numbers kReference = {-1.5, -2.5, -1, -1, -4, -2};
const Numbers kNll = {0.25, 0.5, 4};

struct Judged {
  Numbers losses, margins;
};

Judged Judge(const PreferenceRules& rules, const Numbers& log_probs,
             const Numbers& sides = {}) {
  const auto count = static_cast<int64_t>(log_probs.size()) / 2;
  GraphBuilder g("preference");
  PreferenceInputs inputs{.log_probs = g.Input("p", DType::kF64, {count, 2})};
  Tensors leaves = {{"p", log_probs}};
  if (HasReference(rules.objective)) {
    inputs.reference = g.Input("q", DType::kF64, {count, 2});
    leaves["q"] = kReference;
  }
  if (rules.objective == Objective::kOrpo) {
    inputs.nll = g.Input("nll", DType::kF64, {count});
    leaves["nll"] = kNll;
  }
  if (!IsPaired(rules.objective)) {
    inputs.sides = g.Input("sides", DType::kF64, {count});
    leaves["sides"] = sides;
  }
  const PreferenceResults results = PreferenceLoss(inputs, rules);
  g.Output("losses", results.losses);
  g.Output("margins", results.margins);
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  Tensors values = Interpret(*graph, leaves);
  return {values["losses"], values["margins"]};
}

double LogSigmoid(double x) { return -std::log1p(std::exp(-x)); }

void CheckNear(const Numbers& found, const Numbers& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

TEST_CASE("losses of pairs are those of their papers") {
  // p and q of the chosen answers less those of the rejected ones.
  const Numbers p = {2, 0, -4.5}, h = {1, 0, -2.5};
  const Judged dpo =
      Judge({.objective = Objective::kDpo, .beta = 0.5}, kLogProbs);
  CheckNear(dpo.losses, {-LogSigmoid(0.5), std::log(2.0), -LogSigmoid(-1.25)});
  CheckNear(dpo.margins, {0.5, 0, -1.25});
  const Judged ipo =
      Judge({.objective = Objective::kIpo, .beta = 0.5}, kLogProbs);
  CheckNear(ipo.losses, {0, 1, 3.5 * 3.5});
  CheckNear(ipo.margins, {0.5 * h[0], 0, 0.5 * h[2]});
  const Judged simpo = Judge(
      {.objective = Objective::kSimpo, .beta = 2, .gamma = 0.75}, kLogProbs);
  CheckNear(simpo.losses, {-LogSigmoid(4 - 0.75), -LogSigmoid(-0.75),
                           -LogSigmoid(-9 - 0.75)});
  CheckNear(simpo.margins, {2 * p[0], 0, 2 * p[2]});
  const auto odds = [](double x) {
    return std::log(std::exp(x) / (1 - std::exp(x)));
  };
  const Judged orpo =
      Judge({.objective = Objective::kOrpo, .beta = 0.5}, kLogProbs);
  CheckNear(orpo.losses, {0.25 - 0.5 * LogSigmoid(odds(-1) - odds(-3)),
                          0.5 + 0.5 * std::log(2.0),
                          4 - 0.5 * LogSigmoid(odds(-5) - odds(-0.5))});
  CheckNear(orpo.margins, {0.5 * p[0], 0, 0.5 * p[2]});
}

TEST_CASE("KTO judges answers by how far those to other prompts have moved") {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const PreferenceRules rules{.objective = Objective::kKto, .beta = 0.5};
  // p - q is 0.5, -1 and -1; of other answers -0.5, -1 and 1.5: on average 0.
  const Judged even = Judge(rules, kLogProbs, {1, -1, 1});
  CheckNear(even.losses, {sigmoid(-0.25), sigmoid(-0.5), sigmoid(0.5)});
  CheckNear(even.margins, {0.25, 0.5, -0.5});
  // On average 1, and -1, which counts as 0.
  const Judged above = Judge(rules, {-1, -2.5, -2, -1, -5, 1}, {1, -1, 1});
  CheckNear(above.losses, {sigmoid(0.25), sigmoid(-1), sigmoid(1)});
  CheckNear(above.margins, {-0.25, 1, -1});
  const Judged below = Judge(rules, {-1, -4, -2, -2, -5, -2.5}, {1, -1, 1});
  CheckNear(below.losses, even.losses);
  // A side counts as often as it says.
  const Judged weighted = Judge(rules, kLogProbs, {2, -0.5, 1});
  CheckNear(weighted.losses,
            {2 * sigmoid(-0.25), 0.5 * sigmoid(-0.5), sigmoid(0.5)});
}

TEST_CASE("losses stay finite where answers are certain or far apart") {
  for (const Objective objective : {Objective::kDpo, Objective::kIpo,
                                    Objective::kOrpo, Objective::kSimpo}) {
    CAPTURE(PreferenceObjectiveName(objective));
    const Judged judged =
        Judge({.objective = objective}, {0, -200, -200, 0, 0, 0});
    for (const double loss : judged.losses) CHECK(std::isfinite(loss));
    CHECK(judged.losses[0] < judged.losses[1]);
  }
}

TEST_CASE("objectives have names, and rules that are no numbers are refused") {
  for (const Objective objective :
       {Objective::kDpo, Objective::kIpo, Objective::kOrpo, Objective::kSimpo,
        Objective::kKto}) {
    CHECK(FindPreferenceObjective(PreferenceObjectiveName(objective)) ==
          objective);
    CHECK(CheckPreference({.objective = objective}).ok());
  }
  CHECK_FALSE(FindPreferenceObjective("sft"));
  CHECK_FALSE(FindPreferenceObjective("DPO"));
  for (const double beta :
       {0.0, -1.0, 1e-60, 1e60, std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(beta);
    const Status status = CheckPreference({.beta = beta});
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kInvalidArgument);
    CHECK(status.error().message.starts_with("[preference] beta of dpo is "));
  }
  CHECK_FALSE(
      CheckPreference({.objective = Objective::kIpo, .beta = 1e-30}).ok());
  CHECK(CheckPreference({.objective = Objective::kDpo, .beta = 1e-30}).ok());
  CHECK(CheckPreference({.objective = Objective::kSimpo, .gamma = -1})
            .error()
            .message ==
        "[preference] gamma of simpo is -1; expected a finite number of at "
        "least 0");
}

}  // namespace
}  // namespace stowage

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <variant>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "train/optimizer_choice.h"

namespace stowage {
namespace {

TEST_CASE("a momentum takes the place of the optimizer's own") {
  const Result<Optimizer> momentum =
      WithMomentum(Momentum{.decay = 0.125, .bf16_velocity = true}, 0.75);
  REQUIRE(momentum.ok());
  CHECK(std::get<Momentum>(*momentum).momentum == 0.75);
  CHECK(std::get<Momentum>(*momentum).decay == 0.125);
  CHECK(std::get<Momentum>(*momentum).bf16_velocity);
  CHECK(MomentumOf(*momentum) == 0.75);
  const Result<Optimizer> nesterov = WithMomentum(Nesterov{}, 0);
  REQUIRE(nesterov.ok());
  CHECK(std::get<Nesterov>(*nesterov).momentum == 0);
  const Result<Optimizer> muon = WithMomentum(Muon{}, 0.5);
  REQUIRE(muon.ok());
  CHECK(std::get<Muon>(*muon).momentum == 0.5);
}

TEST_CASE("SGD with a momentum is Momentum, as in PyTorch") {
  const Result<Optimizer> with = WithMomentum(Sgd{.decay = 0.25}, 0.5);
  REQUIRE(with.ok());
  REQUIRE(std::holds_alternative<Momentum>(*with));
  CHECK(MomentumOf(*with) == 0.5);
  CHECK(DecayOf(*with) == 0.25);
  const Result<Optimizer> without = WithMomentum(Sgd{.decay = 0.25}, 0);
  REQUIRE(without.ok());
  CHECK(std::holds_alternative<Sgd>(*without));
  CHECK(!MomentumOf(*without));
}

TEST_CASE("a momentum that an optimizer cannot take is refused") {
  const auto message = [](const Optimizer& optimizer, double momentum) {
    const Result<Optimizer> refused = WithMomentum(optimizer, momentum);
    return refused.ok() ? std::string() : refused.error().message;
  };
  CHECK(message(AdamW{}, 0.5) ==
        "[momentum] adamw has no momentum to set to 0.5; sgd, momentum, "
        "momentum-bf16, nesterov, rmsprop and muon have one");
  CHECK(message(Momentum{}, 1) ==
        "[momentum] 1 is out of range; expected at least 0 and below 1");
  CHECK(message(Momentum{}, -0.5).find("-0.5") != std::string::npos);
  CHECK(message(Momentum{}, std::numeric_limits<double>::quiet_NaN())
            .find("nan") != std::string::npos);
}

TEST_CASE("a decay takes the place of every optimizer's own") {
  for (const NamedOptimizer& named : NamedOptimizers()) {
    const Result<Optimizer> with = WithDecay(named.optimizer, 0.375);
    REQUIRE(with.ok());
    CHECK(DecayOf(*with) == 0.375);
    CHECK(OptimizerName(*with) == named.name);
  }
  for (const double bad : {-0.5, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    const Result<Optimizer> refused = WithDecay(AdamW{}, bad);
    REQUIRE(!refused.ok());
    CHECK(refused.error().message.find("[weight-decay] ") == 0);
  }
}

}  // namespace
}  // namespace stowage

// Loss scaling by the command: what trains in f16, what is told of it, and when it ends.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/json_lines.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/train_mlp.h"

namespace stowage::testing {
namespace {

constexpr size_t kSteps = 40;

std::vector<Json> Train(std::vector<std::string> more) {
  more.insert(more.end(), {"--steps", std::to_string(kSteps)});
  return TrainMlp(more);
}

TEST_CASE("f16 trains with a dynamic scale, and says when it moves") {
  bool any_skipped = false;
  for (const std::string optimizer : {"momentum", "adamw"}) {
    CAPTURE(optimizer);
    const auto f16 = Train({"--optimizer", optimizer, "--dtype", "f16"});
    double scale = 65536;
    for (size_t i = 0; i < kSteps; ++i) {
      if (f16[i].contains("skipped")) scale /= 2;
      CHECK(f16[i]["loss_scale"] == scale);
    }
    CHECK(scale >= 4096);
    any_skipped = any_skipped || scale < 65536;
    CHECK(f16[kSteps - 1]["loss"] < 0.7 * f16[0]["loss"].get<double>());
    CHECK(AllocatedNothing(f16.back()));
  }
  CHECK(any_skipped);
}

TEST_CASE("with a fixed scale, the losses of f16 are near those of f32") {
  for (const std::string optimizer : {"momentum", "adamw"}) {
    CAPTURE(optimizer);
    const auto f32 = Train({"--optimizer", optimizer});
    const auto f16 = Train(
        {"--optimizer", optimizer, "--dtype", "f16", "--loss-scale", "1024"});
    for (size_t i = 0; i < kSteps; ++i) {
      CAPTURE(i);
      CHECK(f16[i]["loss"].get<double>() ==
            doctest::Approx(f32[i]["loss"].get<double>()).epsilon(0.02));
      CHECK_FALSE(f16[i].contains("loss_scale"));
    }
  }
}

TEST_CASE("none is none, and a scale in f32 changes nothing") {
  const auto none = Train({"--dtype", "f16", "--loss-scale", "none"});
  CHECK_FALSE(none[0].contains("loss_scale"));
  const auto f32 = Train({});
  CHECK_FALSE(f32[0].contains("loss_scale"));
  const auto scaled = Train({"--loss-scale", "dynamic"});
  for (size_t i = 0; i < kSteps; ++i) {
    CHECK(scaled[i]["loss"] == f32[i]["loss"]);
    CHECK(scaled[i]["loss_scale"] == 65536);
  }
}

TEST_CASE(
    "steps whose gradients are not finite are skipped, but not for ever") {
  const Outcome outcome =
      RunStowage(Mlp({"--optimizer", "momentum", "--dtype", "f16",
                      "--loss-scale", "1e9", "--json", "--steps", "20"}));
  CHECK(outcome.exit_code == 1);
  const std::vector<Json> lines = JsonLines(outcome.out);
  REQUIRE(lines.size() == 9);
  for (const Json& line : lines) {
    CHECK(line["skipped"] == true);
  }
  CHECK(outcome.err.find("[train] gradients of step 9 are not finite; its "
                         "update was skipped\n") != std::string::npos);
  CHECK(outcome.err.find("[train] gradients of step 10 are not finite; 10 "
                         "steps one after the other were skipped") !=
        std::string::npos);
}

TEST_CASE("a resumed run goes on with the scale that it had") {
  const std::vector<std::string> run = {"--optimizer", "momentum", "--dtype",
                                        "f16",         "--steps",  "30"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = run;
    all.insert(all.end(), more.begin(), more.end());
    return TrainMlp(all);
  };
  const std::string path = TempPath("scaled.safetensors");
  const auto whole = with({});
  const auto first = with({"--stop-at", "15", "--save", path});
  const auto rest = with({"--resume", path});
  CHECK(first[14]["loss_scale"] < 65536);
  for (size_t i = 0; i < 15; ++i) {
    CHECK(whole[15 + i]["loss"] == rest[i]["loss"]);
    CHECK(whole[15 + i]["loss_scale"] == rest[i]["loss_scale"]);
  }
}

}  // namespace
}  // namespace stowage::testing

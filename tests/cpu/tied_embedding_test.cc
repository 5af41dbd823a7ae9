// The gradient of a table that is looked up and gives the logits, too, in bf16: no farther
// from what it is in f64 than PyTorch's on the same data
// (tests/goldens/make_tied_embedding_goldens.py), where logits exist at once. In chunks it
// is rounded once a chunk, and may be a twentieth farther.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "math/small_floats.h"
#include "runtime/kernel.h"
#include "tests/cpu/op_goldens.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr int64_t kRows = 64, kWidth = 48, kTokens = 256;

Graph Step(DType dtype, bool chunked) {
  GraphBuilder g("tied");
  const Value tokens = g.Input("tokens", DType::kI32, {kTokens});
  const Value targets = g.Input("targets", DType::kI32, {kTokens});
  const Value table = g.Param("table", dtype, {kRows, kWidth});
  const Value matrix = g.Param("matrix", dtype, {kWidth, kWidth});
  const Value h = Tanh(MatMul(Gather(table, tokens), matrix));
  const Value loss = chunked
                         ? LinearCrossEntropy(h, table, targets, 64)
                         : CrossEntropy(MatMul(h, table, false, true), targets);
  g.Output("loss", g.Name("loss", loss));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Result<Graph> step = BuildTrainStep(
      *forward, "loss", {.optimizer = Sgd{}, .gradients = {"table"}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

double Bf16Of(double x) {
  return math::BFloat16ToFloat(math::FloatToBFloat16(static_cast<float>(x)));
}

Tensors Leaves(int which) {
  const double shift = which;
  Tensors leaves = {{"lr", {0}}, {"step", {1}}};
  for (int64_t k = 0; k < kRows * kWidth; ++k) {
    leaves["table"].push_back(
        Bf16Of(std::sin(0.7 * static_cast<double>(k) + shift)));
  }
  for (int64_t k = 0; k < kWidth * kWidth; ++k) {
    leaves["matrix"].push_back(
        Bf16Of(0.2 * std::cos(1.3 * static_cast<double>(k) + shift)));
  }
  for (int64_t i = 0; i < kTokens; ++i) {
    leaves["tokens"].push_back(static_cast<double>((i * i + which) % kRows));
    leaves["targets"].push_back(
        static_cast<double>((i * i * i + 5 * i + which) % kRows));
  }
  return leaves;
}

double Norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double each : x) sum += each * each;
  return std::sqrt(sum);
}

TEST_CASE("the gradient of a tied embedding is as near as PyTorch's in bf16") {
  const std::vector<OpGolden> goldens =
      ReadOpGoldens("tests/goldens/tied_embedding.csv");
  REQUIRE(goldens.size() == 8);
  for (int which = 0; which < 4; ++which) {
    const auto golden = [&](const std::string& what) {
      for (const OpGolden& each : goldens) {
        if (each.what == StrCat(what, "@", which)) return each.value;
      }
      return std::nan("");
    };
    const Tensors leaves = Leaves(which);
    const std::vector<double> exact =
        Interpret(Step(DType::kF64, false), leaves).at("grad:table");
    CHECK(Norm(exact) == doctest::Approx(golden("gradient")).epsilon(1e-9));
    for (const bool chunked : {false, true}) {
      CAPTURE(which);
      CAPTURE(chunked);
      const CpuRun run = RunOnCpu(Step(DType::kBF16, chunked), leaves);
      REQUIRE(run.code == StepCode::kOk);
      std::vector<double> off = run.values.at("grad:table");
      for (size_t i = 0; i < off.size(); ++i) off[i] -= exact[i];
      const double part = Norm(off) / Norm(exact);
      MESSAGE("error ", part, ", PyTorch's ", golden("error"));
      CHECK(part <= (chunked ? 1.05 : 1.0) * golden("error"));
    }
  }
}

}  // namespace
}  // namespace stowage

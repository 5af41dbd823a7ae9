#include "tests/support/tied_embedding.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "math/small_floats.h"
#include "tests/support/golden_rows.h"

namespace stowage {
namespace {

constexpr int64_t kRows = 64, kWidth = 48, kTokens = 256;
constexpr int kDraws = 16;

Graph Step(DType dtype, int64_t chunk) {
  GraphBuilder g("tied");
  const Value tokens = g.Input("tokens", DType::kI32, {kTokens});
  const Value targets = g.Input("targets", DType::kI32, {kTokens});
  const Value table = g.Param("table", dtype, {kRows, kWidth});
  const Value matrix = g.Param("matrix", dtype, {kWidth, kWidth});
  const Value h = Tanh(MatMul(Gather(table, tokens), matrix));
  const Value loss = chunk == 0
                         ? CrossEntropy(MatMul(h, table, false, true), targets)
                         : LinearCrossEntropy(h, table, targets, chunk);
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

Tensors Leaves(int draw) {
  const double shift = draw;
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
    leaves["tokens"].push_back(static_cast<double>((i * i + draw) % kRows));
    leaves["targets"].push_back(
        static_cast<double>((i * i * i + 5 * i + draw) % kRows));
  }
  return leaves;
}

double Norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double each : x) sum += each * each;
  return std::sqrt(sum);
}

}  // namespace

TiedErrors ErrorsOfTiedEmbedding(
    int64_t chunk,
    const std::function<Tensors(const Graph& step, const Tensors& leaves)>&
        run) {
  std::map<std::string, double> goldens;
  for (const OpGolden& each :
       ReadOpGoldens("tests/goldens/tied_embedding.csv")) {
    goldens[each.what] = each.value;
  }
  REQUIRE(goldens.size() == 2 * kDraws);
  TiedErrors squares;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Tensors leaves = Leaves(draw);
    const std::vector<double> exact =
        Interpret(Step(DType::kF64, 0), leaves).at("grad:table");
    CHECK(Norm(exact) ==
          doctest::Approx(goldens.at(StrCat("gradient@", draw))).epsilon(1e-9));
    std::vector<double> off =
        run(Step(DType::kBF16, chunk), leaves).at("grad:table");
    for (size_t i = 0; i < off.size(); ++i) off[i] -= exact[i];
    const double ours = Norm(off) / Norm(exact);
    const double pytorch = goldens.at(StrCat("error@", draw));
    squares.ours += ours * ours / kDraws;
    squares.pytorch += pytorch * pytorch / kDraws;
  }
  return {std::sqrt(squares.ours), std::sqrt(squares.pytorch)};
}

}  // namespace stowage

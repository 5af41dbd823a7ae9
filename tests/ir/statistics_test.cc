#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/composites.h"
#include "ir/ops.h"
#include "tests/support/interpret.h"
#include "train/gradient_check.h"

namespace stowage {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Statistic = std::function<Value(Value x)>;

Result<Graph> GraphOf(const Shape& shape, const Statistic& statistic) {
  GraphBuilder g("statistic");
  g.Output("y", statistic(g.Input("x", DType::kF64, shape)));
  return g.Finish();
}

std::vector<double> Of(const Shape& shape, const std::vector<double>& x,
                       const Statistic& statistic) {
  const Result<Graph> graph = GraphOf(shape, statistic);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return Interpret(*graph, {{"x", x}}).at("y");
}

std::string ErrorOf(const Statistic& statistic) {
  const Result<Graph> graph = GraphOf({2, 3}, statistic);
  REQUIRE(!graph.ok());
  return graph.error().message;
}

bool Says(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

void CheckNear(const std::vector<double>& got,
               const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

// The derivative, along a random direction, of a weighted sum of the results.
void CheckGradient(const Statistic& statistic) {
  const auto cpu = MakeCpuBackend({.threads = 1});
  GraphBuilder g("statistic");
  const Value y = statistic(g.Input("x", DType::kF64, {3, 4}));
  g.Output("loss",
           ReduceSum(Mul(y, g.Input("weights", DType::kF64, y.shape()))));
  const auto checked = CheckGradients(*g.Finish(), "loss", *cpu);
  CHECK_MESSAGE(checked.ok(), checked.error().message);
}

TEST_CASE("a variance is about the mean, however large that is") {
  const std::vector<double> x = {1, 2, 6, 1e9 + 1, 1e9 + 2, 1e9 + 6};
  CheckNear(Of({2, 3}, x, [](Value v) { return Variance(v, {1}); }), {7, 7});
  CheckNear(Of({2, 3}, x, [](Value v) { return Variance(v, {-1}, 0); }),
            {14.0 / 3, 14.0 / 3});
  CheckNear(Of({3}, {1, 2, 6}, [](Value v) { return Variance(v); }), {7});
  CheckGradient([](Value v) { return Variance(v, {0}, 1, true); });
  CHECK(Says(ErrorOf([](Value v) { return Variance(v, {0}, 2); }),
             "[variance] correction 2 for 2 numbers; expected at least 0 and "
             "fewer than they are"));
  CHECK(Says(ErrorOf([](Value v) { return Variance(v, {}, -1); }),
             "[variance] correction -1 for 6 numbers"));
}

TEST_CASE("log-sum-exp overflows nowhere and knows infinities") {
  const std::vector<double> x = {1000,       1000, -kInfinity, -kInfinity,
                                 -kInfinity, 3,    kInfinity,  0};
  const auto by_rows = [](Value v) { return LogSumExp(v, {1}); };
  CHECK(Of({4, 2}, x, by_rows) ==
        std::vector<double>{1000 + std::log(2.0), -kInfinity, 3, kInfinity});
  CHECK(std::isnan(Of({1, 2}, {std::nan(""), 0}, by_rows)[0]));
  CheckNear(Of({3}, {0, 0, 0}, [](Value v) { return LogSumExp(v); }),
            {std::log(3.0)});
  const Result<Graph> kept =
      GraphOf({2, 3}, [](Value v) { return LogSumExp(v, {0}, /*keep=*/true); });
  CHECK(kept->value(kept->outputs()[0].value).type.shape == Shape{1, 3});
  CheckGradient(by_rows);
}

TEST_CASE("norms") {
  const std::vector<double> x = {3, -4, 0, 1, -2, 2};
  const auto norm = [](double p) {
    return [p](Value v) { return Norm(v, p, {1}); };
  };
  CheckNear(Of({2, 3}, x, norm(2)), {5, 3});
  CheckNear(Of({2, 3}, x, norm(1)), {7, 5});
  CheckNear(Of({2, 3}, x, norm(kInfinity)), {4, 2});
  CheckNear(Of({2, 3}, x, norm(3)), {std::cbrt(91.0), std::cbrt(17.0)});
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) CheckGradient(norm(p));
  // Of nothing the length has no slope; the other row's is x / |x|.
  for (const double p : {2.0, 3.0}) {
    GraphBuilder g("lengths");
    const Value w = g.Param("w", DType::kF64, {2, 2});
    g.Output("loss", g.Name("loss", ReduceSum(Norm(w, p, {1}))));
    const Result<Graph> step =
        BuildTrainStep(*g.Finish(), "loss", {.optimizer = Sgd{}});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    const std::vector<double> moved =
        Interpret(*step, {{"w", {0, 0, 0, -4}}, {"lr", {1}}, {"step", {1}}})
            .at("new:w");
    CheckNear(moved, {0, 0, 0, -3});
  }
  CHECK(Says(ErrorOf(norm(0.5)),
             "[norm] p is 0.5; expected a number of at least 1"));
}

}  // namespace
}  // namespace stowage

#include <doctest/doctest.h>

#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "train/device.h"
#include "train/step_planner.h"

namespace stowage {
namespace {

TEST_CASE(
    "a node takes as long as its operations or its bytes, views nothing") {
  GraphBuilder g("step");
  const Value x = g.Input("x", DType::kF32, {64, 32});
  const Value w = g.Input("w", DType::kF32, {32, 16});
  // 2 * 64 * 32 * 16 operations; (2048 + 512 + 1024) * 4 bytes.
  const Value y = MatMul(x, w);
  // 3 * 1024 * 4 bytes, 1024 operations.
  g.Output("y", Add(Reshape(y, {1024}), g.Input("b", DType::kF32, {1024})));
  const Graph graph = *g.Finish();
  constexpr double kProduct = 65'536, kProductBytes = 14'336,
                   kSumBytes = 12'288;
  CHECK(
      StepSeconds(graph, {.flops_per_second = 100, .bytes_per_second = 1e9}) ==
      doctest::Approx((kProduct + 1024) / 100));
  CHECK(StepSeconds(graph, {.flops_per_second = 1e9, .bytes_per_second = 10}) ==
        doctest::Approx((kProductBytes + kSumBytes) / 10));
  // The product waits for its operations, the sum for its bytes.
  CHECK(StepSeconds(graph,
                    {.flops_per_second = 1000, .bytes_per_second = 1000}) ==
        doctest::Approx((kProduct + kSumBytes) / 1000));
}

TEST_CASE("a device says what it does in a second") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const auto rates = MeasureRates(*cpu, DType::kF32);
  REQUIRE_MESSAGE(rates.ok(), rates.error().message);
  // Whatever machine this is.
  CHECK(rates->flops_per_second > 1e6);
  CHECK(rates->bytes_per_second > 1e6);
  CHECK(MeasureRates(*cpu, DType::kBF16).ok());
}

}  // namespace
}  // namespace stowage

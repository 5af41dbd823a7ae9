// Which kernels compute attention where one way was asked for: by products of warpgroups
// where the device has them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gpu/queue.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/gpu/fake_device.h"
#include "tests/gpu/op_check.h"
#include "tests/support/interpret.h"

namespace stowage::testing {
namespace {

// The name of the kernel that computed attention.
std::string KernelOf(const FakeOptions& options, DType dtype, int64_t depth) {
  GraphBuilder g("attention");
  const Shape shape{1, 2, 1, depth};
  const Value q = g.Input("q", dtype, shape);
  g.Output("o", Attention(q, q, q, {.causal = true}));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  FakeDevice* device = nullptr;
  const auto backend = MakeFakeBackend(options, &device);
  const Tensors leaves = {
      {"q", std::vector<double>(static_cast<size_t>(2 * depth), 0.5)}};
  const auto run = RunOnce(*graph, leaves, *backend);
  REQUIRE_MESSAGE(run.ok(), run.error().message);
  const auto found = std::ranges::find_if(
      device->executed(),
      [](const std::string& name) { return name.starts_with("attention"); });
  REQUIRE(found != device->executed().end());
  return *found;
}

TEST_CASE("products of warpgroups are used if asked for, on 9.0 alone") {
  const FakeOptions asked{
      .backend = {.attention = {gpu::AttentionAlgorithm::kWarpgroups}}};
  CHECK(KernelOf(asked, DType::kBF16, 16) == "attention, warpgroups");
  CHECK(KernelOf(asked, DType::kF16, 128) == "attention, warpgroups");
  CHECK(KernelOf({}, DType::kBF16, 16) == "attention");
  for (const auto& [major, minor] :
       {std::pair(8, 0), std::pair(8, 9), std::pair(10, 0)}) {
    CHECK(
        KernelOf(
            {.major = major,
             .minor = minor,
             .backend = {.attention = {gpu::AttentionAlgorithm::kWarpgroups}}},
            DType::kBF16, 16) == "attention");
  }
}

TEST_CASE("a driver without tensor maps has no products of warpgroups") {
  CHECK(KernelOf(
            {.tensor_maps = false,
             .backend = {.attention = {gpu::AttentionAlgorithm::kWarpgroups}}},
            DType::kBF16, 16) == "attention");
}

TEST_CASE("what products of warpgroups do not take goes on as without") {
  const FakeOptions asked{
      .backend = {.attention = {gpu::AttentionAlgorithm::kWarpgroups}}};
  // Rows of 24 bytes start anywhere.
  for (const auto& [dtype, depth] :
       {std::pair(DType::kF32, 16), std::pair(DType::kBF16, 160),
        std::pair(DType::kBF16, 12)}) {
    const std::string kernel = KernelOf(asked, dtype, depth);
    CHECK(kernel == KernelOf({}, dtype, depth));
    CHECK(kernel != "attention, warpgroups");
  }
}

TEST_CASE("an array that the device refuses is an error of the program") {
  GraphBuilder g("attention");
  const Value q = g.Input("q", DType::kBF16, {1, 2, 1, 16});
  g.Output("o", Attention(q, q, q, {.causal = true}));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  FakeDevice* device = nullptr;
  const auto backend = MakeFakeBackend(
      {.backend = {.attention = {gpu::AttentionAlgorithm::kWarpgroups}}},
      &device);
  device->Fail("Encode", 2);
  const auto run =
      RunOnce(*graph, {{"q", std::vector<double>(32, 0.5)}}, *backend);
  REQUIRE(!run.ok());
  CHECK(run.error().message.find("[gpu] Encode was told to fail (at ") == 0);
}

}  // namespace
}  // namespace stowage::testing

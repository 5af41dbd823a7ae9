// What a convolution gathers its operands into: planned scratch, which an image's
// size, channels and the kernel's elements decide, and not how far these lie apart. A
// kernel of one element needs none for its operands.

#include <doctest/doctest.h>

#include <vector>

#include "base/bytes.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"

namespace stowage {
namespace {

Bytes ScratchOf(int64_t size, int64_t dilation) {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {1, 64, size, size});
  const Value w = g.Param("w", DType::kF32, {8, 64, 3, 3});
  g.Output("y", Conv(x, w, {.padding = dilation, .dilation = dilation}));
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto cpu = MakeCpuBackend({.threads = 1});
  const auto plan = PlanMemory(*graph, {.device = cpu->Needs()});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  return plan->regions.workspace;
}

// Of a convolution by one element and of the gradient of its image.
std::vector<Bytes> ScratchByOneElement(int64_t channels) {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {2, channels, 24, 24});
  const Value dy = g.Input("dy", DType::kF32, {2, channels, 24, 24});
  const Value w = g.Param("w", DType::kF32, {channels, channels, 1, 1});
  g.Output("y", Conv(x, w, {}));
  g.Output("dx", ConvTranspose(dy, w, {.size = {24, 24}}));
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto cpu = MakeCpuBackend({.threads = 1});
  const WorkspaceFn workspace = NodeWorkspace({.device = cpu->Needs()});
  std::vector<Bytes> bytes;
  for (NodeId id = 0; id < graph->num_nodes(); ++id) {
    bytes.push_back(workspace(*graph, graph->node(id)));
  }
  return bytes;
}

TEST_CASE(
    "a convolution by one element copies neither its source nor its filters") {
  const std::vector<Bytes> few = ScratchByOneElement(32);
  REQUIRE(few.size() == 2);
  CHECK(few[0] > 0);
  CHECK(few[1] > 0);
  CHECK(ScratchByOneElement(256) == few);
}

TEST_CASE("scratch does not grow with what lies between a kernel's elements") {
  const Bytes near = ScratchOf(4, 4);
  CHECK(near > 0);
  CHECK(ScratchOf(4, 36) == near);
  CHECK(ScratchOf(4, 1000) == near);
  // Nine times the image is all that nine elements can meet.
  CHECK(ScratchOf(4, 36) <= ScratchOf(4, 1) + 9 * 64 * 4 * 4 * 4);
  CHECK(ScratchOf(65, 200) <= 2 * ScratchOf(65, 36));
}

}  // namespace
}  // namespace stowage

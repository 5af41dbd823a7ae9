// Algorithms of convolutions. Kernels that hold the images of a batch in registers
// (convolutions of small maps, and batch_norm where a channel has few elements): batches are
// wider than the widest registers and no multiple of them; maps, channels and filters have
// ragged ends of every kind. Convolutions whose maps are read as one line. Planned workspace.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "planner/plan_memory.h"
#include "tests/cpu/run_graph.h"

namespace stowage {
namespace {

struct Case {
  const char* name;
  Shape x, w;
  ConvOptions options;
};

// The convolution and both of its gradients, in f32 and f64.
void CheckConvolution(const Case& c) {
  CAPTURE(c.name);
  for (const Precision p : {kF32, kF64}) {
    CheckGraph(c.name, p.tolerance, [&](GraphBuilder& g) {
      const Value x = g.Input("x", p.dtype, c.x);
      const Value w = g.Input("w", p.dtype, c.w);
      const Value y = Conv(x, w, c.options);
      g.Output("y", y);
      const Value dy = g.Input("dy", p.dtype, y.shape());
      g.Output("dx", ConvTranspose(dy, w,
                                   {.stride = c.options.stride,
                                    .padding = c.options.padding,
                                    .dilation = c.options.dilation,
                                    .groups = c.options.groups,
                                    .size = Axes(c.x.begin() + 2, c.x.end())}));
      g.Output("dw", ConvWeightGrad(x, dy, Axes(c.w.begin() + 2, c.w.end()),
                                    c.options));
    });
  }
}

TEST_CASE("convolutions whose dimensions are joined to one line") {
  const std::vector<Case> cases = {
      // So many channels that a task of the filters' gradient takes several images.
      {"of small maps", {7, 600, 3, 3}, {140, 600, 1, 1}, {}},
      {"of maps that a band holds part of",
       {2, 19, 23, 29},
       {21, 19, 1, 1},
       {}},
      {"in groups", {3, 12, 6, 7}, {18, 4, 1, 1}, {.groups = 3}},
      {"of inner dimensions alone",
       {2, 5, 4, 6, 7},
       {6, 5, 3, 1, 1},
       {.padding = {1, 0, 0}}},
      {"of outer dimensions alone",
       {2, 5, 4, 6, 7},
       {6, 5, 1, 1, 3},
       {.padding = {0, 0, 1}}},
      {"not with a stride", {3, 9, 7, 8}, {11, 9, 1, 1}, {.stride = 2}},
      {"not with padding", {3, 9, 7, 8}, {11, 9, 1, 1}, {.padding = 1}}};
  for (const Case& c : cases) CheckConvolution(c);
}

TEST_CASE("convolutions of small maps, by the images of a batch") {
  const std::vector<Case> cases = {
      {"with padding", {17, 9, 4, 4}, {10, 9, 3, 3}, {.padding = 1}},
      {"of one element, which eight taps of nine miss",
       {33, 16, 1, 1},
       {20, 16, 3, 3},
       {.padding = 1}},
      {"with strides",
       {20, 8, 7, 8},
       {12, 8, 3, 3},
       {.stride = 2, .padding = 1}},
      {"with strides that leave elements out",
       {16, 8, 8, 7},
       {8, 8, 2, 2},
       {.stride = 3}},
      {"in groups, with dilation and uneven padding",
       {34, 18, 3, 5},
       {22, 9, 2, 3},
       {.padding = {0, 2, 1, 2}, .dilation = {2, 1}, .groups = 2}},
      {"in one dimension", {18, 8, 13}, {8, 8, 3}, {.stride = 2}},
      {"in three dimensions",
       {16, 8, 2, 2, 3},
       {8, 8, 2, 1, 2},
       {.padding = {1, 0, 0, 0, 0, 1}}},
      {"by one element, of more images than a strip has",
       {115, 50, 2, 1},
       {35, 50, 1, 1},
       {}},
      {"of more channels than a strip has",
       {19, 101, 2, 2},
       {18, 101, 2, 2},
       {.padding = {1, 0, 0, 1}}},
      {"of whole registers", {32, 16, 4, 4}, {16, 16, 3, 3}, {.padding = 1}},
      {"with padding alone in some windows",
       {16, 8, 2, 2},
       {8, 8, 1, 1},
       {.padding = 1}},
  };
  for (const Case& c : cases) CheckConvolution(c);
}

TEST_CASE("depthwise convolutions by the images of a batch") {
  const std::vector<Case> cases = {
      {"with padding",
       {17, 5, 6, 6},
       {5, 1, 3, 3},
       {.padding = 1, .groups = 5}},
      {"of small maps",
       {40, 70, 2, 2},
       {70, 1, 3, 3},
       {.padding = 1, .groups = 70}},
      {"of one element",
       {16, 21, 1, 1},
       {21, 1, 3, 3},
       {.padding = 1, .groups = 21}},
      {"with strides",
       {32, 3, 9, 12},
       {3, 1, 3, 3},
       {.stride = 2, .padding = 1, .groups = 3}},
      {"with strides that leave elements out",
       {20, 3, 8, 10},
       {3, 1, 2, 2},
       {.stride = 3, .groups = 3}},
      {"of 25 taps", {18, 2, 7, 5}, {2, 1, 5, 5}, {.padding = 2, .groups = 2}},
      {"with dilation and uneven padding",
       {16, 4, 5, 9},
       {4, 1, 2, 3},
       {.stride = {1, 2},
        .padding = {0, 3, 2, 1},
        .dilation = {3, 2},
        .groups = 4}},
      {"in one dimension",
       {35, 6, 19},
       {6, 1, 4},
       {.padding = {2, 1}, .groups = 6}},
      {"in three dimensions",
       {16, 2, 3, 4, 5},
       {2, 1, 2, 3, 2},
       {.stride = {1, 2, 1}, .padding = {1, 0, 1, 0, 1, 0}, .groups = 2}},
  };
  for (const Case& c : cases) CheckConvolution(c);
}

TEST_CASE("batch norm of channels of few elements") {
  for (const Precision p : {kF32, kF64}) {
    for (const Shape& shape : std::vector<Shape>{{3, 5},
                                                 {70, 300, 1, 1},
                                                 {130, 37, 2, 2},
                                                 {9, 2, 7},
                                                 {5, 33, 3, 5}}) {
      const std::string name = StrCat("batch norm of ", shape.ToString());
      CAPTURE(name);
      CheckGraph(name, p.tolerance, [&](GraphBuilder& g) {
        const Value x = g.Input("x", p.dtype, shape);
        const Value gamma = g.Input("gamma", p.dtype, {shape[1]});
        const Value beta = g.Input("beta", p.dtype, {shape[1]});
        const BatchNormResults forward = BatchNorm(x, gamma, beta, 1e-5);
        g.Output("y", forward.y);
        g.Output("mean", forward.mean);
        g.Output("variance", forward.variance);
        const BatchNormGrads grads =
            BatchNormGrad(x, gamma, forward.mean, forward.variance,
                          g.Input("dy", p.dtype, shape), 1e-5);
        g.Output("dx", grads.dx);
        g.Output("dgamma", grads.dgamma);
        g.Output("dbeta", grads.dbeta);
      });
    }
  }
}

// --- Workspace: by an image's size, channels and the kernel's elements ----------------

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

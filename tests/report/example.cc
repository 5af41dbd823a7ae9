#include "tests/report/example.h"

#include "base/result.h"
#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage::testing {

Graph ExampleGraph() {
  GraphBuilder g("example <1>");
  const Value w = g.Param("w", DType::kF32, {4});
  const Value x = g.Input("x", DType::kF32, {4});
  const Value h = g.Name("h", Mul(w, x));
  const Value r = g.Name("r & s", Relu(h));
  g.Output("loss", g.Name("loss", ReduceSum(r)));
  Result<Graph> graph = g.Finish();
  STOWAGE_CHECK(graph.ok());
  return *std::move(graph);
}

Plan ExamplePlan() {
  Plan plan;
  plan.graph_name = "example <1>";
  plan.fingerprint = Fingerprint(ExampleGraph());
  plan.alignment = 16;
  plan.buffers = {
      {.name = "w",
       .region = Region::kWeights,
       .offset = 0,
       .size = 16,
       .lower = 0,
       .upper = 3},
      {.name = "x",
       .region = Region::kIo,
       .offset = 0,
       .size = 16,
       .lower = 0,
       .upper = 3},
      {.name = "h",
       .region = Region::kActivations,
       .offset = 0,
       .size = 16,
       .lower = 0,
       .upper = 2},
      {.name = "r & s",
       .region = Region::kActivations,
       .offset = 16,
       .size = 16,
       .lower = 1,
       .upper = 3},
      {.name = "loss",
       .region = Region::kActivations,
       .offset = 0,
       .size = 4,
       .lower = 2,
       .upper = 3},
      {.name = "workspace of \"loss\"",
       .region = Region::kWorkspace,
       .offset = 32,
       .size = 16,
       .lower = 2,
       .upper = 3},
  };
  plan.buffer_of = {0, 1, 2, 3, 4};
  plan.workspace_of = {-1, -1, 5};
  plan.host_workspace_of = {-1, -1, -1};
  plan.regions = {.weights = 16, .io = 16, .activations = 32, .workspace = 16};
  plan.lower_bound = 80;  // 32 reserved + r, loss and scratch of 16 each
  plan.no_reuse = 96;     // six slots of 16
  plan.caching_allocator = 2 << 20;  // one segment of 2 MiB
  plan.peak_time = 2;
  plan.views = 7;
  plan.in_place = 3;
  plan.packer = "by hand";
  plan.optimal = true;
  return plan;
}

}  // namespace stowage::testing

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/text.h"
#include "planner/plan_memory.h"
#include "report/html.h"

namespace stowage {
namespace {

// Forward, backward and an update; a state on the host, reloaded for it; one value
// that is recomputed, one that takes over another's buffer, scratch of the matmul.
constexpr std::string_view kStep = R"(stowage-ir 1
graph "g" {
  w: f32(8, 8) = param
  w.m: f32(8, 8) = host_state
  u: f32(8, 8) = param
  u.m: f32(8, 8) = state
  x: f32(8, 8) = input
  lr: f32() = input
  a: f32(8, 8) = matmul(x, w) {transpose_a=0, transpose_b=0}
  b: f32(8, 8) = tanh(a)
  c: f32(8, 8) = exp(b)
  d: f32(8, 8) = mul(c, u)
  loss: f32() = reduce_sum(d) {axes=[0, 1], keep=0}
  seed: f32(8, 8) = fill() {dtype=f32, shape=[8, 8], value=1.0} @backward("loss")
  "c~recomputed": f32(8, 8) = exp(b)
  du: f32(8, 8) gradient = mul("c~recomputed", seed) @backward("d")
  dw: f32(8, 8) gradient = mul(du, b) @backward("a")
  u2: f32(8, 8), u.m2: f32(8, 8) = momentum_update(u, u.m, du, lr) {decay=0.0, momentum=0.5} @update("u")
  "w.m~reloaded": f32(8, 8) = reload(w.m) @update("w")
  w2: f32(8, 8), w.m2: f32(8, 8) = momentum_update(w, "w.m~reloaded", dw, lr) {decay=0.0, momentum=0.5} @update("w")
  far: f32(8, 8) = offload_update(w.m, w.m2) @update("w")
  output "loss" = loss
}
)";

struct Described {
  Graph graph;
  Plan plan;
  std::vector<BufferDetails> details;

  const BufferDetails& of(std::string_view value) const {
    const auto id = static_cast<size_t>(*graph.Find(value));
    return details[static_cast<size_t>(plan.buffer_of[id])];
  }
  BufferKind kind(std::string_view value) const { return of(value).kind; }
};

Described Describe(bool in_place) {
  Result<Graph> graph = ParseGraph(kStep);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  PlanOptions options;
  options.in_place = in_place;
  options.device.workspace = [](const Graph&, const Node& node) {
    return Bytes{node.op == OpKind::kMatMul ? 512 : 0};
  };
  Result<Plan> plan = PlanMemory(*graph, options);
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  std::vector<BufferDetails> details = MakeDetails(*graph, *plan);
  return {*std::move(graph), *std::move(plan), std::move(details)};
}

TEST_CASE("every buffer is of the kind that its value is for") {
  const Described step = Describe(/*in_place=*/false);
  CHECK(step.kind("w") == BufferKind::kWeights);
  CHECK(step.kind("u.m") == BufferKind::kState);
  CHECK(step.kind("w.m") == BufferKind::kHost);
  CHECK(step.kind("w.m~reloaded") == BufferKind::kState);
  CHECK(step.kind("x") == BufferKind::kInputs);
  CHECK(step.kind("a") == BufferKind::kTemporary);
  CHECK(step.kind("b") == BufferKind::kSaved);
  CHECK(step.kind("c") == BufferKind::kTemporary);
  CHECK(step.kind("c~recomputed") == BufferKind::kRecomputed);
  CHECK(step.kind("loss") == BufferKind::kTemporary);
  CHECK(step.kind("seed") == BufferKind::kGradients);
  CHECK(step.kind("dw") == BufferKind::kGradients);
  const auto scratch = step.plan.workspace_of[0];
  REQUIRE(scratch >= 0);
  const BufferDetails& of_matmul = step.details[static_cast<size_t>(scratch)];
  CHECK(of_matmul.kind == BufferKind::kScratch);
  CHECK(of_matmul.readers == std::vector<NodeId>{0});
  CHECK(of_matmul.values.empty());
}

TEST_CASE("where values share a buffer, the one that has it longest decides") {
  const Described step = Describe(/*in_place=*/true);
  // Made at 0, 1 and 8; the last dies at 12.
  const BufferDetails& buffer = step.of("b");
  REQUIRE(buffer.values.size() == 3);
  CHECK(buffer.values[0].name == "a");
  CHECK(buffer.values[1].name == "b");
  CHECK(buffer.values[2].name == "dw");
  CHECK(buffer.kind == BufferKind::kSaved);
}

TEST_CASE("a buffer names its values and all that read them, by time") {
  const Described step = Describe(/*in_place=*/true);
  const auto time = [&](std::string_view value) {
    return step.graph.value(*step.graph.Find(value)).producer;
  };
  const BufferDetails& b = step.of("b");
  CHECK(b.values[0].type == "f32(8, 8)");
  CHECK(b.values[0].made == 0);
  CHECK(b.readers == std::vector<NodeId>{time("b"), time("c"),
                                         time("c~recomputed"), time("dw"),
                                         time("w2")});
  const BufferDetails& w = step.of("w");
  REQUIRE(w.values.size() == 1);  // w2 is the same memory
  CHECK(w.values[0].made == kNoNode);
  CHECK(w.readers == std::vector<NodeId>{0, time("w2")});
  CHECK_FALSE(w.values[0].source.is_known());  // of a text
}

TEST_CASE("kinds have names of their own") {
  std::vector<std::string_view> names;
  for (const BufferKind kind : kBufferKinds) {
    names.push_back(BufferKindName(kind));
  }
  CHECK(names == std::vector<std::string_view>{
                     "weights", "state", "inputs", "saved", "gradients",
                     "recomputed", "temporary", "scratch", "host"});
}

}  // namespace
}  // namespace stowage

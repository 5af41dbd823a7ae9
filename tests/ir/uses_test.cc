#include "ir/uses.h"

#include <doctest/doctest.h>

#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/text.h"

namespace stowage {
namespace {

// Nodes: 0 add, 1 reshape, 2 neg, 3 mul, 4 sin, 5 sgd_update.
constexpr std::string_view kStep = R"(stowage-ir 1
graph "step" {
  x: f32(4) = input
  lr: f32() = input
  unused: f32(4) = input
  w: f32(4) = param
  h: f32(4) = add(x, w)
  v: f32(2, 2) = reshape(h) {shape=[2, 2]}
  r: f32(2, 2) = neg(v)
  d: f32(4) gradient = mul(h, h) @backward("h")
  s: f32(2, 2) = sin(v)
  w2: f32(4) = sgd_update(w, d, lr) {decay=0.0} @update("w")
  output "new" = w2
  output "flat" = v
}
)";

struct Step {
  Graph graph = *ParseGraph(kStep);
  Uses uses = Uses(graph, ComputeLayouts(graph));

  ValueId id(std::string_view name) const { return *graph.Find(name); }
};

std::vector<NodeId> List(std::span<const NodeId> nodes) {
  return {nodes.begin(), nodes.end()};
}
using Nodes = std::vector<NodeId>;

TEST_CASE("a root is used by who reads it, reads a view of it, or takes one") {
  const Step step;
  CHECK(List(step.uses.uses(step.id("h"))) == Nodes{1, 2, 3, 4});
  CHECK(List(step.uses.readers(step.id("h"))) == Nodes{2, 3, 4});
  CHECK(List(step.uses.uses(step.id("w"))) == Nodes{0, 5});
  CHECK(step.uses.uses(step.id("unused")).empty());
}

TEST_CASE("readers from the first in a later phase on are later readers") {
  const Step step;
  CHECK(List(step.uses.forward_readers(step.id("h"))) == Nodes{2});
  CHECK(List(step.uses.later_readers(step.id("h"))) == Nodes{3, 4});
  CHECK(List(step.uses.forward_readers(step.id("w"))) == Nodes{0});
  CHECK(step.uses.later_readers(step.id("x")).empty());
  CHECK(step.uses.forward_readers(step.id("d")).empty());
  CHECK(List(step.uses.later_readers(step.id("d"))) == Nodes{5});
}

TEST_CASE("a result is last used where it is made, if nothing reads it") {
  const Step step;
  CHECK(step.uses.last_use(step.id("h")) == 4);
  CHECK(step.uses.last_reader(step.id("h")) == 4);
  CHECK(step.uses.last_use(step.id("s")) == 4);
  CHECK(step.uses.last_reader(step.id("s")) == kNoNode);
  CHECK(step.uses.last_use(step.id("x")) == 0);
  CHECK(step.uses.last_use(step.id("unused")) == kNoNode);
}

TEST_CASE("an update overwrites a content, not what it makes of it") {
  const Step step;
  CHECK(step.uses.overwriter(step.id("w")) == 5);
  CHECK(step.uses.overwriter(step.id("h")) == kNoNode);
}

TEST_CASE("the root of an output is one, and what its update makes") {
  const Step step;
  CHECK(step.uses.is_output(step.id("h")));  // by its view
  CHECK(step.uses.is_output(step.id("w")));  // by its new content
  CHECK(!step.uses.is_output(step.id("d")));
}

}  // namespace
}  // namespace stowage

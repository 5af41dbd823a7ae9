#include "ir/graph_bytes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/graph_peer.h"
#include "tests/support/instances.h"
#include "tests/support/random_graph.h"

namespace stowage {
namespace {

using testing::Instances;
using testing::MakeRandomModel;
using testing::MakeRandomStep;
using testing::Rng;
using testing::StepOf;

// Every role of a leaf and kind of attribute, views, several results, an output
// beside its value's name, names that need quotes.
constexpr std::string_view kEverything = R"(stowage-ir 1
graph "a \"step\"" {
  x: f32(4, 6) = input
  w: f32(6, 10) = param {init=normal(0.02)}
  b: f32(10) = param
  gamma: f32(10) = param {init=ones}
  beta: f32(10) = param {init=uniform(0.5)}
  cut: f32(10) = param {init=truncated_normal(0.25)}
  scale: f32() = state {init=constant(65536.0)}
  turn: f32(2, 3) = param {init=orthogonal(1.5)}
  w.m: f32(6, 10) = state
  kept: f16(2, 3) = saved
  far: f32(6, 10) = host_state {init=ones}
  "the table": f32(2) = constant() {dtype=f32, shape=[2], data=0x0000803f000000c0}
  low: f32(4, 10) = fill() {dtype=f32, shape=[4, 10], value=-inf}
  h/1: f32(4, 10) = matmul(x, w) {transpose_a=0, transpose_b=0}
  b:wide: f32(4, 10) = broadcast(b) {shape=[4, 10]}
  near: f32(6, 10) = reload(far)
  sum: f32(4, 10) gradient = add(h/1, b:wide) @backward("h\n1")
  output "sum" = sum
  output "again" = sum
}
)";

bool SameSources(const Graph& a, const Graph& b) {
  return std::ranges::equal(
      a.values(), b.values(), [](const ValueInfo& x, const ValueInfo& y) {
        return x.source.line == y.source.line &&
               std::string_view(x.source.file) == y.source.file;
      });
}

void CheckReadsBack(const Graph& graph) {
  const Result<Graph> again = GraphFromBytes(ToBytes(graph));
  REQUIRE_MESSAGE(again.ok(), again.error().message);
  CHECK(Equal(*again, graph));
  for (const GraphOutput& output : graph.outputs()) {
    CHECK(again->Find(output.name) == graph.Find(output.name));
  }
  CHECK(SameSources(*again, graph));
}

TEST_CASE("what is written reads back equal: all that a graph can hold") {
  const Result<Graph> graph = ParseGraph(kEverything);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  CheckReadsBack(*graph);
}

TEST_CASE("what is written reads back equal: source lines") {
  Result<Graph> graph = ParseGraph(kEverything);
  REQUIRE(graph.ok());
  CHECK_FALSE(graph->value(0).source.is_known());
  graph->SetSource(0, {"model.cc", 12});
  graph->SetSource(3, {"model.cc", 2147483647});
  graph->SetSource(9, {"layers.cc", 1});
  CheckReadsBack(*graph);
}

TEST_CASE("what is written reads back equal: models and their training steps") {
  for (const char* const model : {"mlp", "gpt-nano"}) {
    CAPTURE(model);
    CheckReadsBack(StepOf(model, {}));
  }
}

TEST_CASE("what is written reads back equal: random graphs") {
  for (uint64_t seed = 0; seed < Instances<uint64_t>(200); ++seed) {
    INFO("seed ", seed);
    CheckReadsBack(MakeRandomModel(seed));
    CheckReadsBack(MakeRandomStep(seed));
  }
}

TEST_CASE("the bytes are less than half of the text") {
  const Graph step = StepOf("gpt-nano", {});
  CHECK(ToBytes(step).size() * 2 < ToText(step).size());
}

TEST_CASE("a graph that is cut short is refused, wherever it is cut") {
  const std::string bytes = ToBytes(*ParseGraph(kEverything));
  for (size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(GraphFromBytes(std::string_view(bytes).substr(0, size)).ok());
  }
  const Result<Graph> longer = GraphFromBytes(bytes + '\0');
  REQUIRE_FALSE(longer.ok());
  CHECK(longer.error().code == ErrorCode::kInvalidArgument);
  CHECK(longer.error().message.starts_with("[graph bytes] byte "));
}

// Replaces, removes or inserts a byte.
std::string Mutated(std::string bytes, Rng* rng) {
  const auto at =
      static_cast<size_t>(rng->Below(static_cast<int64_t>(bytes.size())));
  const auto byte = static_cast<char>(rng->Below(256));
  switch (rng->Below(4)) {
    case 0:
      bytes.erase(at, 1);
      break;
    case 1:
      bytes.insert(at, 1, byte);
      break;
    default:
      bytes[at] = byte;
  }
  return bytes;
}

TEST_CASE("of damaged bytes comes an error, or another graph that is good") {
  const Graph everything = *ParseGraph(kEverything);
  int refused = 0;
  const int count = Instances(1000);
  for (int seed = 0; seed < count; ++seed) {
    INFO("seed ", seed);
    const Graph graph = seed % 2 == 0
                            ? everything
                            : MakeRandomStep(static_cast<uint64_t>(seed) % 20);
    Rng rng(static_cast<uint64_t>(seed));
    const std::string bytes = ToBytes(graph);
    const std::string mutated = Mutated(bytes, &rng);
    const Result<Graph> read = GraphFromBytes(mutated);
    if (!read.ok()) {
      ++refused;
      CHECK(read.error().code == ErrorCode::kInvalidArgument);
      CHECK(read.error().message.starts_with("["));
      continue;
    }
    CHECK(Verify(*read).ok());
    const bool same = Equal(*read, graph) && SameSources(*read, graph);
    CHECK(same == (mutated == bytes));
    CheckReadsBack(*read);
  }
  CHECK(refused > count / 4);
}

TEST_CASE("what the verifier refuses is refused, by its own words") {
  Graph graph = *ParseGraph(kEverything);
  GraphTestPeer::Values(graph)[*graph.Find("h/1")].type.shape = {4, 11};
  const Result<Graph> read = GraphFromBytes(ToBytes(graph));
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().message == Verify(graph).error().message);
}

TEST_CASE("two values of one name are refused") {
  Graph graph = *ParseGraph(kEverything);
  GraphTestPeer::Values(graph)[*graph.Find("low")].name = std::string("x");
  CHECK_FALSE(GraphFromBytes(ToBytes(graph)).ok());
}

}  // namespace
}  // namespace stowage

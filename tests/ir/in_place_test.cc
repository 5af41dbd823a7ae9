#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/text.h"
#include "ir/uses.h"

namespace stowage {
namespace {

// Whether the last node of a graph with these lines may be written over the value
// called `over`.
bool MayTakeOver(std::string_view lines, std::string_view over) {
  const Result<Graph> graph = ParseGraph("stowage-ir 1\ngraph \"g\" {\n" +
                                         std::string(lines) + "\n}\n");
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto root = graph->Find(over);
  REQUIRE(root.has_value());
  const Layouts layouts = ComputeLayouts(*graph);
  const Node& node = graph->nodes().back();
  return InPlace(*graph, layouts, node).MayTakeOver(layouts, node, *root);
}

TEST_CASE("a result may take over an operand, and one that is read twice") {
  CHECK(MayTakeOver("x: f32(4, 4) = input\ny: f32(4, 4) = neg(x)", "x"));
  CHECK(MayTakeOver("x: f32(4, 4) = input\ny: f32(4, 4) = add(x, x)", "x"));
}

TEST_CASE("nothing takes over what the node does not read") {
  CHECK(!MayTakeOver("x: f32(4) = input\nu: f32(4) = input\ny: f32(4) = neg(x)",
                     "u"));
}

TEST_CASE("the kernel must be able to, for every operand in the same content") {
  CHECK(
      !MayTakeOver("x: f32(4, 4) = input\n"
                   "y: f32(4, 4) = matmul(x, x) {transpose_a=0, "
                   "transpose_b=0}",
                   "x"));
  // A layer norm reads x before it writes, gamma after.
  const std::string leaves =
      "x: f32(4) = input\ng: f32(4) = input\nb: f32(4) = input\n";
  const std::string results =
      "y: f32(4), mean: f32(), rstd: f32() = layer_norm";
  CHECK(MayTakeOver(leaves + results + "(x, g, b) {eps=1e-05}", "x"));
  CHECK(!MayTakeOver(leaves + results + "(x, g, b) {eps=1e-05}", "g"));
  CHECK(!MayTakeOver(leaves + results + "(x, x, b) {eps=1e-05}", "x"));
}

TEST_CASE("the bytes must be as many") {
  CHECK(!MayTakeOver("x: f32(4) = input\ny: bf16(4) = cast(x) {dtype=bf16}",
                     "x"));
  CHECK(MayTakeOver("x: f32(4) = input\ny: i32(4) = cast(x) {dtype=i32}", "x"));
}

TEST_CASE("every view of it must cover it whole and in order") {
  const std::string x = "x: f32(4, 4) = input\n";
  CHECK(MayTakeOver(x + "v: f32(16) = reshape(x) {shape=[16]}\n"
                        "y: f32(16) = neg(v)",
                    "x"));
  CHECK(!MayTakeOver(x + "v: f32(4, 4) = permute(x) {order=[1, 0]}\n"
                         "y: f32(4, 4) = add(x, v)",
                     "x"));
  CHECK(!MayTakeOver(x + "v: f32(2, 4) = slice(x) {axis=0, start=0, end=2, "
                         "step=1}\n"
                         "y: f32(2, 4) = neg(v)",
                     "x"));
  // As many bytes as the result has, but half of what they lie in.
  CHECK(!MayTakeOver(x + "v: f32(2, 4) = slice(x) {axis=0, start=0, end=2, "
                         "step=1}\n"
                         "w: f32(2, 2, 4) = broadcast(v) {shape=[2, 2, 4]}\n"
                         "y: f32(2, 2, 4) = neg(w)",
                     "x"));
}

TEST_CASE("a view has nothing to write") {
  CHECK(!MayTakeOver(
      "x: f32(4, 4) = input\nv: f32(16) = reshape(x) {shape=[16]}", "x"));
}

}  // namespace
}  // namespace stowage

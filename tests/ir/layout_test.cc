#include "ir/layout.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ir/element_groups.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "ir/uses.h"

namespace stowage {
namespace {

Graph Parse(std::string_view lines) {
  Result<Graph> graph = ParseGraph("stowage-ir 1\ngraph \"g\" {\n" +
                                   std::string(lines) + "\n}\n");
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

ValueId Id(const Graph& graph, std::string_view name) {
  const auto id = graph.Find(name);
  REQUIRE(id.has_value());
  return *id;
}

Layout LayoutOf(const Graph& graph, std::string_view name) {
  return ComputeLayouts(graph)[static_cast<size_t>(Id(graph, name))];
}

void CheckLayout(const Graph& graph, std::string_view name,
                 std::string_view root, Bytes offset, const Strides& strides) {
  CAPTURE(name);
  const Layout layout = LayoutOf(graph, name);
  CHECK(graph.value(layout.root).name == root);
  CHECK(layout.byte_offset == offset);
  CHECK(layout.strides.ToString() == strides.ToString());
}

TEST_CASE("A value that owns bytes is its own root, row-major, at 0") {
  const Graph graph = Parse(
      "x: f32(2, 3, 4) = input\n"
      "s: f64() = param\n"
      "y: f32(2, 3, 4) = neg(x)");
  CheckLayout(graph, "x", "x", 0, {12, 4, 1});
  CheckLayout(graph, "s", "s", 0, {});
  CheckLayout(graph, "y", "y", 0, {12, 4, 1});
}

TEST_CASE("Every kind of view lies in its root") {
  const Graph graph = Parse(
      "x: f32(4, 6) = input\n"
      "flat: f32(24) = reshape(x) {shape=[24]}\n"
      "t: f32(6, 4) = permute(x) {order=[1, 0]}\n"
      "rows: f32(2, 6) = slice(x) {axis=0, start=1, end=4, step=2}\n"
      "a: f32(4, 1), b: f32(4, 2), c: f32(4, 3) = split(x) {axis=1, "
      "sizes=[1, 2, 3]}\n"
      "wide: f32(5, 4, 6) = broadcast(x) {shape=[5, 4, 6]}");
  CheckLayout(graph, "flat", "x", 0, {1});
  CheckLayout(graph, "t", "x", 0, {1, 6});
  CheckLayout(graph, "rows", "x", 6 * 4, {12, 1});
  CheckLayout(graph, "a", "x", 0, {6, 1});
  CheckLayout(graph, "b", "x", 1 * 4, {6, 1});
  CheckLayout(graph, "c", "x", 3 * 4, {6, 1});
  CheckLayout(graph, "wide", "x", 0, {0, 6, 1});
}

TEST_CASE("A chain of views adds up to one layout in the root") {
  // As attention cuts a packed projection: (batch, time, 3 * heads * width) to
  // heads-major keys.
  const Graph graph = Parse(
      "qkv: f64(2, 5, 24) = input\n"
      "q: f64(2, 5, 8), k: f64(2, 5, 8), v: f64(2, 5, 8) = split(qkv) "
      "{axis=2, sizes=[8, 8, 8]}\n"
      "heads: f64(2, 5, 4, 2) = reshape(k) {shape=[2, 5, 4, 2]}\n"
      "major: f64(2, 4, 5, 2) = permute(heads) {order=[0, 2, 1, 3]}\n"
      "late: f64(2, 4, 2, 2) = slice(major) {axis=2, start=3, end=5, step=1}\n"
      "one: f64(1, 4, 2, 2) = slice(late) {axis=0, start=1, end=2, step=1}");
  CheckLayout(graph, "k", "qkv", 8 * 8, {120, 24, 1});
  CheckLayout(graph, "heads", "qkv", 8 * 8, {120, 24, 2, 1});
  CheckLayout(graph, "major", "qkv", 8 * 8, {120, 2, 24, 1});
  CheckLayout(graph, "late", "qkv", (8 + 3 * 24) * 8, {120, 2, 24, 1});
  CheckLayout(graph, "one", "qkv", (8 + 3 * 24 + 120) * 8, {120, 2, 24, 1});
}

TEST_CASE("A view counts from the element size of its own type") {
  const Graph graph = Parse(
      "x: f32(4, 6) = input\n"
      "y: bf16(4, 6) = cast(x) {dtype=bf16}\n"
      "z: bf16(1, 6) = slice(y) {axis=0, start=2, end=3, step=1}");
  CheckLayout(graph, "z", "y", 12 * 2, {6, 1});
}

TEST_CASE("The results of an update lie where the leaves lie") {
  const Graph graph = Parse(
      "w: f32(4, 6) = param\n"
      "m: f32(4, 6) = state\n"
      "g: f32(4, 6) = input\n"
      "lr: f32() = input\n"
      "w2: f32(4, 6), m2: f32(4, 6) = momentum_update(w, m, g, lr) "
      "{momentum=0.9, decay=0.0}\n"
      "rows: f32(2, 6) = slice(w2) {axis=0, start=2, end=4, step=1}\n"
      "t: f32(6, 2) = permute(rows) {order=[1, 0]}");
  CheckLayout(graph, "w2", "w", 0, {6, 1});
  CheckLayout(graph, "m2", "m", 0, {6, 1});
  CheckLayout(graph, "t", "w", 12 * 4, {1, 6});
}

TEST_CASE("A reshape that strides cannot express starts a root of its own") {
  const Graph graph = Parse(
      "x: f32(4, 6) = input\n"
      "t: f32(6, 4) = permute(x) {order=[1, 0]}\n"
      "flat: f32(24) = reshape(t) {shape=[24]}");
  CheckLayout(graph, "t", "x", 0, {1, 6});
  CheckLayout(graph, "t.contiguous", "t.contiguous", 0, {4, 1});
  CheckLayout(graph, "flat", "t.contiguous", 0, {1});
  CHECK(IsLegal(graph));
}

TEST_CASE("A copy is shared by its readers and takes a free name") {
  const Graph graph = Parse(
      "x: f32(4, 6) = input\n"
      "t: f32(6, 4) = permute(x) {order=[1, 0]}\n"
      "t.contiguous: f32(6, 4) = neg(t)\n"
      "y: f32(6, 4) = softmax(t)\n"
      "z: f32(24) = reshape(t) {shape=[24]}\n"
      "output \"y\" = y");
  // neg takes any strides; softmax and reshape share one copy.
  REQUIRE(graph.num_nodes() == 5);
  CHECK(graph.node(2).op == OpKind::kCopy);
  const ValueId copy = Id(graph, "t.contiguous2");
  CHECK(graph.value(copy).producer == 2);
  CHECK(graph.node(1).inputs == std::vector<ValueId>{Id(graph, "t")});
  CHECK(graph.node(3).inputs == std::vector<ValueId>{copy});
  CHECK(graph.node(4).inputs == std::vector<ValueId>{copy});
  CHECK(graph.outputs()[0].value == Id(graph, "y"));
}

TEST_CASE("Operands come with types, names and attributes") {
  const Graph graph = Parse(
      "x: f32(4, 6) = input\n"
      "w: f32(6, 3) = param\n"
      "y: f32(4, 3) = matmul(x, w) {transpose_a=0, transpose_b=0}");
  OpArgsStorage storage;
  const OpArgs args = MakeOpArgs(graph, graph.node(0), &storage);
  CHECK(args.op == OpKind::kMatMul);
  REQUIRE(args.count() == 2);
  CHECK(args.Describe(0) == "\"x\" is f32(4, 6)");
  CHECK(args.Describe(1) == "\"w\" is f32(6, 3)");
  CHECK(args.attrs == graph.node(0).attrs);
}

TEST_CASE("Operations of a graph are the sum over its nodes; views have none") {
  const Graph graph = Parse(
      "x: f32(4, 6) = input\n"
      "w: f32(6, 3) = param\n"
      "t: f32(6, 4) = permute(x) {order=[1, 0]}\n"
      "y: f32(4, 3) = matmul(t, w) {transpose_a=1, transpose_b=0}\n"
      "z: f32(4, 3) = add(y, y)");
  CHECK(NodeFlops(graph, graph.node(0)) == 0);
  CHECK(NodeFlops(graph, graph.node(1)) == 2 * 4 * 6 * 3);
  CHECK(NodeFlops(graph, graph.node(2)) == 4 * 3);
  CHECK(GraphFlops(graph) == 2 * 4 * 6 * 3 + 4 * 3);
}

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

AxisGroups Groups(const Shape& shape, std::initializer_list<int64_t> reduced) {
  return AxisGroups(shape, std::vector<int64_t>(reduced));
}

void CheckSimple(const AxisGroups& groups, int64_t outer, int64_t reduced,
                 int64_t inner) {
  CHECK(groups.simple());
  CHECK(groups.outer() == outer);
  CHECK(groups.reduced() == reduced);
  CHECK(groups.inner() == inner);
  CHECK(groups.kept() == outer * inner);
}

TEST_CASE("neighbouring axes of one kind are one group") {
  CheckSimple(Groups({8, 3, 4, 5}, {1, 2}), 8, 12, 5);
  CheckSimple(Groups({2, 4, 3, 5}, {2, 3}), 8, 15, 1);
  CheckSimple(Groups({2, 4, 3, 5}, {1, 0}), 1, 8, 15);
}

TEST_CASE("an axis of size 1 joins no group and parts none") {
  CheckSimple(Groups({8, 3, 1, 4, 5}, {1, 3}), 8, 12, 5);
  CheckSimple(Groups({8, 1, 5}, {1}), 40, 1, 1);
  CheckSimple(Groups({1, 1}, {0}), 1, 1, 1);
}

TEST_CASE("all axes, or none, may be reduced") {
  CheckSimple(AxisGroups::AllReduced({2, 3, 4}), 1, 24, 1);
  CheckSimple(AxisGroups::AllReduced({}), 1, 1, 1);
  CheckSimple(Groups({2, 3, 4}, {}), 24, 1, 1);
}

TEST_CASE("groups that alternate have a size and a stride each") {
  const AxisGroups groups = Groups({2, 3, 4, 5, 6}, {0, 2, 3});
  CHECK(!groups.simple());
  CHECK(!groups.inner_is_reduced);
  CHECK(groups.reduced_dims == Shape{2, 20});
  CHECK(groups.reduced_strides == Strides{360, 6});
  CHECK(groups.kept_dims == Shape{3, 6});
  CHECK(groups.kept_strides == Strides{120, 1});
}

}  // namespace
}  // namespace stowage

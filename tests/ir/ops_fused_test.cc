#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/fused.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "ir/text.h"

namespace stowage {
namespace {

// A node of a fused_elementwise, or of a fused_matmul by a (3, 5) and b (5, 8), on
// operands of f32(3, 8): the program is given as text.
Result<Graph> WithProgram(const std::string& program, int operands,
                          bool after_product = false) {
  std::string names = after_product ? "a, b" : "";
  std::string text = "stowage-ir 1\ngraph \"g\" {\n";
  if (after_product) {
    text += "  a: f32(3, 5) = input\n  b: f32(5, 8) = input\n";
  }
  for (int i = 0; i < operands; ++i) {
    const std::string name = "p" + std::to_string(i);
    text += "  " + name + ": f32(3, 8) = input\n";
    names += (names.empty() ? "" : ", ") + name;
  }
  text += "  y: f32(3, 8) = ";
  text += after_product ? "fused_matmul(" : "fused_elementwise(";
  text += names + ") {";
  if (after_product) text += "transpose_a=0, transpose_b=0, ";
  text +=
      "program=(graph \"parts\" {\n" + program + "})}\n  output \"y\" = y\n}\n";
  return ParseGraph(text);
}

const std::string kLeaves =
    "  x0: f32(3, 8) = input\n  x1: f32(3, 8) = input\n";

TEST_CASE("a chain of elementwise ops is a program") {
  const std::string program = kLeaves +
                              "  s: f32(3, 8) = add(x1, x0)\n"
                              "  q: f32(3, 8) = mul(s, s)\n"
                              "  y0: f32(3, 8) = sub(x1, q)\n"
                              "  output \"y0\" = y0\n";
  const Result<Graph> graph = WithProgram(program, 2);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Node& node = graph->node(0);
  const FusedChain chain = ChainOf(ProgramOf(node.attrs));
  REQUIRE(chain.steps().size() == 3);
  const FusedStep& add = chain.steps()[0];
  CHECK(add.op == OpKind::kAdd);
  CHECK(add.is_binary);
  CHECK(add.operand == 1);
  CHECK(add.is_second);
  CHECK(add.result == -1);
  const FusedStep& mul = chain.steps()[1];
  CHECK(mul.operand == -1);
  CHECK(!mul.is_second);
  const FusedStep& sub = chain.steps()[2];
  CHECK(sub.operand == 1);
  CHECK(sub.is_second);
  CHECK(sub.result == 0);
  CHECK(NodeFlops(*graph, node) == 3 * 3 * 8);
  // After a product its operations count, too; and the text says all of it.
  const Result<Graph> after = WithProgram(program, 1, true);
  REQUIRE_MESSAGE(after.ok(), after.error().message);
  CHECK(NodeFlops(*after, after->node(0)) == 2 * 3 * 5 * 8 + 3 * 3 * 8);
  const Result<Graph> again = ParseGraph(ToText(*after));
  REQUIRE_MESSAGE(again.ok(), again.error().message);
  CHECK(Equal(*again, *after));
}

TEST_CASE("what is no chain is refused, and why") {
  const std::string chain =
      "  y0: f32(3, 8) = add(x0, x1)\n  output \"y0\" = y0\n";
  struct Row {
    std::string program;
    int operands;
    std::string message;
    bool after_product = false;
  };
  const Row rows[] = {
      {kLeaves + chain, 1,
       "program \"parts\" has 2 leaves; expected 1 and at most 5"},
      {kLeaves + chain, 2,
       "program \"parts\" has 2 leaves; expected 3 and at most 5", true},
      {kLeaves + "  output \"x0\" = x0\n", 2,
       "program \"parts\" has 0 nodes; expected 1 to 8"},
      {"  x0: f32(3, 8) = input\n  x1: f32(8) = input\n"
       "  y0: f32(3, 8) = relu(x0)\n  output \"y0\" = y0\n",
       2, "program \"parts\" has \"x1\", which is f32(8); expected f32(3, 8)"},
      {"  x0: f32(3, 8) = input\n  x1: f32(3, 8) = param\n" + chain, 2,
       "program \"parts\" has \"x1\", which is param; its leaves are inputs, "
       "in front "
       "of all else"},
      {"  x0: f32(3, 8) = input\n  y1: f32(3, 8) = relu(x0)\n"
       "  x1: f32(3, 8) = input\n  y0: f32(3, 8) = add(y1, x1)\n"
       "  output \"y0\" = y0\n",
       2,
       "program \"parts\" has \"x1\", which is input; its leaves are inputs, "
       "in front "
       "of all else"},
      {kLeaves + "  y0: f32(3, 8) = softmax(x0)\n  output \"y0\" = y0\n", 2,
       "program \"parts\" has \"y0\", made by softmax; its nodes are "
       "elementwise ops of one float type"},
      {kLeaves + "  y0: f32(3, 8) = relu(x1)\n  output \"y0\" = y0\n", 2,
       "program \"parts\" has \"y0\"; each node works on the result of the one "
       "before, the first on leaf 0, and else on leaves"},
      {kLeaves + "  a: f32(3, 8) = relu(x0)\n  b: f32(3, 8) = neg(a)\n"
                 "  y0: f32(3, 8) = add(b, a)\n  output \"y0\" = y0\n",
       2,
       "program \"parts\" has \"y0\"; each node works on the result of the one "
       "before, the first on leaf 0, and else on leaves"},
      {kLeaves + "  a: f32(3, 8) = add(x0, x1)\n  y0: f32(3, 8) = mul(a, x0)\n"
                 "  output \"y0\" = y0\n",
       1,
       "program \"parts\" has \"y0\"; each node works on the result of the one "
       "before, the first on leaf 0, and else on leaves behind the first",
       true},
      {kLeaves + "  a: f32(3, 8) = add(x0, x1)\n  y0: f32(3, 8) = relu(a)\n"
                 "  output \"a\" = a\n  output \"y0\" = y0\n",
       2,
       "program \"parts\" has 2 outputs; expected 1 to 3, the first of them "
       "the "
       "last node's"},
  };
  for (const Row& row : rows) {
    const Result<Graph> graph =
        WithProgram(row.program, row.operands, row.after_product);
    REQUIRE(!graph.ok());
    CHECK_MESSAGE(graph.error().message.find(row.message) != std::string::npos,
                  graph.error().message);
  }
}

TEST_CASE("an operand behind a product is whole, or one row") {
  const auto copies = [](auto&& operand) {
    GraphBuilder program("bias");
    const Value x0 = program.Input("x0", DType::kF32, {4, 6});
    const Value x1 = program.Input("x1", DType::kF32, {4, 6});
    program.Output("y0", Add(x0, x1));
    GraphBuilder g("g");
    const Value a = g.Input("a", DType::kF32, {4, 3});
    const Value b = g.Input("b", DType::kF32, {3, 6});
    const std::vector<Value> operands = {a, b, operand(g)};
    g.Output("y", g.Emit(OpKind::kFusedMatMul, operands,
                         {{"transpose_a", int64_t{0}},
                          {"transpose_b", int64_t{0}},
                          {"program", SubGraphs{std::make_shared<const Graph>(
                                          *program.Finish())}}})
                      .front());
    const Result<Graph> graph = g.Finish();
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    int count = 0;
    for (const Node& node : graph->nodes()) count += node.op == OpKind::kCopy;
    return count;
  };
  CHECK(copies([](GraphBuilder& g) {
          return g.Input("x", DType::kF32, {4, 6});
        }) == 0);
  CHECK(copies([](GraphBuilder& g) {
          return BroadcastTo(g.Input("x", DType::kF32, {6}), {4, 6});
        }) == 0);
  CHECK(copies([](GraphBuilder& g) {
          return BroadcastTo(g.Input("x", DType::kF32, {4, 1}), {4, 6});
        }) == 1);
  CHECK(copies([](GraphBuilder& g) {
          return Transpose(g.Input("x", DType::kF32, {6, 4}));
        }) == 1);
}

}  // namespace
}  // namespace stowage

#include "planner/certificate.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "planner/plan_memory.h"
#include "tests/planner/planned_bodies.h"

namespace stowage {
namespace {

Graph Parsed(std::string_view statements) {
  Result<Graph> graph = ParseGraph(
      StrCat("stowage-ir 1\ngraph \"small\" {\n", statements, "}\n"));
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// The lines of a certificate of one kind, without comments.
std::vector<std::string> Lines(const std::string& text, std::string_view kind) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    std::string line = text.substr(begin, end - begin);
    line = line.substr(0, line.find("  #"));
    if (line.starts_with(StrCat(kind, " "))) lines.push_back(line);
    begin = end + 1;
  }
  return lines;
}

using Strings = std::vector<std::string>;

// A diamond, of 64-byte slots: b and c need a; d needs both.
Graph Diamond() {
  return Parsed(
      "  x: f32(16) = input\n"
      "  a: f32(16) = exp(x)\n"
      "  b: f32(16) = exp(a)\n"
      "  c: f32(16) = exp(a)\n"
      "  d: f32(16) = add(b, c)\n"
      "  output \"d\" = d\n");
}

TEST_CASE(
    "a certificate holds makers, sizes, uses and what may be overwritten") {
  const Graph graph = Diamond();
  const Plan plan = *PlanMemory(graph, {.alignment = 64});
  const std::string text = CertifyPlan(graph, plan);
  CHECK(text.starts_with("stowage-certificate 1\nclaim plan"));
  CHECK(text.ends_with("end\n"));
  CHECK(Lines(text, "value") == Strings{"value -1 64 1 0", "value 0 64 0 1 2",
                                        "value 1 64 0 3", "value 2 64 0 3",
                                        "value 3 64 1"});
  // exp over its operand, unless that is an input; add over either.
  CHECK(Lines(text, "overwrite") ==
        Strings{"overwrite 1 2 1", "overwrite 2 3 1", "overwrite 3 4 2 3"});
  CHECK(Lines(text, "arena") == Strings{"arena 192"});
  // x, a and b while b is made; x, b and c while c is made over a.
  CHECK(Lines(text, "lower-bound") == Strings{"lower-bound 1 192"});
}

TEST_CASE("the order bound counts what every order has live at a node") {
  const Graph graph = Diamond();
  const Plan plan = *PlanMemory(graph, {.alignment = 64});
  // At node 3, d is written over b or c; with x that makes three slots. At node 1, a may be
  // dead in the order that runs node 2 before: x and one of a and b.
  CHECK(Lines(CertifyPlan(graph, plan), "order-bound") ==
        Strings{"order-bound 3 192"});
}

TEST_CASE("an operand that is needed after a node counts beside its result") {
  // a is read by node 1, and after it, in every order, by node 2.
  const Graph graph = Parsed(
      "  x: f32(16) = input\n"
      "  a: f32(16) = exp(x)\n"
      "  b: f32(16) = exp(a)\n"
      "  c: f32(16) = add(b, a)\n"
      "  output \"c\" = c\n");
  const Plan plan = *PlanMemory(graph, {.alignment = 64});
  CHECK(Lines(CertifyPlan(graph, plan), "order-bound") ==
        Strings{"order-bound 1 192"});
}

TEST_CASE("scratch is live while its node runs, and counts in both bounds") {
  const Graph graph = Diamond();
  const Plan plan = *PlanMemory(
      graph, {.alignment = 64,
              .device = {.workspace = [](const Graph&, const Node& node) {
                return Bytes{node.op == OpKind::kAdd ? 100 : 0};
              }}});
  const std::string text = CertifyPlan(graph, plan);
  CHECK(Lines(text, "value").back() == "value 3 100 0");
  CHECK(Lines(text, "lower-bound") == Strings{"lower-bound 3 320"});
  CHECK(Lines(text, "order-bound") == Strings{"order-bound 3 320"});
}

TEST_CASE("in bounds, the scratch of a loop is what its body needs") {
  GraphBuilder g("net");
  const Value h = g.Input("h", DType::kF32, {1, 4});
  const Value w = g.Input("w", DType::kF32, {4, 4});
  const LoopResults run =
      Loop(g, 3, {.carried = {h}, .whole = {w}}, [](LoopBody& body) {
        body.Next(0, MatMul(body.carried(0), body.whole(0)));
      });
  g.Output("y", run.carried[0]);
  const Graph graph = Finish(g);
  // What is carried has a second place.
  CHECK(Lines(CertifyPlan(graph, PlanOf(graph)), "value").back() ==
        "value 0 16 0");
}

TEST_CASE(
    "in bounds, the scratch of a branch is nothing, but it has its slot") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value flag = g.Input("flag", DType::kBool, {});
  const auto widen = [](CondBody& body) {
    const Value wide =
        Copy(BroadcastTo(Reshape(body.operand(0), {1, 4}), {3, 4}));
    return std::vector{ReduceSum(wide, {0})};
  };
  g.Output("y", Cond(g, flag, {x}, {widen, widen})[0]);
  const Graph graph = Finish(g);
  const std::string text = CertifyPlan(graph, PlanOf(graph));
  CHECK(Lines(text, "value").back() == "value 0 0 0");
  CHECK(Lines(text, "slot").back() == "slot 48 48 -1 -1");
}

TEST_CASE("a refusal names the node that needs more than the budget") {
  const Graph graph = Diamond();
  const Plan plan = *PlanMemory(graph, {.alignment = 64});
  const Result<std::string> text = CertifyRefusal(graph, plan, 191);
  REQUIRE(text.ok());
  CHECK(text->starts_with("stowage-certificate 1\nclaim refusal"));
  CHECK(text->ends_with("order-bound 3 192\nbudget 191\nend\n"));
  CHECK(Lines(*text, "slot").empty());
}

TEST_CASE("a budget that the order bound does not exceed has no certificate") {
  const Graph graph = Diamond();
  const Plan plan = *PlanMemory(graph, {.alignment = 64});
  const Result<std::string> text = CertifyRefusal(graph, plan, 192);
  REQUIRE_FALSE(text.ok());
  CHECK(text.error().code == ErrorCode::kUnsupported);
  CHECK(text.error().message ==
        "[certificate] every order of \"small\" is known to need 192 bytes, "
        "while \"d\" runs; that is within the budget of 192 bytes, so the "
        "refusal has no certificate");
}

TEST_CASE("an update waits for all that read the old content") {
  const Graph graph = Parsed(
      "  w: f32(16) = param\n"
      "  g: f32(16) = exp(w)\n"
      "  h: f32(16) = exp(w)\n"
      "  lr: f32() = input\n"
      "  v: f32(16) = sgd_update(w, g, lr) {decay=0.0}\n"
      "  output \"h\" = h\n");
  const Plan plan = *PlanMemory(graph, {.alignment = 64});
  CHECK(Lines(CertifyPlan(graph, plan), "after") ==
        Strings{"after 0 2", "after 1 2"});
}

}  // namespace
}  // namespace stowage

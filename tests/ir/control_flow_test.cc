// Loops and branches as graphs: their types, their text, and what is refused.

#include "ir/control_flow.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/composites.h"
#include "ir/graph_bytes.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "ir/text.h"

namespace stowage {
namespace {

Value F32(GraphBuilder& g, const char* name, const Shape& shape) {
  return g.Input(name, DType::kF32, shape);
}

// h' = tanh(h w + x), stacked.
Result<Graph> Recurrent(int64_t iterations) {
  GraphBuilder g("net");
  const Value h = F32(g, "h", {2, 3});
  const Value xs = F32(g, "xs", {iterations, 2, 3});
  const Value w = F32(g, "w", {3, 3});
  const LoopResults run = Loop(
      g, iterations, {.carried = {h}, .sliced = {xs}, .whole = {w}},
      [](LoopBody& body) {
        const Value next =
            Tanh(Add(MatMul(body.carried(0), body.whole(0)), body.sliced(0)));
        body.Next(0, body.builder().Name("next", next));
        body.Stack(next);
        body.Sum(ReduceSum(next));
      },
      {.name = "cell"});
  g.Output("last", run.carried[0]);
  g.Output("sum", run.summed[0]);
  g.Output("all", run.stacked[0]);
  return g.Finish();
}

TEST_CASE("a loop's results have the types of what its body hands back") {
  const Result<Graph> graph = Recurrent(5);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  CHECK(graph->value(*graph->Find("last")).type.ToString() == "f32(2, 3)");
  CHECK(graph->value(*graph->Find("sum")).type.ToString() == "f32()");
  CHECK(graph->value(*graph->Find("all")).type.ToString() == "f32(5, 2, 3)");
  const LoopParts loop = PartsOfLoop(graph->node(0));
  CHECK(loop.iterations == 5);
  CHECK(loop.carried == 1);
  CHECK(loop.sliced == 1);
  CHECK(loop.whole == 1);
  CHECK(loop.summed == 1);
  CHECK(loop.stacked == 1);
  // Values in a body know the line that made them.
  const ValueInfo& next = loop.body.value(*loop.body.Find("next"));
  CHECK(std::string(next.source.file).ends_with("control_flow_test.cc"));
}

TEST_CASE("the text of a loop is its body, indented") {
  const Result<Graph> graph = Recurrent(2);
  REQUIRE(graph.ok());
  const std::string text =
      "stowage-ir 1\n"
      "graph \"net\" {\n"
      "  h: f32(2, 3) = input\n"
      "  xs: f32(2, 2, 3) = input\n"
      "  w: f32(3, 3) = input\n"
      "  last: f32(2, 3), sum: f32(), all: f32(2, 2, 3) = loop(h, xs, w) "
      "{iterations=2, carried=1, sliced=1, summed=1, reverse=0, bodies=("
      "graph \"cell\" {\n"
      "    h: f32(2, 3) = input\n"
      "    xs: f32(2, 3) = input\n"
      "    w: f32(3, 3) = input\n"
      "    sum0: f32() = input\n"
      "    matmul_1: f32(2, 3) = matmul(h, w) {transpose_a=0, transpose_b=0}\n"
      "    add_1: f32(2, 3) = add(matmul_1, xs)\n"
      "    next: f32(2, 3) = tanh(add_1)\n"
      "    reduce_sum_1: f32() = reduce_sum(next) {axes=[0, 1], keep=0}\n"
      "    add_2: f32() = add(sum0, reduce_sum_1)\n"
      "    copy_1: f32(2, 3) = copy(next)\n"
      "    output \"out0\" = next\n"
      "    output \"out1\" = add_2\n"
      "    output \"out2\" = copy_1\n"
      "  })}\n"
      "  output \"last\" = last\n"
      "  output \"sum\" = sum\n"
      "  output \"all\" = all\n"
      "}\n";
  CHECK(ToText(*graph) == text);
  const Result<Graph> parsed = ParseGraph(text);
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
  CHECK(Equal(*parsed, *graph));
}

TEST_CASE("graphs whose bodies differ are not equal") {
  const Result<Graph> a = Recurrent(2);
  std::string text = ToText(*a);
  text.replace(text.find("tanh(add_1)"), 4, "sin");
  const Result<Graph> b = ParseGraph(text);
  REQUIRE(b.ok());
  CHECK_FALSE(Equal(*a, *b));
  CHECK(ToBytes(*a) != ToBytes(*b));
}

TEST_CASE(
    "a loop costs its iterations times its body, a cond its most expensive "
    "branch") {
  const Graph loop = *Recurrent(7);
  const double body = GraphFlops(*BodiesOf(loop.node(0)).front());
  CHECK(body > 0);
  CHECK(GraphFlops(loop) == 7 * body);

  GraphBuilder g("branches");
  const Value x = F32(g, "x", {4});
  const Value index = g.Input("index", DType::kI32, {});
  g.Output("y", Cond(g, index, {x},
                     {[](CondBody& b) { return std::vector{b.operand(0)}; },
                      [](CondBody& b) {
                        return std::vector{
                            Add(Mul(b.operand(0), b.operand(0)), b.operand(0))};
                      }})[0]);
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  CHECK(GraphFlops(*graph) == 8);
}

TEST_CASE("Graphviz shows bodies in boxes") {
  const std::string dot = ToDot(*Recurrent(2));
  CHECK(dot.find("subgraph cluster_n0b0") != std::string::npos);
  CHECK(dot.find("n0b0n2") != std::string::npos);
}

struct Refusal {
  const char* what;
  std::function<void(GraphBuilder&)> build;
  const char* error;
};

TEST_CASE("what is wrong with a loop or a branch is named") {
  const auto nothing = [](LoopBody&) {};
  const auto stack_0 = [](LoopBody& body) { body.Stack(body.sliced(0)); };
  const Refusal refusals[] = {
      {"no iterations",
       [&](GraphBuilder& g) {
         Loop(g, 0, {.sliced = {F32(g, "x", {1, 2})}}, stack_0);
       },
       "[loop] iterations is 0; expected 1 to 2147483648"},
      {"a sliced operand of another length",
       [&](GraphBuilder& g) {
         Loop(g, 3, {.sliced = {F32(g, "x", {4, 2})}}, stack_0);
       },
       "[loop] sliced \"x\" is f32(4, 2); its first dimension must be the 3 "
       "iterations"},
      {"nothing handed back",
       [&](GraphBuilder& g) {
         Loop(g, 3, {.whole = {F32(g, "x", {4})}}, nothing);
       },
       "[loop] body \"loop\" has 0 outputs; 0 are carried and summed, and "
       "there must be one"},
      {"no next content",
       [&](GraphBuilder& g) {
         Loop(g, 3, {.carried = {F32(g, "x", {4})}}, nothing);
       },
       "[loop] body \"loop\" gives no Next for carried value 0, \"x\""},
      {"results of a loop that is wrong are passed on",
       [&](GraphBuilder& g) {
         const Value x = F32(g, "x", {4});
         const LoopResults made = Loop(g, 3, {.sliced = {x}}, stack_0);
         g.Output("y", Add(made.stacked[0], x));
       },
       "[loop] sliced \"x\" is f32(4); its first dimension must be the 3 "
       "iterations"},
      {"results of a loop in a graph that is wrong already",
       [&](GraphBuilder& g) {
         const Value bad = MatMul(F32(g, "x", {4}), F32(g, "w", {4}));
         const LoopResults made = Loop(g, 3, {.sliced = {bad}}, stack_0);
         g.Output("y", Add(made.stacked[0], bad));
       },
       "[matmul]"},
      {"a next content of another type",
       [](GraphBuilder& g) {
         Loop(g, 3, {.carried = {F32(g, "x", {4})}},
              [](LoopBody& body) { body.Next(0, ReduceSum(body.carried(0))); });
       },
       "[loop] output \"reduce_sum_1\" of body \"loop\" is f32(); expected "
       "f32(4)"},
      {"a param of the body's own",
       [](GraphBuilder& g) {
         Loop(g, 3, {.carried = {F32(g, "x", {4})}}, [](LoopBody& body) {
           body.Next(0, Add(body.carried(0),
                            body.builder().Param("w", DType::kF32, {4})));
         });
       },
       "[loop] body \"loop\" has the param \"w\"; a body has inputs alone: "
       "declare it outside, and hand it in"},
      {"an error in the body",
       [](GraphBuilder& g) {
         Loop(g, 3, {.carried = {F32(g, "x", {4})}}, [](LoopBody& body) {
           body.Next(0, MatMul(body.carried(0), body.carried(0)));
         });
       },
       "[loop] [matmul]"},
      {"a value of the outer graph in the body",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {4});
         Loop(g, 3, {.carried = {x}}, [&](LoopBody& body) { body.Next(0, x); });
       },
       "[loop] body \"loop\" hands back a value that is not of its builder"},
      {"a single branch",
       [](GraphBuilder& g) {
         Cond(g, g.Input("i", DType::kI32, {}), {F32(g, "x", {4})},
              {[](CondBody& b) { return std::vector{b.operand(0)}; }});
       },
       "[cond] has 1 bodies; expected at least two"},
      {"a float index",
       [](GraphBuilder& g) {
         const auto same = [](CondBody& b) {
           return std::vector{b.operand(0)};
         };
         Cond(g, F32(g, "i", {}), {F32(g, "x", {4})}, {same, same});
       },
       "[cond] index \"i\" is f32(); expected a scalar of i32, i64 or bool"},
      {"branches of different types",
       [](GraphBuilder& g) {
         Cond(g, g.Input("i", DType::kBool, {}), {F32(g, "x", {4})},
              {[](CondBody& b) { return std::vector{b.operand(0)}; },
               [](CondBody& b) {
                 return std::vector{ReduceSum(b.operand(0))};
               }});
       },
       "[cond] output \"reduce_sum_1\" of body \"branch1\" is f32(); expected "
       "f32(4)"},
  };
  for (const Refusal& refusal : refusals) {
    INFO(refusal.what);
    GraphBuilder g("refused");
    refusal.build(g);
    const Result<Graph> graph = g.Finish();
    REQUIRE_FALSE(graph.ok());
    CHECK_MESSAGE(graph.error().message.starts_with(refusal.error),
                  graph.error().message);
  }
}

TEST_CASE("an error within a body has one place, its own") {
  GraphBuilder g("g");
  const Value x = F32(g, "x", {4});
  int line = 0;
  Loop(g, 3, {.carried = {x}}, [&](LoopBody& body) {
    line = __LINE__ + 1;
    body.Next(0, MatMul(body.carried(0), body.carried(0)));
  });
  REQUIRE(g.error());
  const std::string& said = g.error()->message;
  CAPTURE(said);
  const std::string place = StrCat("control_flow_test.cc:", line, ")");
  CHECK(said.ends_with(place));
  CHECK(said.find("(at ") == said.rfind("(at "));
}

TEST_CASE("a body whose output owns no bytes of its own is refused") {
  std::string text = ToText(*Recurrent(2));
  const auto with = [&](const char* from, const char* to) {
    std::string changed = text;
    changed.replace(changed.find(from), std::string(from).size(), to);
    const Result<Graph> graph = ParseGraph(changed);
    return graph.ok() ? std::string() : graph.error().message;
  };
  CHECK(with("output \"out2\" = copy_1", "output \"out2\" = next")
            .find("as two outputs; output a copy") != std::string::npos);
  CHECK(with("output \"out2\" = copy_1", "output \"out2\" = xs")
            .find("which owns no bytes; output a copy") != std::string::npos);
}

TEST_CASE("bodies stand in one another only so deep") {
  std::string open, close;
  for (int i = 0; i < 20; ++i) {
    open +=
        "graph \"g\" {\nx: f32(2) = input\ny: f32(2) = loop(x) {iterations=1, "
        "carried=1, sliced=0, summed=0, reverse=0, bodies=(";
    close += ")}\noutput \"o\" = y\n}";
  }
  const Result<Graph> graph = ParseGraph("stowage-ir 1\n" + open +
                                         "graph \"g\" {\nx: f32(2) = "
                                         "input\ny: f32(2) = tanh(x)\noutput "
                                         "\"o\" = y\n}" +
                                         close + "\n");
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.error().message.find("bodies no deeper than 16") !=
        std::string::npos);
}

TEST_CASE("slices that lie apart are taken as they are, others are copied") {
  const auto copies = [](bool transposed) {
    GraphBuilder g("strides");
    Value x = F32(g, "x", {3, 4, 5});
    x = transposed ? Permute(x, {0, 2, 1}) : Slice(x, 1, 1, 3);
    Loop(g, 3, {.sliced = {x}},
         [](LoopBody& body) { body.Stack(Tanh(body.sliced(0))); });
    const Result<Graph> graph = g.Finish();
    REQUIRE(graph.ok());
    int count = 0;
    for (const Node& node : graph->nodes()) {
      count += node.op == OpKind::kCopy ? 1 : 0;
    }
    return count;
  };
  CHECK(copies(false) == 0);
  CHECK(copies(true) == 1);
}

}  // namespace
}  // namespace stowage

#include "ir/builder.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace stowage {
namespace {

Value Unary(GraphBuilder& g, OpKind op, Value x,
            SourceLoc loc = SourceLoc::Current()) {
  const std::vector<Value> inputs = {x};
  return g.Emit(op, inputs, {}, loc)[0];
}

Value Binary(GraphBuilder& g, OpKind op, Value a, Value b,
             SourceLoc loc = SourceLoc::Current()) {
  const std::vector<Value> inputs = {a, b};
  return g.Emit(op, inputs, {}, loc)[0];
}

std::string FinishError(GraphBuilder& g) {
  const Result<Graph> graph = g.Finish();
  return graph.ok() ? "" : graph.error().message;
}

// The place a message ends with, for the call on line `line` of this file.
std::string At(int line) {
  return std::string(" (at ") + __FILE__ + ":" + std::to_string(line) + ")";
}

TEST_CASE("A graph holds its leaves, nodes and outputs in order") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {2, 3});
  const Value w = g.Param("w", DType::kF32, {2, 3}, Init::Ones());
  const Value h = Binary(g, OpKind::kAdd, x, w);
  const Value s = g.State("s", DType::kI64, {});
  const Value k = g.Saved("k", DType::kF16, {5});
  const Value y = g.Name("y", Unary(g, OpKind::kNeg, h));
  g.Output("result", y);
  CHECK(y.shape() == Shape{2, 3});
  CHECK(y.dim(1) == 3);
  CHECK(s.rank() == 0);
  CHECK(k.dtype() == DType::kF16);

  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(graph->name() == "net");
  CHECK(graph->num_values() == 6);
  CHECK(graph->num_nodes() == 2);
  CHECK(graph->Leaves(Role::kParam) == std::vector<ValueId>{1});
  CHECK(graph->Leaves(Role::kState) == std::vector<ValueId>{3});
  CHECK(graph->Leaves(Role::kActivation).empty());
  CHECK(graph->value(1).init == Init::Ones());
  CHECK(graph->node(0).inputs == std::vector<ValueId>{0, 1});
  CHECK(graph->node(0).results == std::vector<ValueId>{2});
  CHECK(graph->value(2).producer == 0);
  CHECK(graph->value(2).role == Role::kActivation);
  CHECK(graph->Find("y") == 5);
  CHECK(graph->Find("result") == 5);
  CHECK_FALSE(graph->Find("nothing").has_value());
  CHECK(graph->value(5).role == Role::kOutput);
}

TEST_CASE("The first error stays, with the caller's file and line") {
  GraphBuilder g("net");
  const Value a = g.Input("a", DType::kF32, {2, 3});
  const Value b = g.Input("b", DType::kF32, {4, 3});
  const Value bad = Binary(g, OpKind::kAdd, a, b);  // this line
  const int line = __LINE__ - 1;
  CHECK_FALSE(bad.ok());
  REQUIRE(g.error().has_value());
  const std::string first = g.error()->message;
  CHECK(first.starts_with("[add] "));
  CHECK(first.ends_with(At(line)));
  CHECK(first.find("f32(2, 3)") != std::string::npos);
  CHECK(first.find("f32(4, 3)") != std::string::npos);

  // Everything after it is inert: no crash, no second error.
  const Value on = Unary(g, OpKind::kNeg, bad);
  CHECK_FALSE(on.ok());
  CHECK(on.shape() == Shape{});
  CHECK(on.dtype() == DType::kF32);
  CHECK_FALSE(g.Input("c", DType::kF32, {2}).ok());
  CHECK_FALSE(g.Param("a", DType::kF32, {0}).ok());
  CHECK_FALSE(g.Name("d", on).ok());
  g.SetRole(on, Role::kGradient);
  g.Output("o", on);
  g.Fail("[here] another", SourceLoc::Current());
  CHECK(FinishError(g) == first);
}

TEST_CASE("A failed op gives as many inert results as any op has") {
  GraphBuilder g("net");
  const std::vector<Value> nothing;
  CHECK(g.Emit(OpKind::kLayerNorm, nothing, {}).size() >= 3);
  CHECK(g.error()->message.starts_with(
      "[layer_norm] takes 3 operands, was given 0"));
}

TEST_CASE("Leaves are checked where they are declared") {
  struct Row {
    const char* name;
    DType dtype;
    Shape shape;
    const char* error;
  };
  const int64_t huge = int64_t{1} << 61;
  const Row rows[] = {
      {"x",
       DType::kF32,
       {1},
       "[param] the name \"x\" is taken in graph \"net\"; names must be "
       "unique"},
      {"",
       DType::kF32,
       {1},
       "[param] the name is empty; every param needs a name of its own"},
      {"w",
       DType::kF32,
       {1, 1, 1, 1, 1, 1, 1, 1, 1},
       "[param] \"w\" has rank 9; at most 8 is supported"},
      {"w",
       DType::kF32,
       {3, 0},
       "[param] \"w\" has shape (3, 0); every dimension must be at least 1 and "
       "the bytes must fit 64 bits"},
      {"w",
       DType::kF32,
       {-1},
       "[param] \"w\" has shape (-1); every dimension must be at least 1 and "
       "the bytes must fit 64 bits"},
      {"w",
       DType::kU8,
       {huge, 4},
       "[param] \"w\" has shape (2305843009213693952, 4); every dimension must "
       "be at least 1 and the bytes must fit 64 bits"},
      {"w",
       DType::kF32,
       {huge},
       "[param] \"w\" has shape (2305843009213693952); every dimension must be "
       "at least 1 and the bytes must fit 64 bits"},
  };
  for (const Row& row : rows) {
    GraphBuilder g("net");
    g.Input("x", DType::kF32, {1});
    CHECK_FALSE(g.Param(row.name, row.dtype, row.shape).ok());
    const int line = __LINE__ - 1;
    CHECK(FinishError(g) == row.error + At(line));
  }
}

TEST_CASE("Rank 8 and the largest size that can be counted are fine") {
  GraphBuilder g("net");
  CHECK(g.Input("a", DType::kF32, {1, 2, 1, 2, 1, 2, 1, 2}).ok());
  CHECK(g.Input("b", DType::kU8, {std::numeric_limits<int64_t>::max()}).ok());
  CHECK(FinishError(g).empty());
}

TEST_CASE("Values of other graphs, or of none, are refused") {
  GraphBuilder g("net");
  GraphBuilder other("other");
  const Value x = g.Input("x", DType::kF32, {1});
  SUBCASE("operand of another builder") {
    CHECK_FALSE(
        Binary(g, OpKind::kAdd, x, other.Input("y", DType::kF32, {1})).ok());
    CHECK(g.error()->message.starts_with(
        "[add] operand 1 is not a value of graph \"net\""));
  }
  SUBCASE("no operand at all") {
    CHECK_FALSE(Unary(g, OpKind::kNeg, Value()).ok());
    CHECK(g.error()->message.starts_with(
        "[neg] operand 0 is not a value of graph \"net\""));
  }
  SUBCASE("output of another builder") {
    g.Output("y", other.Input("y", DType::kF32, {1}));
    CHECK(g.error()->message.starts_with(
        "[output] \"y\" is given a value that is not of graph \"net\""));
  }
}

TEST_CASE("Names of results are fresh, and can be changed once taken or not") {
  GraphBuilder g("net");
  const Value x = g.Input("neg_2", DType::kF32, {1});
  const Value a = Unary(g, OpKind::kNeg, x);
  const Value b = Unary(g, OpKind::kNeg, a);
  CHECK(g.info(a).name == "neg_1");
  CHECK(g.info(b).name == "neg_3");  // neg_2 is taken
  CHECK(g.Name("neg_1", a).ok());    // its own name
  CHECK(g.Name("other", a).ok());
  CHECK(g.Name("neg_1", b).ok());  // free again
  CHECK(g.Find("other")->id() == a.id());
  CHECK_FALSE(g.Find("neg_3").has_value());
  CHECK_FALSE(g.Name("neg_2", b).ok());
  CHECK(g.error()->message.starts_with(
      "[name] \"neg_2\" for value \"neg_1\" is empty or taken in graph "
      "\"net\"; names must be unique"));
}

TEST_CASE("Results can be named as they are made") {
  GraphBuilder g("net");
  const std::vector<Value> x = {g.Input("x", DType::kF32, {3})};
  const Attrs attrs = {{"axis", int64_t{0}},
                       {"sizes", std::vector<int64_t>{1, 2}}};
  const std::vector<std::string> names = {"a", "b"};
  const std::vector<Value> parts = g.EmitNamed(OpKind::kSplit, x, attrs, names);
  REQUIRE(parts.size() == 2);
  CHECK(g.info(parts[0]).name == "a");
  CHECK(g.info(parts[1]).name == "b");
  SUBCASE("a name that is taken") {
    const std::vector<std::string> taken = {"c", "a"};
    g.EmitNamed(OpKind::kSplit, x, attrs, taken);
    CHECK(g.error()->message.starts_with(
        "[split] the name \"a\" for result 1 is empty or taken in graph "
        "\"net\"; names must be unique"));
  }
  SUBCASE("too few names") {
    const std::vector<std::string> few = {"c"};
    g.EmitNamed(OpKind::kSplit, x, attrs, few);
    CHECK(g.error()->message.starts_with(
        "[split] gives 2 results, was given 1 names"));
  }
}

TEST_CASE("Outputs have names of their own or their values'") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {1});
  const Value y = g.Name("y", Unary(g, OpKind::kNeg, x));
  g.Output("y", y);
  g.Output("again", y);
  g.Output("given", x);
  CHECK_FALSE(g.error().has_value());
  CHECK(g.info(x).role == Role::kInput);
  SUBCASE("the name of another value") {
    g.Output("x", y);
    CHECK(g.error()->message.starts_with(
        "[output] the name \"x\" is another value's"));
  }
  SUBCASE("the name of another output") {
    g.Output("again", y);
    CHECK(g.error()->message.starts_with(
        "[output] there is an output \"again\" already"));
  }
  SUBCASE("a value may not take an output's name either") {
    CHECK_FALSE(g.Name("again", x).ok());
    CHECK(g.error()->message.starts_with("[name] \"again\" for value \"x\""));
  }
  SUBCASE("nothing wrong") { CHECK(FinishError(g).empty()); }
}

TEST_CASE("An output names its value, unless that has a name already") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {1});
  const Value fresh = Unary(g, OpKind::kNeg, x);
  const Value named = g.Name("named", Unary(g, OpKind::kNeg, x));
  const std::vector<Value> operands = {x};
  const std::vector<std::string> names = {"emitted"};
  const Value emitted = g.EmitNamed(OpKind::kNeg, operands, {}, names)[0];
  g.Output("a", fresh);
  g.Output("b", named);
  g.Output("c", emitted);
  g.Output("d", x);
  g.Output("e", fresh);  // "a" by now
  CHECK(g.info(fresh).name == "a");
  CHECK(g.info(named).name == "named");
  CHECK(g.info(emitted).name == "emitted");
  CHECK(g.info(x).name == "x");
  CHECK(FinishError(g).empty());
}

TEST_CASE("An output keeps its name when its value gets another") {
  GraphBuilder g("net");
  const Value y = Unary(g, OpKind::kNeg, g.Input("x", DType::kF32, {1}));
  g.Output("loss", y);
  g.Name("mean", y);
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(graph->Find("loss") == y.id());
  CHECK(graph->Find("mean") == y.id());
  REQUIRE(graph->outputs().size() == 1);
  CHECK(graph->outputs()[0].name == "loss");
}

TEST_CASE("Later nodes carry the phase and origin that were set") {
  GraphBuilder g("net");
  const Value x = g.Param("x", DType::kF32, {1});
  const Value y = g.Name("y", Unary(g, OpKind::kNeg, x));
  g.SetOrigin(Phase::kBackward, "y");
  const Value dx = Unary(g, OpKind::kNeg, y);
  g.SetRole(dx, Role::kGradient);
  g.SetOrigin(Phase::kUpdate, "x");
  const std::vector<Value> operands = {x, dx, g.Input("lr", DType::kF32, {})};
  const Value x2 = g.Emit(OpKind::kSgdUpdate, operands, {{"decay", 0.0}})[0];
  CHECK(g.info(x2).role == Role::kParam);
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(graph->Describe(0) == "\"y\"");
  CHECK(graph->Describe(1) == "backward of \"y\"");
  CHECK(graph->Describe(2) == "update of \"x\"");
  CHECK(graph->value(graph->node(1).results[0]).role == Role::kGradient);
}

TEST_CASE("Values keep the line that made them, or that a pass names") {
  GraphBuilder g("net");
  const int line = __LINE__ + 1;
  const Value x = g.Param("x", DType::kF32, {1});
  const Value y = Unary(g, OpKind::kNeg, x);
  g.SetOrigin(Phase::kBackward, "y", {"model.cc", 7});
  const Value dy = Unary(g, OpKind::kNeg, y);
  const Value state = g.State("x.m", DType::kF32, {1});
  g.SetOrigin(Phase::kForward, "");
  const Value nobody = Unary(g, OpKind::kNeg, y);
  CHECK(g.info(x).source.line == line);
  CHECK(std::string(g.info(x).source.file).ends_with("builder_test.cc"));
  CHECK(g.info(y).source.is_known());
  for (const Value value : {dy, state}) {
    CHECK(g.info(value).source.line == 7);
    CHECK(std::string(g.info(value).source.file) == "model.cc");
  }
  CHECK_FALSE(g.info(nobody).source.is_known());
}

TEST_CASE("A value that is updated and read afterwards is the user's error") {
  GraphBuilder g("net");
  const Value w = g.Param("w", DType::kF32, {1});
  const std::vector<Value> operands = {w, g.Input("g", DType::kF32, {1}),
                                       g.Input("lr", DType::kF32, {})};
  g.Emit(OpKind::kSgdUpdate, operands, {{"decay", 0.0}});
  g.Name("y", Unary(g, OpKind::kNeg, w));
  CHECK(FinishError(g).starts_with(
      "[ir] node 1 (neg \"y\") reads \"w\", an old content of \"w\""));
}

TEST_CASE("An error of one's own is kept like the builder's") {
  GraphBuilder g("net");
  SUBCASE("with a place") {
    CHECK_FALSE(g.Fail("[nn] no heads", SourceLoc{"model.cc", 12}).ok());
    CHECK(FinishError(g) == "[nn] no heads (at model.cc:12)");
  }
  SUBCASE("without one") {
    CHECK_FALSE(g.Fail("[nn] no heads", SourceLoc{}).ok());
    CHECK(FinishError(g) == "[nn] no heads");
  }
  SUBCASE("with a code") {
    g.Fail(Error{ErrorCode::kUnsupported, "[nn] too new"});
    CHECK(g.Finish().error().code == ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace stowage

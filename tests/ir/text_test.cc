#include "ir/text.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/composites.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "tests/support/graph_peer.h"
#include "tests/support/random_control_flow.h"

namespace stowage {
namespace {

// A training step in small: every role, every kind of attribute, views, ops of
// two and three results, all phases, names that need quotes.
constexpr std::string_view kStep = R"(stowage-ir 1
graph "a \"step\"" {
  x: f32(4, 6) = input
  labels: i32(4) = input
  w: f32(6, 10) = param {init=normal(0.02)}
  b: f32(10) = param
  gamma: f32(10) = param {init=ones}
  beta: f32(10) = param {init=uniform(0.5)}
  cut: f32(10) = param {init=truncated_normal(0.25)}
  scale: f32() = state {init=constant(65536.0)}
  turn: f32(2, 3) = param {init=orthogonal(1.5)}
  w.m: f32(6, 10) = state
  w.v: f32(6, 10) = state {init=ones}
  kept: f16(2, 3) = saved
  lr: f32() = input
  step: i64() = input
  "the table": f32(2) = constant() {dtype=f32, shape=[2], data=0x0000803f000000c0}
  low: f32(4, 10) = fill() {dtype=f32, shape=[4, 10], value=-inf}
  h/1: f32(4, 10) = matmul(x, w) {transpose_a=0, transpose_b=0}
  b:wide: f32(4, 10) = broadcast(b) {shape=[4, 10]}
  "h 2": f32(4, 10) = add(h/1, b:wide)
  y: f32(4, 10), mean: f32(4), rstd: f32(4) = layer_norm("h 2", gamma, beta) {eps=1e-05}
  capped: f32(4, 10) = maximum(y, low)
  left: f32(4, 4), right: f32(4, 6) = split(capped) {axis=1, sizes=[4, 6]}
  loss: f32(), lse: f32(4) = cross_entropy(capped, labels)
  every: f32(4, 2) = slice(left) {axis=1, start=0, end=4, step=2}
  every.t: f32(2, 4) = permute(every) {order=[1, 0]}
  flat: f32(24) = reshape(x) {shape=[24]}
  wide: f64(2, 3) = cast(kept) {dtype=f64}
  conv: f32(2, 4), scratch: f32(8) = stand_in(x, w) {dtype=f32, ranks=[2, 1], dims=[2, 4, 8], flops=96.0}
  dloss: f32() gradient = fill() {dtype=f32, shape=[], value=1.0} @backward("loss")
  dlogits: f32(4, 10) gradient = cross_entropy_grad(capped, labels, lse, dloss) @backward("loss")
  dw: f32(6, 10) gradient = matmul(x, dlogits) {transpose_a=1, transpose_b=0} @backward("h/1")
  w.new: f32(6, 10), m.new: f32(6, 10), v.new: f32(6, 10) = adamw_update(w, w.m, w.v, dw, lr, step) {beta1=0.9, beta2=0.999, eps=1e-08, decay=-0.0} @update("w")
  note: f32(2) = neg("the table") @forward("odd")
  norm: f32() = sum_squares(dw) @backward
  w.next: f32(10, 6) = permute(w.new) {order=[1, 0]}
  output "loss" = loss
  output "out: \x01\\" = y
  output "note" = note
  output "dw" = dw
}
)";

Graph Parse(std::string_view text) {
  Result<Graph> graph = ParseGraph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// The error that `text` gives; "" when it parses.
std::string ErrorOf(std::string_view text) {
  const Result<Graph> graph = ParseGraph(text);
  return graph.ok() ? "" : graph.error().message;
}

std::string InGraph(std::string_view lines) {
  return "stowage-ir 1\ngraph \"g\" {\n" + std::string(lines) + "\n}\n";
}

Role RoleOf(const Graph& graph, std::string_view name) {
  return graph.value(graph.Find(name).value()).role;
}

TEST_CASE("A small graph prints as expected") {
  GraphBuilder g("mlp");
  const Value x = g.Input("x", DType::kF32, {32, 64});
  const Value w = g.Param("w", DType::kF32, {64, 10}, Init::Normal(0.02));
  const std::vector<Value> operands = {x, w};
  const Value y =
      g.Emit(OpKind::kMatMul, operands,
             {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}})[0];
  g.Output("y", g.Name("logits", y));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(ToText(*graph) ==
        "stowage-ir 1\n"
        "graph \"mlp\" {\n"
        "  x: f32(32, 64) = input\n"
        "  w: f32(64, 10) = param {init=normal(0.02)}\n"
        "  logits: f32(32, 10) = matmul(x, w) {transpose_a=0, transpose_b=0}\n"
        "  output \"y\" = logits\n"
        "}\n");
}

TEST_CASE("What was parsed prints as it was written") {
  CHECK(ToText(Parse(kStep)) == kStep);
}

TEST_CASE("What is printed parses back equal") {
  const Graph graph = Parse(kStep);
  CHECK(Equal(graph, Parse(ToText(graph))));
}

TEST_CASE("Names that are no UTF-8 are printed as escapes and parsed back") {
  struct Row {
    std::string name, text;
  };
  const Row rows[] = {
      {"w\xff\xfe", "\"w\\xff\\xfe\""},
      {"w\xc3", "\"w\\xc3\""},                    // cut short
      {"w\xc0\x80", "\"w\\xc0\\x80\""},           // overlong
      {"w\xe0\x9f\xbf", "\"w\\xe0\\x9f\\xbf\""},  // likewise
      {"w\xed\xa0\x80", "\"w\\xed\\xa0\\x80\""},  // a surrogate
      {"w\xf4\x90\x80\x80", "\"w\\xf4\\x90\\x80\\x80\""},
      {"\x80"
       "a",
       "\"\\x80"
       "a\""},
      {"w\xc3\xa9", "\"w\xc3\xa9\""},
      {"\xe2\x82\xac", "\"\xe2\x82\xac\""},
      {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    GraphBuilder g("g");
    g.Output("y", Neg(g.Input(row.name, DType::kF32, {2})));
    const Result<Graph> graph = g.Finish();
    REQUIRE(graph.ok());
    const std::string text = ToText(*graph);
    CHECK(text.find("  " + row.text + ": f32(2) = input\n") !=
          std::string::npos);
    CHECK(Equal(*graph, Parse(text)));
  }
}

TEST_CASE("What lies in the host's memory is printed and parsed") {
  constexpr std::string_view kText =
      "stowage-ir 1\n"
      "graph \"g\" {\n"
      "  w: f32(3) = param\n"
      "  p: f32(2, 3) = host_param {init=ones}\n"
      "  v: f32(3) = host_state {init=ones}\n"
      "  g: f32(3) = input\n"
      "  lr: f32() = input\n"
      "  kept: f32(3) = offload(g)\n"
      "  again: f32(3) = reload(kept)\n"
      "  v_now: f32(3) = reload(v)\n"
      "  w2: f32(3), v2: f32(3) = momentum_update(w, v_now, again, lr) "
      "{momentum=0.9, decay=0.0}\n"
      "  v3: f32(3) = offload_update(v, v2)\n"
      "}\n";
  const Graph graph = Parse(kText);
  CHECK(ToText(graph) == kText);
  CHECK(RoleOf(graph, "p") == Role::kParam);
  CHECK(RoleOf(graph, "v") == Role::kState);
  CHECK(RoleOf(graph, "v3") == Role::kState);
  CHECK(RoleOf(graph, "v2") == Role::kActivation);
  for (const ValueInfo& value : graph.values()) {
    const bool expected = value.name == "p" || value.name == "v" ||
                          value.name == "kept" || value.name == "v3";
    INFO(value.name);
    CHECK(value.on_host == expected);
  }
  Graph other = graph;
  GraphTestPeer::Values(other)[1].on_host = false;
  CHECK_FALSE(Equal(graph, other));
}

TEST_CASE("Former names of ops and attributes are read for one release") {
  const auto former = [](std::string text) {
    for (const auto& [name, before] :
         {std::pair<std::string_view, std::string_view>("= offload(",
                                                        "= stash("),
          {"= offload_update(", "= stash_update("},
          {"= reload(", "= fetch("},
          {"{iterations=", "{trips="}}) {
      for (size_t at = 0; (at = text.find(name, at)) != std::string::npos;) {
        text.replace(at, name.size(), before);
      }
    }
    return text;
  };
  const Graph host = Parse(
      "stowage-ir 1\n"
      "graph \"g\" {\n"
      "  v: f32(3) = host_state {init=ones}\n"
      "  g: f32(3) = input\n"
      "  kept: f32(3) = offload(g)\n"
      "  again: f32(3) = reload(kept)\n"
      "  v2: f32(3) = offload_update(v, again)\n"
      "}\n");
  CHECK(former(ToText(host)).find("= stash_update(") != std::string::npos);
  CHECK(Equal(Parse(former(ToText(host))), host));
  int loops = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Graph graph = testing::MakeRandomControlFlow(seed);
    const std::string text = former(ToText(graph));
    loops += text.find("{trips=") != std::string::npos;
    CHECK(Equal(Parse(text), graph));
  }
  CHECK(loops > 5);
}

TEST_CASE("A cache is a leaf that a node may update") {
  GraphBuilder g("read");
  const Value k = g.Cache("k", DType::kF32, {4, 2});
  const Value x = g.Input("x", DType::kF32, {1, 2});
  const Value at = g.Input("at", DType::kI32, {});
  g.Output("sum", ReduceSum(g.Name("now", SliceUpdate(k, x, 0, at))));
  const auto built = g.Finish();
  REQUIRE(built.ok());
  const Graph parsed = Parse(ToText(*built));
  CHECK(Equal(parsed, *built));
  CHECK(ToText(*built).find("  k: f32(4, 2) = cache\n") != std::string::npos);
  CHECK(RoleOf(parsed, "k") == Role::kCache);
  CHECK(parsed.Leaves(Role::kCache) == std::vector<ValueId>{0});
  CHECK(RoleOf(parsed, "now") == Role::kCache);
}

TEST_CASE("Parsing keeps roles, phases, origins, inits and attributes") {
  const Graph graph = Parse(kStep);
  CHECK(graph.name() == "a \"step\"");
  CHECK(RoleOf(graph, "x") == Role::kInput);
  CHECK(RoleOf(graph, "w") == Role::kParam);
  CHECK(RoleOf(graph, "w.m") == Role::kState);
  CHECK(RoleOf(graph, "kept") == Role::kSaved);
  CHECK(RoleOf(graph, "the table") == Role::kConstant);
  CHECK(RoleOf(graph, "h/1") == Role::kActivation);
  CHECK(RoleOf(graph, "loss") == Role::kOutput);
  CHECK(RoleOf(graph, "dw") == Role::kGradient);
  CHECK(RoleOf(graph, "w.new") == Role::kParam);
  CHECK(RoleOf(graph, "v.new") == Role::kState);

  const auto value = [&](std::string_view name) {
    return graph.value(graph.Find(name).value());
  };
  CHECK(value("w").init == Init::Normal(0.02));
  CHECK(value("b").init == Init::Zeros());
  CHECK(value("w.v").init == Init::Ones());
  CHECK(value("beta").init == Init::Uniform(0.5));
  CHECK(value("rstd").result == 2);

  const auto node = [&](std::string_view name) {
    return graph.node(value(name).producer);
  };
  CHECK(node("h/1").phase == Phase::kForward);
  CHECK(node("h/1").origin.empty());
  CHECK(node("dw").phase == Phase::kBackward);
  CHECK(node("dw").origin == "h/1");
  CHECK(node("w.new").phase == Phase::kUpdate);
  CHECK(node("norm").phase == Phase::kBackward);
  CHECK(node("norm").origin.empty());
  CHECK(node("note").origin == "odd");
  CHECK(node("w.next").origin.empty());

  CHECK(node("the table").attrs.Data("data") ==
        std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8));
  CHECK(node("the table").attrs.Type("dtype") == DType::kF32);
  CHECK(node("left").attrs.Ints("sizes") == std::vector<int64_t>{4, 6});
  CHECK(node("dloss").attrs.Ints("shape").empty());
  CHECK(node("every").attrs.Int("end") == 4);
  CHECK(node("y").attrs.Float("eps") == 1e-5);
  CHECK(std::signbit(node("w.new").attrs.Float("decay")));

  REQUIRE(graph.outputs().size() == 4);
  CHECK(graph.outputs()[1].name == "out: \x01\\");
  CHECK(graph.value(graph.outputs()[1].value).name == "y");
}

TEST_CASE("Reals survive the text bit for bit, and never read as integers") {
  std::vector<double> reals = {
      0.0,    -0.0, 1.0,    -3.0,   0.1,
      1e20,   1e22, 1e-300, 5e-324, 123456789012345678.0,
      1.0 / 3};
  using Limits = std::numeric_limits<double>;
  reals.insert(reals.end(), {Limits::max(), Limits::min(), Limits::infinity(),
                             -Limits::infinity(), Limits::quiet_NaN(),
                             std::copysign(Limits::quiet_NaN(), -1.0)});
  std::mt19937_64 random(7);
  while (reals.size() < 300) {
    const double real = std::bit_cast<double>(random());
    if (std::isfinite(real)) reals.push_back(real);
  }
  GraphBuilder g("reals");
  for (const double real : reals) {
    g.Emit(OpKind::kFill, {},
           {{"dtype", DType::kF64},
            {"shape", std::vector<int64_t>{1}},
            {"value", real}});
  }
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  const Graph parsed = Parse(ToText(*graph));
  REQUIRE(parsed.num_nodes() == static_cast<int>(reals.size()));
  for (NodeId n = 0; n < parsed.num_nodes(); ++n) {
    const double real = reals[static_cast<size_t>(n)];
    CAPTURE(real);
    CHECK(std::bit_cast<uint64_t>(parsed.node(n).attrs.Float("value")) ==
          std::bit_cast<uint64_t>(real));
  }
  CHECK(Equal(*graph, parsed));
}

TEST_CASE("Integers survive at the ends of their range, and not beyond") {
  const std::string text = InGraph(
      "  x: f32(1) = input\n"
      "  s: i64() = input\n"
      "  low: f32(1) = dropout(x, s, s) {p=0.5, id=-9223372036854775808}\n"
      "  high: f32(1) = dropout(x, s, s) {p=0.5, id=9223372036854775807}");
  const Graph graph = Parse(text);
  CHECK(graph.node(0).attrs.Int("id") == std::numeric_limits<int64_t>::min());
  CHECK(graph.node(1).attrs.Int("id") == std::numeric_limits<int64_t>::max());
  CHECK(ToText(graph) == text);
  CHECK(ErrorOf(InGraph("  x: f32(1) = input\n"
                        "  y: f32(1) = neg(x) {a=9223372036854775808}")) ==
        "[ir] line 4, column 25: 9223372036854775808 does not fit 64 bits");
}

TEST_CASE("Any bytes can be a name") {
  const std::vector<std::string> names = {"plain",
                                          "with space",
                                          "9lives",
                                          "ends:",
                                          "a:b",
                                          "output",
                                          "\"quoted\"",
                                          "back\\slash",
                                          "line\nbreak",
                                          "tab\t",
                                          std::string("nul\0", 4),
                                          "\x7f",
                                          "na\xc3\xafve",
                                          "\xff",
                                          "param",
                                          "-dash",
                                          "{",
                                          "graph"};
  GraphBuilder g("names\n");
  Value last;
  for (const std::string& name : names) {
    last = g.Input(name, DType::kF32, {2});
    const std::vector<Value> operands = {last};
    g.Name(name + "!", g.Emit(OpKind::kNeg, operands, {})[0]);
  }
  g.Output("\t", last);
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(Equal(*graph, Parse(ToText(*graph))));
}

TEST_CASE("Names that the builder would have made are no trouble in a text") {
  // Fresh names of split's results are split_1 and split_2: here swapped.
  const std::string text = InGraph(
      "  x: f32(4) = input\n"
      "  split_2: f32(1), split_1: f32(3) = split(x) {axis=0, "
      "sizes=[1, 3]}");
  CHECK(ToText(Parse(text)) == text);
}

TEST_CASE("A role that is not the usual one is printed and kept") {
  GraphBuilder g("roles");
  const Value x = g.Input("x", DType::kF32, {2});
  const std::vector<Value> operands = {x};
  const Value y = g.Name("y", g.Emit(OpKind::kNeg, operands, {})[0]);
  g.Output("y", y);
  g.SetRole(y, Role::kActivation);
  const Value z = g.Name("z", g.Emit(OpKind::kNeg, operands, {})[0]);
  g.SetRole(z, Role::kOutput);
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(ToText(*graph).find("  y: f32(2) activation = neg(x)\n"
                            "  z: f32(2) output = neg(x)\n") !=
        std::string::npos);
  CHECK(Equal(*graph, Parse(ToText(*graph))));
}

TEST_CASE("A graph that needed copies round-trips with them") {
  // Softmax takes only contiguous operands; the transpose is not.
  const std::string text = InGraph(
      "  x: f32(3, 5) = input\n"
      "  t: f32(5, 3) = permute(x) {order=[1, 0]}\n"
      "  y: f32(5, 3) = softmax(t)\n"
      "  z: f32(5, 3) = log_softmax(t)\n"
      "  late: f32(1) = input");
  const Graph graph = Parse(text);
  CHECK(ToText(graph) == InGraph("  x: f32(3, 5) = input\n"
                                 "  t: f32(5, 3) = permute(x) {order=[1, 0]}\n"
                                 "  t.contiguous: f32(5, 3) = copy(t)\n"
                                 "  y: f32(5, 3) = softmax(t.contiguous)\n"
                                 "  z: f32(5, 3) = log_softmax(t.contiguous)\n"
                                 "  late: f32(1) = input"));
  CHECK(Equal(graph, Parse(ToText(graph))));
}

TEST_CASE("Blank lines and carriage returns do not matter") {
  const Graph graph = Parse(
      "stowage-ir 1\r\n\r\ngraph\t\"g\" {\r\n\r\n x :f32( 2 ) = input \r\n"
      "\"y\":f32(2)=neg( x ){ }@backward( \"x\" )\r\n output \"o\"=y\r\n}\r\n");
  CHECK(ToText(graph) == InGraph("  x: f32(2) = input\n"
                                 "  y: f32(2) = neg(x) @backward(\"x\")\n"
                                 "  output \"o\" = y"));
}

TEST_CASE("Mistakes in a text are reported with line and column") {
  struct Row {
    const char* text;
    const char* error;
  };
  const Row rows[] = {
      {"", "[ir] line 1, column 1: a graph's text opens with \"stowage-ir 1\""},
      {"graph \"g\" {}",
       "[ir] line 1, column 1: a graph's text opens with \"stowage-ir 1\""},
      {"stowage-ir 2\n",
       "[ir] line 1, column 12: this is version \"2\" of the text form; this "
       "build reads version 1"},
      {"stowage-ir 1",
       "[ir] line 1, column 13: expected graph, found the end of the text"},
      {"stowage-ir 1 graph",
       "[ir] line 1, column 14: expected the end of the line, found \"g\""},
      {"stowage-ir 1\nplan \"g\" {",
       "[ir] line 2, column 1: expected graph, its quoted name and \"{\""},
      {"stowage-ir 1\ngraph g {",
       "[ir] line 2, column 7: expected a quoted name, found \"g\""},
      {"stowage-ir 1\ngraph \"g {\n}",
       "[ir] line 2, column 7: this quoted name has no end on its line"},
      {"stowage-ir 1\ngraph \"\\q\" {\n}",
       "[ir] line 2, column 8: unknown escape; there are \\\", \\\\, \\n and "
       "\\x with two hexadecimal digits"},
      {"stowage-ir 1\ngraph \"\\x0",
       "[ir] line 2, column 8: unknown escape; there are \\\", \\\\, \\n and "
       "\\x with two hexadecimal digits"},
      {"stowage-ir 1\ngraph \"g\" {\n",
       "[ir] line 3, column 1: expected a value's name, found the end of the "
       "text"},
      {"stowage-ir 1\ngraph \"g\" {\n}\nmore",
       "[ir] line 4, column 1: expected nothing after the graph, found \"m\""},
  };
  for (const Row& row : rows) CHECK(ErrorOf(row.text) == row.error);
}

TEST_CASE("Mistakes in a statement are reported with line and column") {
  struct Row {
    const char* line;   // line 5 of a text whose lines 3 and 4 declare x and w
    const char* error;  // from column on
  };
  const Row rows[] = {
      {"y", "column 2: expected \":\", found the end of the line"},
      {"?", "column 1: expected a value's name, found \"?\""},
      {"y: f31(3) = input", "column 4: \"f31\" is not an element type"},
      {"y: f32 = input", "column 8: expected \"(\", found \"=\""},
      {"y: f32(3 = input", "column 10: expected \")\", found \"=\""},
      {"y: f32(a) = input", "column 8: expected an integer, found \"a\""},
      {"y: f32(3.0) = input", "column 8: \"3.0\" is not an integer"},
      {"y: f32(0) = input",
       "column 1: [input] \"y\" has shape (0); every dimension must be at "
       "least 1 and the bytes must fit 64 bits"},
      {"y: f32(4294967296, 4294967296) = param",
       "column 1: [param] \"y\" has shape (4294967296, 4294967296); every "
       "dimension must be at least 1 and the bytes must fit 64 bits"},
      {"y: f32(1, 1, 1, 1, 1, 1, 1, 1, 1) = state",
       "column 1: [state] \"y\" has rank 9; at most 8 is supported"},
      {"x: f32(3) = input",
       "column 1: [input] the name \"x\" is taken in graph \"g\"; names must "
       "be unique"},
      {"\"\": f32(3) = input",
       "column 1: [input] the name is empty; every input needs a name of its "
       "own"},
      {"y: f32(3) = weight",
       "column 13: \"weight\" is not param, input, saved, state, "
       "host_param, host_state or cache, nor an op followed by its operands in "
       "parentheses"},
      {"y: f32(3) = gradient",
       "column 13: \"gradient\" is not param, input, saved, state, "
       "host_param, host_state or cache, nor an op followed by its operands in "
       "parentheses"},
      {"y: f32(3) output = input",
       "column 20: a leaf has one role: the word after \"=\""},
      {"y: f32(3), z: f32(3) = input",
       "column 29: expected \"(\" and operands, found the end of the line"},
      {"y: f32(3) = input {init=ones}",
       "column 19: expected the end of the line: only params and states have "
       "init, found \"{\""},
      {"y: f32(3) = param {scale=1.0}",
       "column 20: unknown attribute \"scale\" of a leaf; there is only init"},
      {"y: f32(3) = param {init=random}",
       "column 25: unknown init \"random\"; there are zeros, ones, "
       "normal(stddev), uniform(bound), truncated_normal(stddev), "
       "orthogonal(gain) and constant(value)"},
      {"y: f32(3) = param {init=normal(x)}",
       "column 32: \"x\" is not a number"},
      {"y: f32(3) = param {init=normal(1e999)}",
       "column 32: 1e999 does not fit a double"},
      {"y: f32(2, 3) best = neg(x)", "column 14: \"best\" is not a role"},
      {"y: f32(2, 3) = negate(x)", "column 16: there is no op \"negate\""},
      {"y: f32(2, 3) = neg(z)", "column 20: no value is called \"z\" so far"},
      {"y: f32(2, 3) = neg(y)", "column 20: no value is called \"y\" so far"},
      {"y: f32(2, 3) = neg(x",
       "column 21: expected \")\", found the end of the line"},
      {"y: f32(2, 3) = neg(x) z",
       "column 23: expected the end of the line, found \"z\""},
      {"y: f32(2, 3) = neg()",
       "column 16: [neg] takes 1 operands, was given 0"},
      {"y: f32(2, 4) = neg(x)",
       "column 4: \"y\" is said to be f32(2, 4); neg of these operands gives "
       "f32(2, 3)"},
      {"y: f32(2, 3), z: f32(2) = neg(x)",
       "column 27: [neg] gives 1 results, was given 2 names"},
      {"w: f32(2, 3) = neg(x)",
       "column 16: [neg] the name \"w\" for result 0 is empty or taken in "
       "graph \"g\"; names must be unique"},
      {"y: f32(1, 3), y: f32(1, 3) = split(x) {axis=0, sizes=[1, 1]}",
       "column 30: [split] the name \"y\" for result 1 is empty or taken in "
       "graph \"g\"; names must be unique"},
      {"y: f32(2, 3) = neg(x) {a}", "column 25: expected \"=\", found \"}\""},
      {"y: f32(2, 3) = neg(x) {a=}",
       "column 26: expected an attribute's value, found \"}\""},
      {"y: f32(2, 3) = neg(x) {a=1, a=1}",
       "column 29: attribute \"a\" is given twice"},
      {"y: f32(2, 3) = neg(x) {a=f99}", "column 26: \"f99\" is not a number"},
      {"y: f32(2, 3) = neg(x) {a=infinity}",
       "column 26: \"infinity\" is not a number"},
      {"y: f32(2, 3) = neg(x) {a=0x123}",
       "column 28: bytes need two hexadecimal digits each; here are 3 digits"},
      {"y: f32(2, 3) = neg(x) {a=[1,]}",
       "column 29: expected an integer, found \"]\""},
      {"y: f32(2, 3) = neg(x) @sideways",
       "column 24: \"sideways\" is not a phase; there are forward, backward "
       "and update"},
      {"y: f32(2, 3) = neg(x) @backward(w)",
       "column 33: expected a quoted name, found \"w\""},
      {"output loss = x", "column 8: expected a quoted name, found \"l\""},
      {"output \"loss\" = z", "column 17: no value is called \"z\" so far"},
      {"output \"w\" = x",
       "column 8: [output] the name \"w\" is another value's; an output's "
       "name must be its value's or new"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    CHECK(ErrorOf(InGraph(std::string("x: f32(2, 3) = input\n"
                                      "w: f32(2, 3) = input\n") +
                          row.line)) ==
          std::string("[ir] line 5, ") + row.error);
  }
}

TEST_CASE("An op's own complaint is passed on with line and column") {
  const std::string error =
      ErrorOf(InGraph("x: f32(2, 3) = input\n"
                      "y: f32(2, 2) = matmul(x, x) {transpose_a=0, "
                      "transpose_b=0}"));
  CHECK(error.starts_with("[ir] line 4, column 16: [matmul] "));
  CHECK(error.find("(2, 3)") != std::string::npos);
}

TEST_CASE("Attributes of the wrong kind are an error, not a crash") {
  for (const char* attrs :
       {"", "{axis=0.5, sizes=[1, 1]}", "{axis=0, sizes=1}",
        "{axis=0, sizes=0x0000}", "{axis=f32, sizes=[2]}",
        "{axis=-7, sizes=[2]}", "{axis=0, sizes=[]}",
        "{axis=0, sizes=[9223372036854775807, 9223372036854775807]}"}) {
    CAPTURE(attrs);
    CHECK(ErrorOf(InGraph("x: f32(2, 3) = input\n"
                          "y: f32(2, 3) = split(x) " +
                          std::string(attrs))) != "");
  }
}

TEST_CASE("What only the whole graph shows is an error too") {
  CHECK(ErrorOf(InGraph("w: f32(2) = param\n"
                        "g: f32(2) = input\n"
                        "lr: f32() = input\n"
                        "w.new: f32(2) = sgd_update(w, g, lr) {decay=0.0}\n"
                        "y: f32(2) = neg(w)")) ==
        "[ir] node 1 (neg \"y\") reads \"w\", an old content of \"w\", which "
        "node 0 (sgd_update \"w.new\") overwrites; read the update's result, "
        "or read earlier");
}

// Deterministic damage to good texts: whatever comes of it, the parser answers.
TEST_CASE("Damaged texts never crash the parser") {
  const std::string_view pieces[] = {"(",
                                     ")",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     "=",
                                     "\"",
                                     "\\",
                                     "\n",
                                     "@",
                                     "-",
                                     "0",
                                     "1",
                                     "-1",
                                     "9999999999999999999",
                                     "0x",
                                     "0x00",
                                     "nan",
                                     "-inf",
                                     "1e308",
                                     "f32",
                                     "bool",
                                     "x",
                                     "w",
                                     "w.new",
                                     "param",
                                     "output",
                                     "constant",
                                     "update",
                                     "axis",
                                     "sizes",
                                     "shape",
                                     "9223372036854775807",
                                     "-9223372036854775808",
                                     "neg",
                                     "split",
                                     "reshape",
                                     "attention",
                                     "adamw_update",
                                     "i64(1)",
                                     std::string_view("\0", 1),
                                     "\xff"};
  std::mt19937 random(2024);
  const auto below = [&](size_t n) { return random() % n; };
  int parsed = 0;
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text(kStep);
    const size_t edits = 1 + below(4);
    for (size_t e = 0; e < edits && !text.empty(); ++e) {
      const size_t at = below(text.size());
      const size_t length = below(12);
      switch (below(6)) {
        case 0:  // drop a run
          text.erase(at, length);
          break;
        case 1:  // insert a piece
          text.insert(at, pieces[below(std::size(pieces))]);
          break;
        case 2:  // replace a run by a piece
          text.replace(at, length, pieces[below(std::size(pieces))]);
          break;
        case 3:  // repeat a run somewhere else
          text.insert(below(text.size()), text.substr(at, 4 * length));
          break;
        case 4:  // another digit, so that shapes and attributes change
          for (size_t i = at; i < text.size(); ++i) {
            if (text[i] < '0' || text[i] > '9') continue;
            text[i] = static_cast<char>('0' + below(10));
            break;
          }
          break;
        case 5:  // cut the text short, rarely
          if (below(10) == 0) text.resize(at);
          break;
      }
    }
    const Result<Graph> graph = ParseGraph(text);
    if (!graph.ok()) {
      ++refused;
      continue;
    }
    ++parsed;
    const Result<Graph> again = ParseGraph(ToText(*graph));
    REQUIRE_MESSAGE(again.ok(), again.error().message);
    REQUIRE(Equal(*graph, *again));
  }
  // Both ways out have been taken often.
  CHECK(parsed > 500);
  CHECK(refused > 5000);
}

TEST_CASE("Random bytes never crash the parser") {
  std::mt19937 random(99);
  for (int round = 0; round < 5000; ++round) {
    std::string text = round % 2 == 0 ? "" : "stowage-ir 1\ngraph \"g\" {\n";
    const size_t length = random() % 80;
    while (text.size() < length) text += static_cast<char>(random());
    CHECK_FALSE(ParseGraph(text).ok());
  }
}

TEST_CASE("The image shows phases, views, leaves, outputs and types") {
  const Graph graph =
      Parse(InGraph("x: f32(2, 3) = input\n"
                    "t: f32(3, 2) = permute(x) {order=[1, 0]}\n"
                    "\"y\\\\\": f32(3, 2) = neg(t) @backward(\"x\")\n"
                    "output \"z\" = \"y\\\\\""));
  CHECK(ToDot(graph) ==
        "digraph \"g\" {\n"
        "  node [fontname=\"Helvetica\"];\n"
        "  edge [fontname=\"Helvetica\", fontsize=9];\n"
        "  v0 [shape=ellipse, label=\"input\\nx\"];\n"
        "  n0 [shape=box, style=\"filled,dashed\", fillcolor=\"#cfe2f3\", "
        "label=\"0: permute\\n\\\"t\\\"\"];\n"
        "  v0 -> n0 [label=\"x: f32(2, 3)\"];\n"
        "  n1 [shape=box, style=\"filled\", fillcolor=\"#fce5cd\", "
        "label=\"1: neg\\nbackward of \\\"x\\\"\"];\n"
        "  n0 -> n1 [label=\"t: f32(3, 2)\"];\n"
        "  o0 [shape=plaintext, label=\"z\"];\n"
        "  n1 -> o0 [label=\"y\\\\: f32(3, 2)\"];\n"
        "}\n");
}

}  // namespace
}  // namespace stowage

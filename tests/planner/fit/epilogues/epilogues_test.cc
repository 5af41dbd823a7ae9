#include "planner/fit/epilogues/epilogues.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage {
namespace {

using fit::FormEpilogues;

constexpr Fusions kEpilogues = {.epilogues = true};

// "matmul(a, b) -> y", "epilogue_matmul[bias addend](a, b, c, d) -> y [output]".
std::string Lines(const Graph& graph) {
  std::string lines;
  for (const Node& node : graph.nodes()) {
    std::string line(OpName(node.op));
    if (node.op == OpKind::kEpilogueMatMul) {
      for (const char* flag :
           {"bias", "addend", "gelu_grad", "a_sums", "b_sums"}) {
        if (node.attrs.Int(flag) == 1) line += StrCat(" ", flag);
      }
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      line += (i == 0 ? "(" : ", ") + graph.value(node.inputs[i]).name;
    }
    line += ") -> " + graph.value(node.results[0]).name;
    if (node.op == OpKind::kEpilogueMatMul && node.results.size() == 2) {
      line += ", " + graph.value(node.results[1]).name;
    }
    lines += line + "\n";
  }
  return lines;
}

SampledStep MustForm(const Graph& graph,
                     const std::vector<std::string>& kept = {}) {
  Result<SampledStep> formed =
      FormEpilogues({.graph = graph}, kEpilogues, kept);
  REQUIRE_MESSAGE(formed.ok(), formed.error().message);
  return *std::move(formed);
}

std::string Formed(GraphBuilder& g, const std::vector<std::string>& kept = {}) {
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return Lines(MustForm(*graph, kept).graph);
}

Value Input(GraphBuilder& g, const char* name, const Shape& shape,
            DType dtype = DType::kBF16) {
  return g.Input(name, dtype, shape);
}

// m = x w, p = m + b, h = r + p.
struct Layer {
  Value m, p, h;
};
Layer AddLayer(GraphBuilder& g, DType dtype = DType::kBF16) {
  Layer layer;
  const Value r = Input(g, "r", {2, 6, 8}, dtype);
  layer.m = g.Name("m", MatMul(Input(g, "x", {2, 6, 4}, dtype),
                               Input(g, "w", {4, 8}, dtype)));
  const Value row =
      g.Name("row", BroadcastTo(Input(g, "b", {8}, dtype), {2, 6, 8}));
  layer.p = g.Name("p", Add(layer.m, row));
  layer.h = g.Name("h", Add(r, layer.p));
  return layer;
}

TEST_CASE("a bias and a residual are added before sums are rounded") {
  GraphBuilder g("g");
  const Layer layer = AddLayer(g);
  g.Output("y", GeluTanh(layer.h));
  g.Output("sum", ReduceSum(layer.h));
  CHECK(Formed(g) ==
        "epilogue_matmul bias addend(x, w, b, r) -> h\n"
        "gelu_tanh(h) -> y\n"
        "reduce_sum(h) -> sum\n");
}

TEST_CASE("what is an output, kept by name, or read twice stays a value") {
  struct Row {
    bool output, sum, reads_m;
    std::vector<std::string> kept;
    std::string lines;
  };
  const std::string bias = "epilogue_matmul bias(x, w, b) -> p\n";
  const std::string apart =
      "matmul(x, w) -> m\nbroadcast(b) -> row\nadd(m, row) -> p\n";
  const std::vector<Row> rows = {
      {true, false, false, {}, bias + "add(r, p) -> h\n"},
      {false, true, false, {}, bias + "add(r, p) -> h\nreduce_sum(p) -> s\n"},
      // Named ends are made again by themselves, too.
      {false, false, false, {"p"}, apart + "add(r, p) -> h\n"},
      {false, false, false, {"h"}, bias + "add(r, p) -> h\n"},
      {false, false, false, {"m"}, apart + "add(r, p) -> h\n"},
      {false, false, true, {}, apart + "add(r, p) -> h\nneg(m) -> n\n"},
      {false,
       false,
       false,
       {"nobody"},
       "epilogue_matmul bias addend(x, w, b, r) -> h\n"},
  };
  for (const Row& row : rows) {
    GraphBuilder g("g");
    const Layer layer = AddLayer(g);
    if (row.output) g.Output("p", layer.p);
    g.Output("h", layer.h);
    if (row.sum) g.Output("s", ReduceSum(layer.p));
    if (row.reads_m) g.Output("n", Neg(layer.m));
    CHECK(Formed(g, row.kept) == row.lines);
  }
}

TEST_CASE("a row that others read, too, stays") {
  GraphBuilder g("g");
  const Value row = g.Name("row", BroadcastTo(Input(g, "b", {8}), {6, 8}));
  g.Output("y",
           g.Name("y", Add(MatMul(Input(g, "x", {6, 4}), Input(g, "w", {4, 8})),
                           row)));
  g.Output("z", g.Name("z", Neg(row)));
  CHECK(Formed(g) ==
        "broadcast(b) -> row\n"
        "epilogue_matmul bias(x, w, b) -> y\n"
        "neg(row) -> z\n");
}

TEST_CASE("a bias that is a view itself stays a value") {
  GraphBuilder g("g");
  const Value x = Input(g, "x", {8, 16});
  const Value one = g.Name("one", BroadcastTo(Input(g, "b", {}), {32}));
  const Value rows = g.Name("rows", BroadcastTo(one, {8, 32}));
  g.Output("y", g.Name("y", Add(MatMul(x, Input(g, "w", {16, 32})), rows)));
  // Of one column: the row is one element, which lies contiguously.
  const Value single = g.Name("single", BroadcastTo(Input(g, "c", {}), {1}));
  const Value column = g.Name("column", BroadcastTo(single, {8, 1}));
  g.Output("z", g.Name("z", Add(MatMul(x, Input(g, "v", {16, 1})), column)));
  const std::string lines = Formed(g);
  CHECK(lines.find("-> one\n") != std::string::npos);
  CHECK(lines.find("epilogue_matmul bias(x, v, single) -> z\n") !=
        std::string::npos);
}

TEST_CASE("of one row, a bias is the matrix that is added") {
  GraphBuilder g("g");
  const Value row = g.Name("row", BroadcastTo(Input(g, "b", {8}), {1, 8}));
  g.Output("y",
           g.Name("y", Add(MatMul(Input(g, "x", {1, 4}), Input(g, "w", {4, 8})),
                           row)));
  CHECK(Formed(g) == "epilogue_matmul bias(x, w, b) -> y\n");
}

TEST_CASE(
    "an operand may be added to its product, and a product not to itself") {
  GraphBuilder g("g");
  const Value x = Input(g, "x", {8, 8});
  g.Output("y", g.Name("y", Add(x, MatMul(x, Input(g, "w", {8, 8})))));
  const Value m = g.Name("m", MatMul(x, Input(g, "v", {8, 8})));
  g.Output("z", g.Name("z", Add(m, m)));
  CHECK(Formed(g) ==
        "epilogue_matmul addend(x, w, x) -> y\n"
        "matmul(x, v) -> m\nadd(m, m) -> z\n");
}

TEST_CASE("what comes later than the product, or lies otherwise, stays") {
  GraphBuilder g("g");
  const Value w = Input(g, "w", {4, 8});
  const Value first = g.Name("first", MatMul(Input(g, "x", {6, 4}), w));
  const Value later = g.Name("later", Exp(Input(g, "z", {6, 8})));
  g.Output("y", g.Name("y", Add(first, later)));
  const Value second = g.Name("second", MatMul(Input(g, "x2", {6, 4}), w));
  const Value turned = g.Name("turned", Transpose(Input(g, "t", {8, 6})));
  g.Output("y2", g.Name("y2", Add(second, turned)));
  // One column for all is no bias.
  const Value third = g.Name("third", MatMul(Input(g, "x3", {6, 4}), w));
  const Value column =
      g.Name("column", BroadcastTo(Input(g, "c", {6, 1}), {6, 8}));
  g.Output("y3", g.Name("y3", Add(third, column)));
  CHECK(Formed(g) ==
        "matmul(x, w) -> first\nexp(z) -> later\nadd(first, later) -> y\n"
        "matmul(x2, w) -> second\npermute(t) -> turned\n"
        "add(second, turned) -> y2\n"
        "matmul(x3, w) -> third\nbroadcast(c) -> column\n"
        "add(third, column) -> y3\n");
}

TEST_CASE("products of several matrices, and of f64, stay") {
  GraphBuilder g("g");
  const Value many = g.Name(
      "many", MatMul(Input(g, "a", {3, 6, 4}), Input(g, "b", {3, 4, 8})));
  g.Output("y", g.Name("y", Add(many, Input(g, "r", {3, 6, 8}))));
  CHECK(Formed(g) == "matmul(a, b) -> many\nadd(many, r) -> y\n");
  GraphBuilder wide("wide");
  wide.Output("h", AddLayer(wide, DType::kF64).h);
  CHECK(Formed(wide).starts_with("matmul(x, w) -> m\n"));
}

TEST_CASE("gelu's gradient is taken of the sums, in the backward pass") {
  GraphBuilder g("g");
  const Value x = g.Param("x", DType::kBF16, {6, 4});
  const Value h = g.Name("h", MatMul(x, g.Param("w", DType::kBF16, {4, 8})));
  const Value y = g.Name("y", GeluTanh(h));
  const Value z = g.Name("z", MatMul(y, g.Param("v", DType::kBF16, {8, 3})));
  g.Output("loss", ReduceSum(Cast(Square(z), DType::kF32)));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  const Result<Graph> step = BuildTrainStep(*graph, "loss", {});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  const Graph formed = MustForm(*step).graph;
  int epilogues = 0;
  for (const Node& node : formed.nodes()) {
    CHECK(node.op != OpKind::kGeluTanhGrad);
    if (node.op != OpKind::kEpilogueMatMul) continue;
    ++epilogues;
    CHECK(node.phase == Phase::kBackward);
    CHECK(node.attrs.Int("gelu_grad") == 1);
    CHECK(formed.value(node.inputs[2]).name == "h");
  }
  CHECK(epilogues == 1);
  CHECK(formed.num_nodes() == step->num_nodes() - 1);
}

// The backward pass of y = x w + b, by hand: dy is made, then db and dw of it.
struct Gradients {
  explicit Gradients(GraphBuilder& builder, DType dtype = DType::kBF16)
      : g(builder),
        x(Input(g, "x", {2, 3, 4}, dtype)),
        seed(Input(g, "seed", {2, 3, 8}, dtype)) {
    g.SetOrigin(Phase::kBackward, "y");
    dy = g.Name("dy", Neg(seed));
  }
  Value Sum(const char* name = "db") const {
    const std::vector<int64_t> rows = {0, 1};
    return g.Name(name, ReduceSum(dy, rows));
  }
  // (4, 8), or turned.
  Value Product(const char* name = "dw", bool turned = false) const {
    const Value x2 = g.Name(StrCat(name, ".x"), Reshape(x, {6, 4}));
    const Value dy2 = g.Name(StrCat(name, ".dy"), Reshape(dy, {6, 8}));
    return g.Name(name, turned ? MatMul(dy2, x2, true) : MatMul(x2, dy2, true));
  }

  GraphBuilder& g;
  Value x, seed, dy;
};

TEST_CASE("a bias's gradient is made beside its weight's, of either layout") {
  const std::string of_x = "reshape(x) -> dw.x\n";
  const std::string of_dy = "reshape(dy) -> dw.dy\n";
  for (const bool turned : {false, true}) {
    GraphBuilder g("g");
    const Gradients grads(g);
    const Value db = grads.Sum();
    // What reads the one follows on the node that makes both.
    g.Output("nb", g.Name("nb", Neg(db)));
    g.Output("dw", grads.Product("dw", turned));
    CHECK(Formed(g) ==
          "neg(seed) -> dy\n" +
              (turned ? of_dy + of_x +
                            "epilogue_matmul a_sums(dw.dy, dw.x) -> dw, db\n"
                      : of_x + of_dy +
                            "epilogue_matmul b_sums(dw.x, dw.dy) -> dw, db\n") +
              "neg(db) -> nb\n");
  }
}

TEST_CASE("it is where the product stood, if that was first") {
  GraphBuilder g("g");
  const Gradients grads(g);
  g.Output("nw", g.Name("nw", Neg(grads.Product())));
  g.Output("db", grads.Sum());
  CHECK(Formed(g) ==
        "neg(seed) -> dy\n"
        "reshape(x) -> dw.x\nreshape(dy) -> dw.dy\n"
        "epilogue_matmul b_sums(dw.x, dw.dy) -> dw, db\n"
        "neg(dw) -> nw\n");
}

TEST_CASE("what is made between the two does not part them") {
  GraphBuilder g("g");
  Gradients grads(g, DType::kBF16);
  g.Output("db", grads.Sum());
  g.Output("dx", g.Name("dx", Exp(grads.dy)));
  g.Output("dw", grads.Product());
  const std::string lines = Formed(g, {});
  CHECK(lines.find("-> dw, db\nexp(dy) -> dx\n") != std::string::npos);
}

TEST_CASE("a bias's gradient stays by itself where the two cannot be one") {
  const auto check = [](const std::function<void(Gradients&)>& build,
                        DType dtype = DType::kBF16,
                        const std::vector<std::string>& kept = {}) {
    GraphBuilder g("g");
    Gradients grads(g, dtype);
    build(grads);
    const std::string lines = Formed(g, kept);
    CHECK(lines.find("epilogue_matmul") == std::string::npos);
    CHECK(lines.find("-> db\n") != std::string::npos);
  };
  const auto both = [](Gradients& grads) {
    grads.g.Output("db", grads.Sum());
    grads.g.Output("dw", grads.Product());
  };
  // No gradient of the weight.
  check([](Gradients& grads) { grads.g.Output("db", grads.Sum()); });
  check(both, DType::kF64);
  check(both, DType::kBF16, {"db"});
  check(both, DType::kBF16, {"dw"});
  // What the product reads comes after the sum's reader, or of it.
  check([](Gradients& grads) {
    const Value db = grads.Sum();
    grads.g.Output("db", db);
    grads.x = Add(grads.x, BroadcastTo(Slice(db, 0, 0, 4), {2, 3, 4}));
    grads.g.Output("dw", grads.Product());
  });
  // Of other rows, other axes, or in another shape.
  check([](Gradients& grads) {
    const std::vector<int64_t> first = {0};
    grads.g.Output("db", grads.g.Name("db", ReduceSum(grads.dy, first)));
    grads.g.Output("dw", grads.Product());
  });
  check([](Gradients& grads) {
    const std::vector<int64_t> rows = {0, 1};
    grads.g.Output("db", grads.g.Name("db", ReduceSum(grads.dy, rows, true)));
    grads.g.Output("dw", grads.Product());
  });
  check([](Gradients& grads) {
    const std::vector<int64_t> rows = {0, 1};
    const Value lower = Slice(grads.dy, 0, 0, 1);
    const Value upper = Slice(grads.dy, 0, 1, 2);
    grads.g.Output("db", grads.g.Name("db", ReduceSum(lower, rows)));
    grads.g.Output("dw", MatMul(Reshape(Slice(grads.x, 0, 1, 2), {3, 4}),
                                Reshape(upper, {3, 8}), true));
  });
  check([](Gradients& grads) {
    const std::vector<int64_t> rows = {0};
    grads.g.Output(
        "db", grads.g.Name("db", ReduceSum(Reshape(grads.dy, {12, 4}), rows)));
    grads.g.Output("dw", grads.Product());
  });
  // A product that adds up along the other axis.
  check([](Gradients& grads) {
    grads.g.Output("db", grads.Sum());
    grads.g.Output("dx", MatMul(Reshape(grads.dy, {6, 8}),
                                Input(grads.g, "w", {4, 8}), false, true));
  });
}

TEST_CASE("of two products of one operand, the first makes its sums") {
  GraphBuilder g("g");
  const Gradients grads(g);
  g.Output("db", grads.Sum());
  g.Output("dw", grads.Product());
  g.Output("dv", grads.Product("dv"));
  const std::string lines = Formed(g);
  CHECK(lines.find("epilogue_matmul b_sums(dw.x, dw.dy) -> dw, db\n") !=
        std::string::npos);
  CHECK(lines.find("matmul(dv.x, dv.dy) -> dv\n") != std::string::npos);
}

TEST_CASE("in the forward pass a sum stays by itself") {
  GraphBuilder g("g");
  const std::vector<int64_t> rows = {0};
  const Value x = Input(g, "x", {6, 4});
  const Value y = Input(g, "y", {6, 8});
  g.Output("sum", g.Name("sum", ReduceSum(y, rows)));
  g.Output("xy", g.Name("xy", MatMul(x, y, true)));
  CHECK(Formed(g) == "reduce_sum(y) -> sum\nmatmul(x, y) -> xy\n");
}

// Nodes of the step of an mlp of two layers that make sums, by what they are.
std::string SumsOf(const TrainOptions& options) {
  GraphBuilder g("g");
  Value h = g.Input("x", DType::kBF16, {6, 4});
  int64_t width = 4;
  for (const char* layer : {"1", "2"}) {
    const Value w = g.Param(StrCat("w", layer), DType::kBF16, {width, 8});
    const Value b = g.Param(StrCat("b", layer), DType::kBF16, {8});
    h = Relu(Add(MatMul(h, w), b));
    width = 8;
  }
  g.Output("loss", ReduceSum(Cast(Square(h), DType::kF32)));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Graph> step = BuildTrainStep(*graph, "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  const Graph formed = MustForm(*step).graph;
  std::string names;
  for (const Node& node : formed.nodes()) {
    if (node.phase != Phase::kBackward) continue;
    const bool makes_both = node.op == OpKind::kEpilogueMatMul;
    if (node.op != OpKind::kReduceSum && !makes_both) continue;
    if (makes_both) CHECK(node.attrs.Int("b_sums") == 1);
    names += makes_both ? "both" : "sum";
    for (const ValueId id : node.results) {
      names += " " + formed.value(id).name;
    }
    names += "; ";
  }
  return names;
}

TEST_CASE("in a step, with clipping or without, by what is trained") {
  const std::string all = "both grad:w2 grad:b2; both grad:w1 grad:b1; ";
  CHECK(SumsOf({}) == all);
  CHECK(SumsOf({.clip_norm = 1.0}) == all);
  CHECK(SumsOf({.loss_scaling = LossScaling{}}) == all);
  CHECK(SumsOf({.groups = {{.pattern = "w2", .frozen = true}}}) ==
        "sum grad:b2; both grad:w1 grad:b1; ");
  CHECK(SumsOf({.groups = {{.pattern = "b1", .frozen = true}}}) ==
        "both grad:w2 grad:b2; ");
}

TEST_CASE("gradients add up as before") {
  GraphBuilder g("g");
  const Value x = g.Param("x", DType::kBF16, {6, 6});
  const Value w = g.Param("w", DType::kBF16, {6, 6});
  g.Output("loss", ReduceSum(Cast(MatMul(Tanh(MatMul(x, w)), w), DType::kF32)));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  const Result<Graph> step = BuildTrainStep(*graph, "loss", {});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(Lines(MustForm(*step).graph) == Lines(*step));
}

TEST_CASE("micro-batches begin where they began") {
  GraphBuilder g("g");
  const Value w = Input(g, "w", {4, 8});
  for (const char* name : {"x1", "x2"}) {
    const Value row =
        BroadcastTo(Input(g, name[1] == '1' ? "b1" : "b2", {8}), {6, 8});
    g.Output(StrCat("y", name), Add(MatMul(Input(g, name, {6, 4}), w), row));
  }
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  REQUIRE(graph->num_nodes() == 6);
  const Result<SampledStep> formed = FormEpilogues(
      {.graph = *graph, .begins = {0, 3}, .counts = {2, 1}}, kEpilogues, {});
  REQUIRE(formed.ok());
  CHECK(formed->graph.num_nodes() == 2);
  CHECK(formed->begins == std::vector<NodeId>{0, 1});
  CHECK(formed->counts == std::vector<int64_t>{2, 1});
}

}  // namespace
}  // namespace stowage

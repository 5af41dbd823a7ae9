// The CPU kernels at sizes that reach every path: several chunks, blocks and
// tiles, ragged ends, views as operands. (The op test table's cases are small.)

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cpu/kernel.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/cpu/run_graph.h"

namespace stowage {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// y of one operand x of f32 numbers.
std::vector<double> Apply(const std::vector<double>& x,
                          const std::function<Value(Value)>& f,
                          DType dtype = DType::kF32) {
  const Graph graph = MakeGraph("apply", [&](GraphBuilder& g) {
    g.Output("y",
             f(g.Input("x", dtype, Shape{static_cast<int64_t>(x.size())})));
  });
  const CpuRun run = RunOnCpu(graph, {{"x", x}});
  REQUIRE(run.code == StepCode::kOk);
  return run.values.at("y");
}

// --- Elementwise -------------------------------------------------------------

TEST_CASE("elementwise kernels cross chunks and take operands of any strides") {
  for (const Precision p : {kF32, kF64}) {
    const auto in = [&](GraphBuilder& g, const char* name, const Shape& shape) {
      return g.Input(name, p.dtype, shape);
    };
    CheckGraph("add, 3 chunks", p.tolerance, [&](GraphBuilder& g) {
      g.Output("y", Add(in(g, "a", {321, 123}), in(g, "b", {321, 123})));
    });
    CheckGraph("bias", p.tolerance, [&](GraphBuilder& g) {
      g.Output("y", Add(in(g, "a", {700, 37}), in(g, "b", {37})));
    });
    CheckGraph("column", p.tolerance, [&](GraphBuilder& g) {
      g.Output("y", Mul(in(g, "a", {30, 1100}), in(g, "b", {30, 1})));
    });
    CheckGraph("scalar", p.tolerance, [&](GraphBuilder& g) {
      g.Output("y", GeluTanh(MulScalar(in(g, "a", {40000}), 0.3)));
    });
    CheckGraph("transposed, every third", p.tolerance, [&](GraphBuilder& g) {
      const Value a = Slice(Transpose(in(g, "a", {600, 70})), 1, 1, 600, 3);
      g.Output("y", Sub(a, in(g, "b", {70, 200})));
    });
    CheckGraph("five axes", p.tolerance, [&](GraphBuilder& g) {
      const Value a = Permute(in(g, "a", {3, 5, 2, 7, 4}), {2, 0, 4, 1, 3});
      g.Output("y", Maximum(a, in(g, "b", {3, 1, 5, 1})));
    });
    CheckGraph(
        "where, transposed", p.tolerance,
        [&](GraphBuilder& g) {
          const Value c = g.Input("c", DType::kBool, {90, 200});
          g.Output("y", Where(Transpose(c), in(g, "a", {200, 90}),
                              BroadcastTo(in(g, "b", {90}), {200, 90})));
        },
        2);
    CheckGraph("comparison", p.tolerance, [&](GraphBuilder& g) {
      g.Output("y", Less(in(g, "a", {200, 190}), in(g, "b", {190})));
    });
    CheckGraph("dropout, 3 chunks", p.tolerance, [&](GraphBuilder& g) {
      g.Output("y", Dropout(Transpose(in(g, "a", {321, 123})),
                            g.Input("seed", DType::kI64, {}),
                            g.Input("step", DType::kI64, {}), 0.25, 5));
    });
  }
}

TEST_CASE("integers wrap around instead of overflowing") {
  const double lowest = std::numeric_limits<int32_t>::min();
  const double largest = std::numeric_limits<int32_t>::max();
  const std::vector<double> x = {lowest, largest, -3, 0};
  const auto on = [&](const std::function<Value(Value)>& f) {
    return Apply(x, f, DType::kI32);
  };
  CHECK(on([](Value v) { return Neg(v); }) ==
        std::vector<double>{lowest, -largest, 3, 0});
  CHECK(on([](Value v) { return Abs(v); }) ==
        std::vector<double>{lowest, largest, 3, 0});
  CHECK(on([](Value v) { return Sign(v); }) ==
        std::vector<double>{-1, 1, -1, 0});
  CHECK(on([](Value v) { return Add(v, v); }) ==
        std::vector<double>{0, -2, -6, 0});
  CHECK(on([](Value v) { return Mul(v, v); }) ==
        std::vector<double>{0, 1, 9, 0});
  CHECK(on([](Value v) { return ReduceSum(v); }) == std::vector<double>{-4});
  CHECK(on([](Value v) { return ReduceMax(v); }) ==
        std::vector<double>{largest});
}

TEST_CASE("pooling agrees with its definition at sizes with chunks and tails") {
  const PoolWindow windows[] = {
      {.kernel = 3, .stride = 2, .padding = 1},
      {.kernel = {2, 5}, .stride = 1, .padding = {0, 0, 1, 3}},
      {.kernel = {4, 2}, .ceil_mode = true},
  };
  for (const PoolWindow& window : windows) {
    for (const Precision& p : {kF32, kF64}) {
      CheckGraph("pooling", p.tolerance, [&](GraphBuilder& g) {
        const Value x = g.Input("x", p.dtype, {2, 3, 19, 71});
        const Value top = MaxPool(x, window);
        const Attrs attrs = g.graph().nodes().back().attrs;
        g.Output("max", top);
        g.Output("max_grad",
                 g.Emit(OpKind::kMaxPoolGrad,
                        std::vector{x, g.Input("dy", p.dtype, top.shape())},
                        attrs)[0]);
        g.Output("avg", AvgPool(x, window));
        g.Output("avg_inside", AvgPool(x, window, false));
      });
    }
  }
}

TEST_CASE("padding and resizing agree with their definitions at larger sizes") {
  for (const Precision& p : {kF32, kF64}) {
    CheckGraph("images", p.tolerance, [&](GraphBuilder& g) {
      const Value x = g.Input("x", p.dtype, {3, 5, 37, 71});
      const Value bright =
          Pad(x, {0, 0, 3, 9}, {0, 0, 4, 8}, PadMode::kReflect);
      g.Output("reflected", bright);
      g.Output("reflected_grad", g.Emit(OpKind::kPadGrad, std::vector{bright},
                                        {{"before", Axes{0, 0, 3, 9}},
                                         {"after", Axes{0, 0, 4, 8}},
                                         {"mode", int64_t{1}}})[0]);
      const Value large = Resize(x, {50, 143});
      g.Output("large", large);
      g.Output("large_grad", g.Emit(OpKind::kResizeGrad, std::vector{large},
                                    {{"shape", Axes{3, 5, 37, 71}},
                                     {"mode", int64_t{1}},
                                     {"align_corners", int64_t{0}}})[0]);
    });
  }
}

TEST_CASE("local response norms agree with their definition at larger sizes") {
  struct Row {
    Shape x;
    LocalResponse response;
  };
  const Row rows[] = {
      {{3, 40, 9, 30}, {.size = 5, .alpha = 2, .beta = 0.75, .bias = 1}},
      {{9, 33, 77}, {.size = 4, .alpha = 1, .beta = 0.4, .bias = 2}},
      {{2, 50, 70}, {.size = 77, .alpha = 9, .beta = 0.75, .bias = 1}},
      {{700, 31}, {.size = 2, .alpha = 1, .beta = 1, .bias = 1}},
  };
  for (const Row& row : rows) {
    for (const Precision& p : {kF32, kF64}) {
      CAPTURE(row.x.ToString());
      CheckGraph("local_response_norm", p.tolerance, [&](GraphBuilder& g) {
        const auto grad = [&](Value x, const char* dy) {
          return Apply(OpKind::kLocalResponseNormGrad,
                       {x, g.Input(dy, p.dtype, row.x)},
                       {{"size", row.response.size},
                        {"alpha", row.response.alpha},
                        {"beta", row.response.beta},
                        {"bias", row.response.bias}});
        };
        // Where results may lie over operands, over dy, x and the other x.
        const Value x = g.Input("x", p.dtype, row.x);
        g.Output("dx", grad(x, "dy"));
        g.Output("y", LocalResponseNorm(x, row.response));
        g.Output("other_dx",
                 grad(g.Input("other_x", p.dtype, row.x), "other_dy"));
      });
    }
  }
}

TEST_CASE("lstm sequences agree with their definition at larger sizes") {
  struct Row {
    int64_t batch, time, hidden;
    bool reverse;
  };
  // Several tasks of rows and of units, the last of them partly filled; more depth
  // than one block of a product has.
  for (const Row& row : {Row{37, 3, 75, false}, Row{2, 9, 140, true},
                         Row{70, 2, 33, true}, Row{1, 2, 270, false}}) {
    const Shape gates = {row.batch, row.time, 4 * row.hidden};
    const Shape sequence = {row.batch, row.time, row.hidden};
    const Shape state = {row.batch, row.hidden};
    for (const Precision& p : {kF32, kF64}) {
      CAPTURE(gates.ToString());
      CheckGraph("lstm", p.tolerance, [&](GraphBuilder& g) {
        const auto input = [&](const char* name, const Shape& shape) {
          return g.Input(name, p.dtype, shape);
        };
        const Value h0 = input("h0", state), c0 = input("c0", state);
        const Value w = MulScalar(input("w", {4 * row.hidden, row.hidden}),
                                  2 / std::sqrt(row.hidden));
        const LstmSequenceResults all =
            LstmSequence(input("gates", gates), h0, c0, w, row.reverse);
        g.Output("h", all.h);
        g.Output("c", all.c);
        const LstmGrads grads =
            LstmGrad(Sigmoid(input("activated", gates)), c0, w,
                     input("some_c", sequence), input("dh", sequence),
                     input("dc", sequence), row.reverse);
        g.Output("dgates", grads.dgates);
        g.Output("dh0", grads.dh0);
        g.Output("dc0", grads.dc0);
        g.Output("dw", LstmWeightGrad(grads.dgates, h0, all.h, row.reverse));
      });
    }
  }
}

TEST_CASE("ops along an axis agree with their definitions at larger sizes") {
  for (const Precision& p : {kF32, kF64}) {
    CheckGraph("along", p.tolerance, [&](GraphBuilder& g) {
      const Value x = g.Input("x", p.dtype, {2, 30, 150});
      for (const int64_t axis : {0, 1, 2}) {
        const std::string name = std::to_string(axis);
        g.Output("sums" + name, CumSum(x, axis, axis == 1, axis == 2));
      }
      const TopKResults some = TopK(x, 20);
      const TopKResults all = Sort(x);
      g.Output("some", some.values);
      g.Output("some_places", some.indices);
      g.Output("all_places", all.indices);
      g.Output("put", PutAdd(x, all.indices, Neg(x), 2));
      g.Output("taken", TakeAlongAxis(x, some.indices, 2));
    });
  }
}

TEST_CASE("NaN comes last, whichever way the others are sorted") {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Graph graph = MakeGraph("nan", [&](GraphBuilder& g) {
      const Value x = g.Input("x", dtype, {5});
      g.Output("down", Sort(x, /*descending=*/true).indices);
      g.Output("up", Sort(x).indices);
      g.Output("top", TopK(x, 4).indices);
    });
    const CpuRun run = RunOnCpu(graph, {{"x", {kNaN, 2, kNaN, 1, kInf}}});
    REQUIRE(run.code == StepCode::kOk);
    CHECK(run.values.at("down") == std::vector<double>{4, 1, 3, 0, 2});
    CHECK(run.values.at("up") == std::vector<double>{3, 1, 4, 0, 2});
    CHECK(run.values.at("top") == std::vector<double>{4, 1, 3, 0});
  }
}

TEST_CASE("a NaN in a window is its maximum, and takes the gradient") {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Graph graph = MakeGraph("nan", [&](GraphBuilder& g) {
      const Value x = g.Input("x", dtype, {1, 3, 2, 4});
      const Value top = MaxPool(x, {.kernel = {2, 2}});
      const Attrs attrs = g.graph().nodes().back().attrs;
      g.Output("y", top);
      g.Output("dx", g.Emit(OpKind::kMaxPoolGrad,
                            std::vector{x, g.Input("dy", dtype, top.shape())},
                            attrs)[0]);
    });
    const CpuRun run = RunOnCpu(
        graph, {{"x", {1,     kNaN,  9,    -kInf, kInf,  kNaN,  3, 4,
                       -kInf, -kInf, kInf, 5,     -kInf, -kInf, 6, kInf,
                       1,     kNaN,  kNaN, 0,     kNaN,  2,     0, 0}},
                {"dy", {1, 2, 3, 4, 5, 6}}});
    const std::vector<double>& y = run.values.at("y");
    CHECK(std::isnan(y[0]));
    CHECK(std::vector<double>(y.begin() + 1, y.begin() + 4) ==
          std::vector<double>{9, -kInf, kInf});
    CHECK(std::isnan(y[4]));
    CHECK(std::isnan(y[5]));
    CHECK(run.values.at("dx") == std::vector<double>{0, 1, 2, 0, 0, 0, 0, 0,
                                                     3, 0, 4, 0, 0, 0, 0, 0,
                                                     0, 5, 6, 0, 0, 0, 0, 0});
  }
}

TEST_CASE(
    "round takes the even of two equally near, floor and ceil their side") {
  const std::vector<double> x = {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.75, -2.75};
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const auto result = [&](Value (*f)(Value, SourceLoc)) {
      return Apply(
          x, [f](Value v) { return f(v, SourceLoc()); }, dtype);
    };
    CHECK(result(Round) == std::vector<double>{-2, -2, 0, 0, 2, 2, 3, -3});
    CHECK(result(Floor) == std::vector<double>{-3, -2, -1, 0, 1, 2, 2, -3});
    CHECK(result(Ceil) == std::vector<double>{-2, -1, 0, 1, 2, 3, 3, -2});
  }
}

TEST_CASE("infinities and NaN come out as they should") {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const std::vector<double> x = {-kInf, -1000, 0, 1000, kInf, kNaN};
    const auto check = [&](const std::function<Value(Value)>& f,
                           const std::vector<double>& want) {
      const std::vector<double> got = Apply(x, f, dtype);
      for (size_t i = 0; i < want.size(); ++i) {
        CAPTURE(i);
        if (std::isnan(want[i])) {
          CHECK(std::isnan(got[i]));
        } else {
          CHECK(got[i] == want[i]);
        }
      }
    };
    check([](Value v) { return Exp(v); }, {0, 0, 1, kInf, kInf, kNaN});
    check([](Value v) { return Tanh(v); }, {-1, -1, 0, 1, 1, kNaN});
    check([](Value v) { return Sigmoid(v); }, {0, 0, 0.5, 1, 1, kNaN});
    check([](Value v) { return Relu(v); }, {0, 0, 0, 1000, kInf, kNaN});
    check([](Value v) { return Round(Softplus(v)); },
          {0, 0, 1, 1000, kInf, kNaN});
    check([](Value v) { return Mish(v); }, {kNaN, 0, 0, 1000, kInf, kNaN});
    check([](Value v) { return HardSwish(v); }, {0, 0, 0, 1000, kInf, kNaN});
    check([](Value v) { return LeakyRelu(v, 0.5); },
          {-kInf, -500, 0, 1000, kInf, kNaN});
    check([](Value v) { return Elu(v, 2, 3); }, {-6, -6, 0, 3000, kInf, kNaN});
    check([](Value v) { return Clamp(v, -kInf, 6); },
          {-kInf, -1000, 0, 6, 6, kNaN});
    check([](Value v) { return HardSigmoid(v); }, {0, 0, 0.5, 1, 1, kNaN});
    check([](Value v) { return Expm1(v); }, {-1, -1, 0, kInf, kInf, kNaN});
    check([](Value v) { return Round(Log1p(v)); },
          {kNaN, kNaN, 0, 7, kInf, kNaN});
    check([](Value v) { return Erf(v); }, {-1, -1, 0, 1, 1, kNaN});
    check([](Value v) { return Round(v); },
          {-kInf, -1000, 0, 1000, kInf, kNaN});
    check([](Value v) { return Cast(IsNan(v), v.dtype()); },
          {0, 0, 0, 0, 0, 1});
    check([](Value v) { return Maximum(v, MulScalar(v, 0)); },
          {kNaN, 0, 0, 1000, kNaN, kNaN});
    check([](Value v) { return ReduceMax(v); }, {kNaN});
    check([](Value v) { return ArgMax(v); }, {5});
    check([](Value v) { return ReduceMax(Slice(v, 0, 0, 5)); }, {kInf});
    check([](Value v) { return Softmax(Slice(v, 0, 0, 4)); }, {0, 0, 0, 1});
    check([](Value v) { return GeluErf(Slice(v, 0, 1, 4)); }, {0, 0, 1000});
  }
}

TEST_CASE("casts round to even, truncate, saturate, and never trap") {
  const auto to = [](DType dtype) {
    return [dtype](Value v) { return Cast(v, dtype); };
  };
  // 2049 lies halfway between the f16 numbers 2048 and 2050, 2051 between 2050
  // and 2052; 65520 halfway from the largest f16 to infinity.
  CHECK(Apply({2049, 2051, 65519, 65520, 0x1p-25, 0x1.8p-25, -0x1p-24},
              to(DType::kF16)) ==
        std::vector<double>{2048, 2052, 65504, kInf, 0, 0x1p-24, -0x1p-24});
  CHECK(Apply({257, 259, 0x1p-130}, to(DType::kBF16)) ==
        std::vector<double>{256, 260, 0x1p-130});
  // Just above a tie, by less than a float can tell.
  CHECK(Apply({2049 + 0x1p-40, 2049 - 0x1p-40}, to(DType::kF16), DType::kF64) ==
        std::vector<double>{2050, 2048});
  CHECK(Apply({257 + 0x1p-40, 1e300}, to(DType::kBF16), DType::kF64) ==
        std::vector<double>{258, kInf});
  const double lowest = std::numeric_limits<int32_t>::min();
  const double largest = std::numeric_limits<int32_t>::max();
  CHECK(
      Apply({-1.9, 1.9, 3e9, -3e9, kInf, -kInf, kNaN, -0.5}, to(DType::kI32)) ==
      std::vector<double>{-1, 1, largest, lowest, largest, lowest, 0, 0});
  CHECK(Apply({-1, 255.5, 256, kNaN}, to(DType::kU8)) ==
        std::vector<double>{0, 255, 255, 0});
  CHECK(Apply({9.3e18, -9.3e18}, to(DType::kI64), DType::kF64) ==
        std::vector<double>{0x1p63, -0x1p63});
  CHECK(Apply({0, -0.0, 0.5, kNaN}, to(DType::kBool)) ==
        std::vector<double>{0, 0, 1, 1});
  CHECK(Apply({300, -1}, to(DType::kU8), DType::kI32) ==
        std::vector<double>{44, 255});
  // 2^56 + 2^48 is a tie between bf16 numbers; one more is not.
  const Graph graph = MakeGraph("cast of i64", [](GraphBuilder& g) {
    const int64_t x[] = {(int64_t{1} << 56) + (int64_t{1} << 48),
                         (int64_t{1} << 56) + (int64_t{1} << 48) + 1};
    g.Output("y",
             Cast(Constant(g, DType::kI64, {2}, std::as_bytes(std::span(x))),
                  DType::kBF16));
  });
  CHECK(RunOnCpu(graph, {}).values.at("y") ==
        std::vector<double>{0x1p56, 0x1p56 + 0x1p49});
}

TEST_CASE("every element type casts to every other") {
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      CheckGraph(
          StrCat("cast ", DTypeName(from), " to ", DTypeName(to)), 0.01,
          [&](GraphBuilder& g) {
            g.Output("y", Cast(Transpose(g.Input("x", from, {45, 67})), to));
          },
          2);
    }
  }
}

// --- Movement ----------------------------------------------------------------

TEST_CASE("copies and joins move elements of every width") {
  for (const DType dtype : kAllDTypes) {
    const auto in = [&](GraphBuilder& g, const char* name, const Shape& shape) {
      return g.Input(name, dtype, shape);
    };
    CheckGraph(
        "transposition", 0,
        [&](GraphBuilder& g) {
          g.Output("y", Copy(Transpose(in(g, "x", {3, 150, 77}))));
        },
        2);
    CheckGraph(
        "heads to the front", 0,
        [&](GraphBuilder& g) {
          g.Output("y",
                   Copy(Permute(in(g, "x", {5, 33, 4, 31}), {0, 2, 1, 3})));
        },
        2);
    CheckGraph(
        "concat along the middle", 0,
        [&](GraphBuilder& g) {
          const Value parts[] = {in(g, "a", {40, 3, 70}),
                                 Permute(in(g, "b", {70, 5, 40}), {2, 1, 0}),
                                 BroadcastTo(in(g, "c", {70}), {40, 1, 70})};
          g.Output("y", Concat(parts, 1));
        },
        2);
    CheckGraph("fill", 0, [&](GraphBuilder& g) {
      g.Output("y", Fill(g, 1, dtype, {40000}));
    });
  }
}

TEST_CASE("rows are gathered and added at their indices") {
  for (const DType index : {DType::kI32, DType::kI64}) {
    for (const int64_t columns : {1, 100}) {
      const Build gather = [&](GraphBuilder& g) {
        g.Output("y", Gather(g.Input("table", DType::kF32, {7, columns}),
                             g.Input("ids", index, {30, 20})));
      };
      CheckGraph("gather", 0, gather);
      const Build scatter = [&](GraphBuilder& g) {
        g.Output("y",
                 ScatterAdd(g.Input("base", DType::kF32, {7, columns}),
                            g.Input("ids", index, {30, 20}),
                            g.Input("dy", DType::kF32, {30, 20, columns})));
      };
      CheckGraph("scatter_add", 1e-5, scatter);
    }
  }
}

TEST_CASE("an index out of range ends the step and touches nothing") {
  const auto code = [](const Build& build, std::vector<double> ids) {
    const Graph graph = MakeGraph("out of range", build);
    Tensors leaves = RandomLeaves(graph);
    leaves["ids"] = std::move(ids);
    const CpuRun run = RunOnCpu(graph, leaves);
    CHECK(run.guards_intact);
    return run.code;
  };
  const auto ids = [](GraphBuilder& g) {
    return g.Input("ids", DType::kI32, {3});
  };
  const auto in = [](GraphBuilder& g, const char* name, const Shape& shape) {
    return g.Input(name, DType::kF32, shape);
  };
  const std::vector<Build> ops = {
      [&](GraphBuilder& g) {
        g.Output("y", Gather(in(g, "x", {5, 2}), ids(g)));
      },
      [&](GraphBuilder& g) {
        g.Output("y",
                 ScatterAdd(in(g, "x", {5, 2}), ids(g), in(g, "dy", {3, 2})));
      },
      [&](GraphBuilder& g) {
        g.Output("y", TakeAlongAxis(in(g, "x", {5}), ids(g), 0));
      },
      [&](GraphBuilder& g) {
        g.Output("y", PutAdd(in(g, "x", {5}), ids(g), in(g, "dy", {3}), 0));
      },
      [&](GraphBuilder& g) {
        g.Output("y", CrossEntropy(in(g, "x", {3, 5}), ids(g)));
      },
      [&](GraphBuilder& g) {
        g.Output("y", CrossEntropyGrad(in(g, "x", {3, 5}), ids(g),
                                       in(g, "lse", {3}), in(g, "dy", {})));
      },
      [&](GraphBuilder& g) {
        g.Output("y", LinearCrossEntropy(in(g, "x", {3, 2}), in(g, "w", {5, 2}),
                                         ids(g), 2));
      },
      [&](GraphBuilder& g) {
        g.Output("y",
                 LinearCrossEntropyGrad(in(g, "x", {3, 2}), in(g, "w", {5, 2}),
                                        ids(g), in(g, "dy", {}), 2)
                     .dw);
      }};
  for (const Build& op : ops) {
    CHECK(code(op, {0, 4, 2}) == StepCode::kOk);
    CHECK(code(op, {0, 5, 2}) == StepCode::kIndexOutOfRange);
    CHECK(code(op, {0, 4, -1}) == StepCode::kIndexOutOfRange);
    CHECK(code(op, {2147483647, 4, 1}) == StepCode::kIndexOutOfRange);
  }
}

// --- Reductions and rows -----------------------------------------------------

TEST_CASE("reductions over any axes, of one piece and of many") {
  struct Case {
    Shape shape;
    Axes axes;
  };
  const std::vector<Case> cases = {
      {{70001}, {}},          {{1100, 37}, {0}},     {{1100, 37}, {1}},
      {{2, 40000}, {1}},      {{5, 301, 19}, {1}},   {{20, 50, 33}, {1}},
      {{9, 2500}, {0}},       {{33, 5, 77}, {0, 2}}, {{6, 7, 8, 9}, {0, 2}},
      {{6, 7, 8, 9}, {1, 3}}, {{4, 1, 3000}, {1}}};
  for (const Precision p : {kF32, kF64}) {
    for (const Case& c : cases) {
      CheckGraph(StrCat("reduce ", c.shape.ToString()), p.tolerance,
                 [&](GraphBuilder& g) {
                   const Value x = g.Input("x", p.dtype, c.shape);
                   g.Output("sum", ReduceSum(x, c.axes));
                   g.Output("mean", ReduceMean(x, c.axes));
                   g.Output("max", ReduceMax(x, c.axes));
                   g.Output("squares", SumSquares(x));
                   g.Output("where", ArgMax(x));
                 });
    }
  }
  CheckGraph("reduce of integers", 0, [](GraphBuilder& g) {
    const Value x = g.Input("x", DType::kI64, {33, 900});
    g.Output("sum", ReduceSum(x, {1}));
    g.Output("max", ReduceMax(x, {0}));
    g.Output("where", ArgMax(x));
  });
}

TEST_CASE("long sums lose little") {
  // A plain f32 sum of 2^22 numbers near 1 is off by some 1e-3 of its value.
  const Graph graph = MakeGraph("long sum", [](GraphBuilder& g) {
    g.Output("y", ReduceSum(Fill(g, 1.0009765625, DType::kF32, {1 << 22})));
    g.Output("z",
             ReduceSum(Fill(g, 1.0009765625, DType::kF32, {1 << 20, 4}), {0}));
  });
  const CpuRun run = RunOnCpu(graph, {});
  CHECK(run.values.at("y")[0] == doctest::Approx(4198400).epsilon(1e-6));
  CHECK(run.values.at("z")[3] == doctest::Approx(1049600).epsilon(1e-6));
}

TEST_CASE("softmaxes, norms and the loss on rows of every length") {
  for (const Precision p : {kF32, kF64}) {
    for (const Shape& shape :
         {Shape{3, 1}, Shape{5, 7}, Shape{700, 80}, Shape{31, 2100}}) {
      CheckGraph(
          StrCat("rows ", shape.ToString()), p.tolerance,
          [&](GraphBuilder& g) {
            const Value x = g.Input("x", p.dtype, shape);
            const Value dy = g.Input("dy", p.dtype, shape);
            const Shape rows{shape[0]};
            const Shape columns{shape[1]};
            const Value y = Softmax(x);
            const Value log_y = LogSoftmax(x);
            g.Output("softmax", y);
            g.Output("log_softmax", log_y);
            g.Output("softmax_grad", SoftmaxGrad(y, dy));
            g.Output("log_softmax_grad", LogSoftmaxGrad(log_y, dy));
            const Value gamma = g.Input("gamma", p.dtype, columns);
            const LayerNormGrads grads =
                LayerNormGrad(x, gamma, g.Input("mean", p.dtype, rows),
                              g.Input("rstd", p.dtype, rows), dy);
            g.Output("dx", grads.dx);
            g.Output("dgamma", grads.dgamma);
            g.Output("dbeta", grads.dbeta);
            const Value labels = g.Input("labels", DType::kI32, rows);
            g.Output("loss", CrossEntropy(x, labels));
            g.Output("dlogits",
                     CrossEntropyGrad(x, labels, g.Input("lse", p.dtype, rows),
                                      g.Input("dloss", p.dtype, {})));
            // The variance of a row of one element is 0.
            if (shape[1] == 1) return;
            g.Output("layer_norm",
                     LayerNorm(x, gamma, g.Input("beta", p.dtype, columns)));
          },
          shape[1]);
    }
  }
}

// --- What the CPU cannot do --------------------------------------------------

TEST_CASE("what stands in for an op of another framework is refused") {
  const Graph graph = MakeGraph("planned only", [](GraphBuilder& g) {
    const Value x = g.Input("x", DType::kF32, {2, 3});
    const Shape shape = {2, 4};
    g.Output("y", StandIn({&x, 1}, DType::kF32, {&shape, 1}, 48)[0]);
  });
  const Status status = cpu::Supports(graph, graph.node(0));
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kUnsupported);
  CHECK(status.error().message ==
        "[cpu] stand_in of \"y\" has no kernel; a graph that holds it can be "
        "planned, not run");
}

}  // namespace
}  // namespace stowage

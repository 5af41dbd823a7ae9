// Kernels on f16 and bf16 at sizes of several chunks and blocks, on views and in
// place of their operands: the bits of the f32 kernels, each result rounded once.
// (The op test table's cases, in op_cases_test.cc, are small.)

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cpu/kernel.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

Graph MakeGraph(const std::string& name,
                const std::function<void(GraphBuilder&)>& build) {
  GraphBuilder builder(name);
  build(builder);
  Result<Graph> graph = builder.Finish();
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  return std::move(graph).value();
}

// Floats: multiples of 1/64 between 0 and 2, which all float types hold; integers
// below 3.
Tensors PositiveLeaves(const Graph& graph) {
  std::mt19937_64 random(7);
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    std::vector<double>& x = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      x.push_back(IsFloat(value.type.dtype)
                      ? static_cast<double>(1 + random() % 127) / 64
                      : static_cast<double>(1 + random() % 2));
    }
  }
  return leaves;
}

void CheckAgainstF32Kernels(const Graph& graph) {
  CAPTURE(graph.name());
  const Tensors leaves = PositiveLeaves(graph);
  const CpuRun wide = RunOnCpu(testing::ByF32Kernels(graph), leaves);
  const CpuRun plain = RunOnCpu(graph, leaves);
  REQUIRE(wide.code == StepCode::kOk);
  REQUIRE(plain.code == StepCode::kOk);
  CHECK(plain.values == wide.values);
  for (const int threads : {1, 3}) {
    const CpuRun run = RunOnCpu(graph, leaves, {threads, true, true});
    CHECK(run.guards_intact);
    CHECK(run.heap_calls == 0);
    CHECK(run.bytes == plain.bytes);
  }
}

TEST_CASE("elementwise kernels take f16 and bf16, of any strides") {
  for (const DType half : {DType::kF16, DType::kBF16}) {
    CheckAgainstF32Kernels(MakeGraph("elementwise", [&](GraphBuilder& g) {
      const Value x = g.Input("x", half, {70, 531});
      const Value bias = g.Input("bias", half, {531});
      const Value column = g.Input("column", half, {70, 1});
      const Value turned = g.Input("turned", half, {531, 70});
      const Value seed = g.Input("seed", DType::kI64, {});
      g.Output("with a bias", GeluTanh(Add(x, bias)));
      g.Output("with a column", Mul(column, x));
      g.Output("of a transposed one", Sub(Transpose(turned), x));
      g.Output("over its operand", Exp(Tanh(Neg(x))));
      g.Output("chosen", Where(Less(x, bias), x, Transpose(turned)));
      g.Output("dropped", Dropout(x, seed, seed, 0.3, 5));
      g.Output("gated", Glu(x, Transpose(turned), GluActivation::kSilu));
    }));
  }
}

TEST_CASE("kernels with several results take f16 and bf16") {
  const Shape shape = {7, 5003};
  for (const DType half : {DType::kF16, DType::kBF16}) {
    CheckAgainstF32Kernels(MakeGraph("updates", [&](GraphBuilder& g) {
      const Value dy = g.Input("dy", half, shape);
      const Value lr = g.Input("lr", DType::kF32, {});
      const Value step = g.Input("step", DType::kI64, {});
      const AdamWResults adam =
          AdamWUpdate(g.Param("w", half, shape), g.State("m", half, shape),
                      g.State("v", half, shape), dy, lr, step, Value(), 0.9,
                      0.99, 1e-8, 0.1);
      g.Output("new w", adam.w);
      g.Output("new m", adam.m);
      g.Output("new v", adam.v);
      g.Output("sgd",
               SgdUpdate(g.Param("w2", half, shape), dy, lr, Value(), 0.1));
    }));
  }
}

TEST_CASE("other kernels compute in f32 on copies") {
  for (const DType half : {DType::kF16, DType::kBF16}) {
    CheckAgainstF32Kernels(MakeGraph("copies", [&](GraphBuilder& g) {
      const Value a = g.Input("a", half, {3, 150, 331});
      const Value b = g.Input("b", half, {3, 331, 140});
      const Value c = g.Input("c", half, {1, 331, 70});
      const Value turned = g.Input("turned", half, {331, 3, 150});
      g.Output("product", MatMul(a, b));
      g.Output("of one for all", MatMul(a, BroadcastTo(c, {3, 331, 70})));
      g.Output("of a turned one", MatMul(Permute(turned, {1, 2, 0}), b));
      g.Output("of turned ones", MatMul(b, a, true, true));
      g.Output("of parts",
               MatMul(Slice(a, 1, 20, 120), Slice(b, 2, 7, 97), false, false));
      g.Output("softmax", Softmax(a));
      g.Output("sum", ReduceSum(a, {0, 2}));
      const TopKResults top = TopK(a, 4, true);
      g.Output("values", top.values);
      g.Output("indices", top.indices);
      const Value images = g.Input("images", half, {2, 5, 33, 31});
      g.Output("conv", Conv(images, g.Input("filter", half, {7, 5, 3, 3}), {}));
    }));
  }
}

TEST_CASE("rows with many updates are summed in f32, and rounded once") {
  for (const DType half : {DType::kF16, DType::kBF16}) {
    CheckAgainstF32Kernels(MakeGraph("scatter_add", [&](GraphBuilder& g) {
      g.Output("y", ScatterAdd(g.Input("table", half, {9, 331}),
                               g.Input("rows", DType::kI32, {200}),
                               g.Input("updates", half, {200, 331})));
    }));
  }
}

// What `node` asks for with two threads.
Bytes Scratch(const Graph& graph, const Node& node) {
  OpArgsStorage storage;
  const OpArgs args = MakeOpArgs(graph, node, &storage);
  const TensorType result = graph.value(node.results[0]).type;
  const auto workspace = cpu::KernelOf(graph, node).workspace;
  return workspace == nullptr ? 0 : workspace(args, {&result, 1}, 2);
}

TEST_CASE(
    "scratch is a copy of each operand and result, and the kernel's own") {
  const auto scratch = [](DType dtype) {
    const Graph graph = MakeGraph("scratch", [&](GraphBuilder& g) {
      const Value a = g.Input("a", dtype, {48, 32});
      g.Output("s", Softmax(a));
      g.Output("z", Exp(a));
      g.Output("y", ReduceSum(a, {1}));
    });
    return std::vector{Scratch(graph, graph.node(0)),
                       Scratch(graph, graph.node(1)),
                       Scratch(graph, graph.node(2))};
  };
  const std::vector<Bytes> f32 = scratch(DType::kF32);
  const std::vector<Bytes> bf16 = scratch(DType::kBF16);
  CHECK(bf16[0] - f32[0] == 4 * 2 * 48 * 32);
  CHECK(bf16[1] == 0);
  CHECK(bf16[2] - f32[2] == 4 * (48 * 32 + 48));
}

TEST_CASE("a product's scratch does not grow with its operands") {
  const auto scratch = [](int64_t rows) {
    const Graph graph = MakeGraph("product", [&](GraphBuilder& g) {
      const Value a = g.Input("a", DType::kBF16, {rows, 1000});
      g.Output("y", MatMul(a, g.Input("b", DType::kBF16, {1000, 9 * rows})));
    });
    return Scratch(graph, graph.node(0));
  };
  CHECK(scratch(300) == scratch(30'000));
  CHECK(scratch(3) < scratch(300));
}

TEST_CASE("an op of the program's own is computed in f32 where it can be") {
  // 3 x, by a kernel for f32 alone; and as an op whose result is always bf16.
  static const auto run = [](const Launch& launch,
                             cpu::ThreadPool&) noexcept -> StepCode {
    for (int64_t i = 0; i < launch.outputs[0].size(); ++i) {
      launch.outputs[0].as<float>()[i] =
          3 * launch.inputs[0].as<const float>()[i];
    }
    return StepCode::kOk;
  };
  const cpu::CpuKernel kernel = {
      .run = run, .workspace = nullptr, .supports = [](const OpArgs& args) {
        return args.type(0).dtype == DType::kF32;
      }};
  const auto thrice = DefineOp(
      "widened_test_thrice", {.infer = [](const OpArgs& args) {
        return Result<std::vector<TensorType>>(std::vector{args.type(0)});
      }});
  const auto to_bf16 =
      DefineOp("widened_test_to_bf16", {.infer = [](const OpArgs& args) {
                 return Result<std::vector<TensorType>>(
                     std::vector{TensorType{DType::kBF16, args.shape(0)}});
               }});
  REQUIRE(thrice.ok());
  REQUIRE(to_bf16.ok());
  REQUIRE(cpu::DefineKernel(*thrice, kernel).ok());
  REQUIRE(cpu::DefineKernel(*to_bf16, kernel).ok());
  const auto graph = [](OpKind op, DType dtype) {
    return MakeGraph("own op", [&](GraphBuilder& g) {
      const Value x = g.Input("x", dtype, {3});
      g.Output("y", g.Name("h", g.Emit(op, {&x, 1}, {})[0]));
    });
  };
  const Graph bf16 = graph(*thrice, DType::kBF16);
  // 387/128 lies halfway between the bf16 numbers 193/64 and 194/64.
  CHECK(RunOnCpu(bf16, {{"x", {1, -2.5, 129.0 / 128}}}).values["y"] ==
        std::vector<double>{3, -7.5, 194.0 / 64});

  for (const Graph& refused :
       {graph(*thrice, DType::kF64), graph(*to_bf16, DType::kBF16)}) {
    const Status status = cpu::Supports(refused, refused.node(0));
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kUnsupported);
    CHECK(
        status.error().message.find("of \"h\" is not computed in this element "
                                    "type: \"x\" is ") != std::string::npos);
  }
}

}  // namespace
}  // namespace stowage

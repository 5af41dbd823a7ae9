// What matmul asks of a queue: how operands that are views are described, what
// becomes of leading dimensions, how much scratch there is.

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/kernel.h"
#include "gpu/queue.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "runtime/kernel.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

class Recorder : public gpu::Queue {
 public:
  void Launch(const gpu::KernelCall&) override { ++others; }
  void MatMul(const gpu::MatMulCall& call) override { calls.push_back(call); }
  void Fill(std::byte*, uint8_t, Bytes) override { ++others; }
  void Copy(std::byte*, const std::byte*, Bytes) override { ++others; }
  gpu::FaultSlot fault() const override { return {}; }

  std::vector<gpu::MatMulCall> calls;
  int others = 0;
};

struct Recorded {
  std::vector<gpu::MatMulCall> calls;
  // Where the operands and the result start.
  const std::byte* a;
  const std::byte* b;
  const std::byte* y;
};

// Runs the one matmul of the graph, at made-up addresses.
Recorded Record(const Graph& graph) {
  const Layouts layouts = ComputeLayouts(graph);
  Recorder recorder;
  Recorded recorded = {};
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != OpKind::kMatMul) continue;
    std::vector<TensorView> views;
    const auto add = [&](ValueId value) {
      const Layout& layout = layouts[static_cast<size_t>(value)];
      const auto base = static_cast<uintptr_t>(layout.root + 1) << 32;
      views.push_back({reinterpret_cast<std::byte*>(base) + layout.byte_offset,
                       graph.value(value).type, layout.strides});
    };
    for (const ValueId input : node.inputs) add(input);
    add(node.results[0]);
    const std::span<const TensorView> all = views;
    gpu::GetKernel(node.op).enqueue({.op = node.op,
                                     .node = id,
                                     .attrs = &node.attrs,
                                     .inputs = all.first(2),
                                     .outputs = all.last(1),
                                     .workspace = {}},
                                    recorder);
    recorded = {recorder.calls, views[0].data, views[1].data, views[2].data};
  }
  CHECK(recorder.others == 0);
  return recorded;
}

TEST_CASE(
    "transposes are flags and columns of a view are rows of its transpose") {
  for (const bool flag : {false, true}) {
    for (const bool view : {false, true}) {
      const Graph graph = MakeGraph("product", [&](GraphBuilder& g) {
        // As it enters the product, a is (3, 5).
        Value a =
            g.Input("a", DType::kF32, flag != view ? Shape{5, 3} : Shape{3, 5});
        if (view) a = Transpose(a);
        const Value b = g.Input("b", DType::kF32, {5, 7});
        g.Output("y", MatMul(a, b, flag));
      });
      const Recorded recorded = Record(graph);
      REQUIRE(recorded.calls.size() == 1);
      const gpu::MatMulCall& call = recorded.calls[0];
      CHECK(call.m == 3);
      CHECK(call.n == 7);
      CHECK(call.k == 5);
      CHECK(call.batch == 1);
      CHECK(call.a.transposed == (flag != view));
      CHECK(call.a.stride == (flag != view ? 3 : 5));
      CHECK(!call.b.transposed);
      CHECK(call.b.stride == 7);
      CHECK(call.c_stride == 7);
      CHECK(!call.accumulate);
      CHECK(call.a.data == recorded.a);
      CHECK(call.c == recorded.y);
    }
  }
}

TEST_CASE("leading dimensions are rows where b is one matrix") {
  const Graph graph = MakeGraph("linear", [](GraphBuilder& g) {
    const Value x = g.Input("x", DType::kBF16, {4, 6, 5});
    const Value w = g.Input("w", DType::kBF16, {8, 5});
    g.Output("y", MatMul(x, w, false, true));
  });
  const Recorded recorded = Record(graph);
  REQUIRE(recorded.calls.size() == 1);
  CHECK(recorded.calls[0].m == 24);
  CHECK(recorded.calls[0].batch == 1);
  CHECK(recorded.calls[0].b.transposed);
}

TEST_CASE("vectors in a batch are the rows of one matrix") {
  const Graph graph = MakeGraph("vectors", [](GraphBuilder& g) {
    const Value x = g.Input("x", DType::kF32, {9, 2, 5});
    const Value w = g.Input("w", DType::kF32, {5, 3});
    g.Output("y", MatMul(Slice(x, 1, 1, 2), w));
  });
  const Recorded recorded = Record(graph);
  REQUIRE(recorded.calls.size() == 1);
  CHECK(recorded.calls[0].m == 9);
  CHECK(recorded.calls[0].a.stride == 10);
}

TEST_CASE("what is transposed stays a batch") {
  const Graph graph = MakeGraph("batch", [](GraphBuilder& g) {
    const Value a = g.Input("a", DType::kF32, {4, 5, 6});
    const Value b = g.Input("b", DType::kF32, {5, 3});
    g.Output("y", MatMul(a, b, true));
  });
  const Recorded recorded = Record(graph);
  REQUIRE(recorded.calls.size() == 1);
  const gpu::MatMulCall& call = recorded.calls[0];
  CHECK(call.m == 6);
  CHECK(call.batch == 4);
  CHECK(call.a.batch_stride == 30);
  CHECK(call.b.batch_stride == 0);
  CHECK(call.c_batch_stride == 18);
}

// (batch, length, heads, depth), seen as (batch, heads, length, depth).
Graph Heads(int64_t batch, int64_t heads) {
  return MakeGraph("heads", [&](GraphBuilder& g) {
    const Shape shape{batch, 5, heads, 3};
    const Value q = Permute(g.Input("q", DType::kF32, shape), {0, 2, 1, 3});
    const Value k = Permute(g.Input("k", DType::kF32, shape), {0, 2, 1, 3});
    g.Output("y", MatMul(q, k, false, true));
  });
}

TEST_CASE("of leading dimensions that are no one batch, the largest is") {
  const Recorded recorded = Record(Heads(2, 4));
  REQUIRE(recorded.calls.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const gpu::MatMulCall& call = recorded.calls[i];
    CHECK(call.batch == 4);
    CHECK(call.a.stride == 12);
    CHECK(call.a.batch_stride == 3);
    CHECK(call.c_batch_stride == 25);
    CHECK(call.a.data == recorded.a + i * 60 * sizeof(float));
    CHECK(call.b.data == recorded.b + i * 60 * sizeof(float));
    CHECK(call.c == recorded.y + i * 100 * sizeof(float));
  }
  const Recorded other = Record(Heads(7, 2));
  REQUIRE(other.calls.size() == 2);
  CHECK(other.calls[0].batch == 7);
  CHECK(other.calls[0].a.batch_stride == 30);
  CHECK(other.calls[0].c_batch_stride == 50);
}

TEST_CASE("products of views agree with the interpreter in all types") {
  for (const DType dtype : kComputedDTypes) {
    const Graph graph = MakeGraph("views", [&](GraphBuilder& g) {
      const Value x = g.Input("x", dtype, {3, 4, 2, 6});
      const Value heads = Permute(x, {0, 2, 1, 3});
      g.Output("of heads", MatMul(heads, heads, false, true));
      const Value w = g.Input("w", dtype, {6, 9});
      g.Output("of columns", MatMul(heads, Slice(w, 1, 2, 7)));
      g.Output("of a transpose",
               MatMul(Transpose(w), g.Input("v", dtype, {6, 1})));
      g.Output("of a vector",
               MatMul(g.Input("r", dtype, {2, 1, 9}), w, false, true));
      g.Output("of one for all",
               MatMul(BroadcastTo(g.Input("o", dtype, {1, 4, 6}), {3, 4, 6}),
                      g.Input("t", dtype, {3, 6, 2})));
    });
    CheckAgainstInterpreter(graph, RandomLeaves(graph), ToleranceOf(dtype));
  }
}

Bytes WorkspaceOf(const Shape& a, const Shape& b) {
  const Graph graph = MakeGraph("product", [&](GraphBuilder& g) {
    g.Output("y", MatMul(g.Input("a", DType::kBF16, a),
                         g.Input("b", DType::kBF16, b)));
  });
  OpArgsStorage storage;
  const Node& node = graph.node(0);
  const std::vector<TensorType> results = {graph.value(node.results[0]).type};
  return gpu::GetKernel(node.op).workspace(MakeOpArgs(graph, node, &storage),
                                           results);
}

TEST_CASE("scratch is eight times an f32 result, and at most 32 MiB") {
  CHECK(WorkspaceOf({1, 5}, {5, 1}) == 256);
  CHECK(WorkspaceOf({64, 5}, {5, 64}) == 8 * 64 * 64 * 4);
  CHECK(WorkspaceOf({3, 7, 5}, {5, 11}) == 7424);  // 7392, rounded up
  CHECK(WorkspaceOf({1024, 5}, {5, 1024}) == Bytes{32} << 20);
  CHECK(WorkspaceOf({4096, 5}, {5, 4096}) == Bytes{32} << 20);
}

// Of x^T dy, (m, n), with the sums of dy's columns.
Bytes WorkspaceWithSums(int64_t k, int64_t m, int64_t n) {
  GraphBuilder g("g");
  const std::vector<Value> operands = {g.Input("x", DType::kF32, {k, m}),
                                       g.Input("dy", DType::kF32, {k, n})};
  g.Output("dw", g.Emit(OpKind::kEpilogueMatMul, operands,
                        {{"transpose_a", int64_t{1}},
                         {"transpose_b", int64_t{0}},
                         {"bias", int64_t{0}},
                         {"addend", int64_t{0}},
                         {"gelu_grad", int64_t{0}},
                         {"a_sums", int64_t{0}},
                         {"b_sums", int64_t{1}}})[0]);
  const Graph graph = *g.Finish();
  const Node& node = graph.node(0);
  std::vector<TensorType> results;
  for (const ValueId id : node.results) {
    results.push_back(graph.value(id).type);
  }
  OpArgsStorage storage;
  return gpu::GetKernel(node.op).workspace(MakeOpArgs(graph, node, &storage),
                                           results);
}

TEST_CASE("sums of an operand take their bytes from the product's scratch") {
  CHECK(WorkspaceWithSums(64, 128, 130) == 8 * 128 * 130 * 4 - 768);
  CHECK(WorkspaceWithSums(64, 1024, 1024) == (Bytes{32} << 20) - 4096);
  CHECK(WorkspaceWithSums(5, 1, 5) == 0);
  // Where the library lacks them, 1015 pieces of 69 rows are summed by themselves.
  CHECK(WorkspaceWithSums(70000, 1, 4) == 1015 * 4 * 4);
}

}  // namespace
}  // namespace stowage

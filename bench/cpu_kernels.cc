// Times each CPU kernel at the sizes of a small GPT's training step: batch 12, 64 positions
// (768 rows), 128 channels, 4 heads of 32, vocabulary 80. Prints microseconds, and Gflop/s or
// GB/s of operands and results.
//
//   bazel run -c opt //bench:cpu_kernels -- [threads]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "cpu/kernel.h"
#include "cpu/thread_pool.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/ops.h"

namespace stowage {
namespace {

constexpr int64_t kBatch = 12;
constexpr int64_t kLength = 64;
constexpr int64_t kRows = kBatch * kLength;
constexpr int64_t kChannels = 128;
constexpr int64_t kHeads = 4;
constexpr int64_t kHeadSize = 32;
constexpr int64_t kVocabulary = 80;

// Memory for every root of a graph, filled so that no kernel meets anything
// unusual: small floats, indices of 1.
class Memory {
 public:
  explicit Memory(const Graph& graph) : layouts_(ComputeLayouts(graph)) {
    for (ValueId id = 0; id < graph.num_values(); ++id) {
      const ValueInfo& value = graph.value(id);
      std::vector<std::byte>& bytes = roots_.emplace_back();
      if (layouts_[static_cast<size_t>(id)].root != id) continue;
      bytes.resize(static_cast<size_t>(value.type.bytes()));
      for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
        if (value.type.dtype == DType::kF32) {
          reinterpret_cast<float*>(bytes.data())[i] =
              0.01f + 1e-4f * static_cast<float>(i % 977);
        } else if (value.type.dtype == DType::kI32) {
          reinterpret_cast<int32_t*>(bytes.data())[i] =
              static_cast<int32_t>(i * 7 % kVocabulary);
        } else if (value.type.dtype == DType::kI64) {
          reinterpret_cast<int64_t*>(bytes.data())[i] = 1;
        }
      }
    }
  }
  TensorView View(const Graph& graph, ValueId id) {
    const Layout& layout = layouts_[static_cast<size_t>(id)];
    return {
        roots_[static_cast<size_t>(layout.root)].data() + layout.byte_offset,
        graph.value(id).type, layout.strides};
  }

 private:
  Layouts layouts_;
  std::vector<std::vector<std::byte>> roots_;
};

// The fastest of many calls: what the kernel can do when nothing disturbs it.
double SecondsPerCall(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int i = 0; i < 300; ++i) {
    const auto start = Clock::now();
    call();
    const std::chrono::duration<double> time = Clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

class Bench {
 public:
  explicit Bench(int threads) : pool_(threads) {}

  // Times the last node that `build` makes.
  void Time(const std::string& name,
            const std::function<void(GraphBuilder&)>& build) {
    GraphBuilder builder(name);
    build(builder);
    const Result<Graph> built = builder.Finish();
    STOWAGE_CHECK(built.ok());
    const Graph& graph = *built;
    const NodeId last = graph.num_nodes() - 1;
    const Node& node = graph.node(last);
    const cpu::CpuKernel& kernel = cpu::GetKernel(node.op);
    STOWAGE_CHECK(kernel.run != nullptr);

    Memory memory(graph);
    OpArgsStorage storage;
    const OpArgs args = MakeOpArgs(graph, node, &storage);
    std::vector<TensorView> inputs;
    std::vector<TensorView> outputs;
    std::vector<TensorType> results;
    Bytes moved = 0;
    for (const ValueId id : node.inputs) {
      inputs.push_back(memory.View(graph, id));
      moved += inputs.back().type.bytes();
    }
    for (const ValueId id : node.results) {
      outputs.push_back(memory.View(graph, id));
      results.push_back(outputs.back().type);
      moved += results.back().bytes();
    }
    const Bytes scratch =
        kernel.workspace == nullptr
            ? 0
            : kernel.workspace(args, results, pool_.threads());
    std::vector<std::byte> workspace(
        static_cast<size_t>(scratch + cpu::kWorkspaceAlignment));
    void* aligned = workspace.data();
    size_t space = workspace.size();
    std::align(static_cast<size_t>(cpu::kWorkspaceAlignment),
               static_cast<size_t>(scratch), aligned, space);
    const Launch launch = {
        node.op,
        last,
        &node.attrs,
        inputs,
        outputs,
        {static_cast<std::byte*>(aligned), static_cast<size_t>(scratch)}};
    const double seconds = SecondsPerCall(
        [&] { STOWAGE_CHECK(kernel.run(launch, pool_) == StepCode::kOk); });
    std::printf("%-34s %8.1f us %8.1f Gflop/s %7.1f GB/s\n", name.c_str(),
                seconds * 1e6, NodeFlops(graph, node) / seconds * 1e-9,
                static_cast<double>(moved) / seconds * 1e-9);
  }

 private:
  cpu::ThreadPool pool_;
};

Value F32(GraphBuilder& g, const char* name, const Shape& shape) {
  return g.Param(name, DType::kF32, shape);
}

void MatMuls(Bench& bench, int64_t k, int64_t n) {
  const std::string size = StrCat(kRows, "x", k, "x", n);
  bench.Time("matmul x w " + size, [&](GraphBuilder& g) {
    MatMul(F32(g, "x", {kRows, k}), F32(g, "w", {k, n}));
  });
  bench.Time("matmul dy w^T " + size, [&](GraphBuilder& g) {
    MatMul(F32(g, "dy", {kRows, n}), F32(g, "w", {k, n}), false, true);
  });
  bench.Time("matmul x^T dy " + size, [&](GraphBuilder& g) {
    MatMul(F32(g, "x", {kRows, k}), F32(g, "dy", {kRows, n}), true, false);
  });
}

void Elementwise(Bench& bench) {
  const Shape hidden = {kRows, 4 * kChannels};
  const Shape rows = {kRows, kChannels};
  bench.Time("add", [&](GraphBuilder& g) {
    Add(F32(g, "a", rows), F32(g, "b", rows));
  });
  bench.Time("add bias", [&](GraphBuilder& g) {
    Add(F32(g, "a", hidden), F32(g, "b", {4 * kChannels}));
  });
  bench.Time("relu", [&](GraphBuilder& g) { Relu(F32(g, "x", hidden)); });
  bench.Time("exp", [&](GraphBuilder& g) { Exp(F32(g, "x", hidden)); });
  bench.Time("gelu_tanh",
             [&](GraphBuilder& g) { GeluTanh(F32(g, "x", hidden)); });
  bench.Time("gelu_tanh_grad", [&](GraphBuilder& g) {
    GeluTanhGrad(F32(g, "x", hidden), F32(g, "dy", hidden));
  });
  bench.Time("gelu_erf",
             [&](GraphBuilder& g) { GeluErf(F32(g, "x", hidden)); });
  bench.Time("gelu_erf_grad", [&](GraphBuilder& g) {
    GeluErfGrad(F32(g, "x", hidden), F32(g, "dy", hidden));
  });
  bench.Time("dropout", [&](GraphBuilder& g) {
    Dropout(F32(g, "x", rows), g.Input("seed", DType::kI64, {}),
            g.Input("step", DType::kI64, {}), 0.1, 0);
  });
  bench.Time("copy of a transposition",
             [&](GraphBuilder& g) { Copy(Transpose(F32(g, "x", rows))); });
}

void Layers(Bench& bench) {
  const Shape rows = {kRows, kChannels};
  bench.Time("reduce_sum over rows (bias)", [&](GraphBuilder& g) {
    ReduceSum(F32(g, "x", {kRows, 4 * kChannels}), {0});
  });
  bench.Time("reduce_sum over columns", [&](GraphBuilder& g) {
    ReduceSum(F32(g, "x", {kRows, 4 * kChannels}), {1});
  });
  bench.Time("sum_squares", [&](GraphBuilder& g) {
    SumSquares(F32(g, "x", {4 * kChannels, kChannels}));
  });
  bench.Time("layer_norm", [&](GraphBuilder& g) {
    LayerNorm(F32(g, "x", rows), F32(g, "gamma", {kChannels}),
              F32(g, "beta", {kChannels}));
  });
  bench.Time("layer_norm_grad", [&](GraphBuilder& g) {
    LayerNormGrad(F32(g, "x", rows), F32(g, "gamma", {kChannels}),
                  F32(g, "mean", {kRows}), F32(g, "rstd", {kRows}),
                  F32(g, "dy", rows));
  });
  bench.Time("softmax", [&](GraphBuilder& g) {
    Softmax(F32(g, "x", {kRows, kVocabulary}));
  });
  bench.Time("cross_entropy", [&](GraphBuilder& g) {
    CrossEntropy(F32(g, "x", {kRows, kVocabulary}),
                 g.Input("labels", DType::kI32, {kRows}));
  });
  bench.Time("cross_entropy_grad", [&](GraphBuilder& g) {
    CrossEntropyGrad(F32(g, "x", {kRows, kVocabulary}),
                     g.Input("labels", DType::kI32, {kRows}),
                     F32(g, "lse", {kRows}), F32(g, "dloss", {}));
  });
  bench.Time("gather", [&](GraphBuilder& g) {
    Gather(F32(g, "table", {kVocabulary, kChannels}),
           g.Input("ids", DType::kI32, {kRows}));
  });
  bench.Time("scatter_add", [&](GraphBuilder& g) {
    ScatterAdd(F32(g, "base", {kVocabulary, kChannels}),
               g.Input("ids", DType::kI32, {kRows}), F32(g, "dy", rows));
  });
  bench.Time("adamw_update", [&](GraphBuilder& g) {
    const Shape w = {kChannels, 4 * kChannels};
    AdamWUpdate(F32(g, "w", w), g.State("m", DType::kF32, w),
                g.State("v", DType::kF32, w), F32(g, "g", w),
                g.Input("lr", DType::kF32, {}),
                g.Input("step", DType::kI64, {}), Value(), 0.9, 0.999, 1e-8,
                0.01);
  });
}

void CausalHeads(Bench& bench, int64_t batch, int64_t length) {
  const std::string size = StrCat(" ", batch, "x", length);
  const Shape packed = {batch, length, 3, kHeads, kHeadSize};
  const Shape heads = {batch, length, kHeads, kHeadSize};
  // q, k and v as views of one product.
  const auto qkv = [&](GraphBuilder& g) {
    std::vector<Value> parts = Split(F32(g, "qkv", packed), 2, {1, 1, 1});
    for (Value& part : parts) part = Reshape(part, heads);
    return parts;
  };
  bench.Time("attention" + size, [&](GraphBuilder& g) {
    const std::vector<Value> p = qkv(g);
    CausalAttention(p[0], p[1], p[2]);
  });
  bench.Time("attention_grad" + size, [&](GraphBuilder& g) {
    const std::vector<Value> p = qkv(g);
    AttentionGrad(p[0], p[1], p[2], F32(g, "o", heads),
                  F32(g, "lse", {batch, kHeads, length}), F32(g, "d_o", heads),
                  {.causal = true});
  });
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  std::printf("%d threads\n", threads);
  stowage::Bench bench(threads);
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{128, 384},
                             {128, 128},
                             {128, 512},
                             {512, 128},
                             {128, 80}}) {
    stowage::MatMuls(bench, k, n);
  }
  stowage::Elementwise(bench);
  stowage::Layers(bench);
  stowage::CausalHeads(bench, stowage::kBatch, stowage::kLength);
  stowage::CausalHeads(bench, 4, 256);
}

#include "tests/cpu/run_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/sanitizers.h"
#include "cpu/blocking.h"
#include "cpu/kernel.h"
#include "cpu/thread_pool.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/support/elements.h"
#include "tests/support/instances.h"

#if STOWAGE_SANITIZER_HAS_MALLOC || !defined(__GLIBC__)
#define STOWAGE_COUNTS_MALLOC 0
#else
#define STOWAGE_COUNTS_MALLOC 1
#endif

namespace {
std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_heap_calls{0};
}  // namespace

#if STOWAGE_COUNTS_MALLOC
// Every way to the heap goes through these, operator new included.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* malloc(size_t size) {
  if (g_counting.load(std::memory_order_relaxed)) ++g_heap_calls;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  if (g_counting.load(std::memory_order_relaxed)) ++g_heap_calls;
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  if (g_counting.load(std::memory_order_relaxed)) ++g_heap_calls;
  return __libc_realloc(old, size);
}
}
#endif

namespace stowage {
namespace {

using cpu::CpuKernel;
using cpu::KernelOf;
using cpu::ThreadPool;

constexpr size_t kAlignment = 64;

class Runner {
 public:
  Runner(const Graph& graph, const CpuRunOptions& options)
      : graph_(graph),
        options_(options),
        layouts_(ComputeLayouts(graph)),
        buffers_(static_cast<size_t>(graph.num_values())),
        holder_(static_cast<size_t>(graph.num_values())) {
    for (ValueId id = 0; id < graph.num_values(); ++id) {
      holder_[static_cast<size_t>(id)] = layout(id).root;
    }
  }

  CpuRun Run(const Tensors& leaves) {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (graph_.value(id).is_leaf()) {
        Write(id, leaves.at(graph_.value(id).name));
      }
    }
    for (NodeId node = 0; node < graph_.num_nodes(); ++node) {
      run_.code = RunNode(node);
      if (run_.code != StepCode::kOk) break;
    }
    for (const GuardedBuffer& buffer : buffers_) {
      if (buffer.size() > 0) run_.guards_intact &= buffer.intact();
    }
    if (run_.code != StepCode::kOk) return run_;
    for (const GraphOutput& output : graph_.outputs()) {
      Read(output.name, output.value);
    }
    return run_;
  }

 private:
  const Layout& layout(ValueId id) const {
    return layouts_[static_cast<size_t>(id)];
  }
  size_t NextShift() {
    return options_.misaligned ? 8 * (1 + shifts_++ % 7) : 0;
  }
  GuardedBuffer& Allocate(ValueId root) {
    GuardedBuffer& buffer = buffers_[static_cast<size_t>(root)];
    buffer =
        GuardedBuffer(graph_.value(root).type.bytes(), kAlignment, NextShift());
    return buffer;
  }
  // First byte of a value's root.
  std::byte* Base(ValueId id) {
    const ValueId root = layout(id).root;
    return buffers_[static_cast<size_t>(holder_[static_cast<size_t>(root)])]
        .data();
  }
  TensorView View(ValueId id) {
    return {Base(id) + layout(id).byte_offset, graph_.value(id).type,
            layout(id).strides};
  }

  void Write(ValueId leaf, const std::vector<double>& elements) {
    const TensorType& type = graph_.value(leaf).type;
    STOWAGE_CHECK(static_cast<int64_t>(elements.size()) ==
                  type.shape.num_elements());
    std::byte* to = Allocate(leaf).data();
    for (size_t i = 0; i < elements.size(); ++i) {
      EncodeElement(type.dtype, elements[i],
                    to + static_cast<Bytes>(i) * SizeOf(type.dtype));
    }
  }
  void Read(const std::string& name, ValueId id) {
    const TensorType& type = graph_.value(id).type;
    const std::byte* from = Base(id);
    std::vector<double>& values = run_.values[name];
    std::vector<std::byte>& bytes = run_.bytes[name];
    for (int64_t i = 0; i < type.shape.num_elements(); ++i) {
      const std::byte* element = from + ElementOffset(i, type, layout(id));
      values.push_back(DecodeElement(type.dtype, element));
      bytes.insert(bytes.end(), element, element + SizeOf(type.dtype));
    }
  }

  // Whether nothing but operand `i` of `node` reads that operand's root, from
  // now on or at the end.
  bool LastUse(NodeId node, size_t i) const {
    const ValueId root = layout(graph_.node(node).inputs[i]).root;
    for (NodeId at = node; at < graph_.num_nodes(); ++at) {
      const Node& reader = graph_.node(at);
      for (size_t k = 0; k < reader.inputs.size(); ++k) {
        if (at == node && k == i) continue;
        if (layout(reader.inputs[k]).root == root) return false;
      }
    }
    return std::none_of(
        graph_.outputs().begin(), graph_.outputs().end(),
        [&](const GraphOutput& o) { return layout(o.value).root == root; });
  }

  bool Overwrites(NodeId id, size_t i) const {
    const Node& node = graph_.node(id);
    const ValueId input = node.inputs[i];
    const TensorType& type = graph_.value(input).type;
    return HasInput(GetOpDef(node.op).may_overwrite, i) &&
           layout(input).byte_offset == 0 &&
           IsContiguous(type.shape, layout(input).strides) &&
           type.bytes() == graph_.value(layout(input).root).type.bytes() &&
           type.bytes() == graph_.value(node.results[0]).type.bytes() &&
           LastUse(id, i);
  }

  void PlaceResults(NodeId id) {
    const Node& node = graph_.node(id);
    const int updates = GetOpDef(node.op).updates;
    for (size_t r = static_cast<size_t>(updates); r < node.results.size();
         ++r) {
      const ValueId result = node.results[r];
      for (size_t i = 0; options_.overwrite && r == 0 && i < node.inputs.size();
           ++i) {
        if (!Overwrites(id, i)) continue;
        holder_[static_cast<size_t>(result)] =
            holder_[static_cast<size_t>(layout(node.inputs[i]).root)];
        ++run_.overwritten;
        break;
      }
      if (holder_[static_cast<size_t>(result)] == result) Allocate(result);
    }
  }

  StepCode RunNode(NodeId id) {
    const Node& node = graph_.node(id);
    const CpuKernel& kernel = KernelOf(graph_, node);
    if (kernel.run == nullptr) return StepCode::kOk;
    const Status supported = cpu::Supports(graph_, node);
    REQUIRE_MESSAGE(supported.ok(),
                    (supported.ok() ? "" : supported.error().message));
    PlaceResults(id);
    OpArgsStorage storage;
    const OpArgs args = MakeOpArgs(graph_, node, &storage);
    std::vector<TensorType> results;
    std::vector<TensorView> inputs;
    std::vector<TensorView> outputs;
    for (const ValueId input : node.inputs) inputs.push_back(View(input));
    for (const ValueId result : node.results) {
      results.push_back(graph_.value(result).type);
      outputs.push_back(View(result));
    }
    ThreadPool& pool = Pool(options_.threads);
    GuardedBuffer workspace(
        kernel.workspace == nullptr
            ? 0
            : kernel.workspace(args, results, options_.threads),
        kAlignment);
    const Launch launch = {node.op,     id,
                           &node.attrs, inputs,
                           outputs,     {workspace.data(), workspace.size()}};
    const std::optional<cpu::Blocking> blocking = BlockingOf(kernel, launch);
    g_heap_calls = 0;
    g_counting = true;
    const StepCode code = blocking ? kernel.run_blocked(launch, pool, *blocking)
                                   : kernel.run(launch, pool);
    g_counting = false;
    run_.heap_calls += g_heap_calls;
    run_.guards_intact &= workspace.intact();
    run_.scratch_written |=
        std::any_of(workspace.data(), workspace.data() + workspace.size(),
                    [](std::byte b) { return b != std::byte{0xFF}; });
    return code;
  }

  // The candidate asked for, once its trial has run in the memory it names.
  std::optional<cpu::Blocking> BlockingOf(const CpuKernel& kernel,
                                          const Launch& launch) {
    if (!options_.candidate || kernel.trial == nullptr) return std::nullopt;
    const std::optional<cpu::BlockingTrial> trial =
        kernel.trial(launch, options_.threads);
    if (!trial) return std::nullopt;
    const std::vector<cpu::Blocking>& all = trial->candidates;
    run_.candidates = std::max(run_.candidates, all.size());
    const cpu::Blocking chosen = all[*options_.candidate % all.size()];
    GuardedBuffer memory(trial->bytes, kAlignment);
    std::memset(memory.data(), 0x3c, static_cast<size_t>(trial->bytes));
    trial->run(memory.data(), chosen, Pool(options_.threads));
    run_.guards_intact &= memory.intact();
    return chosen;
  }

  static ThreadPool& Pool(int threads) {
    static std::map<int, std::unique_ptr<ThreadPool>> pools;
    std::unique_ptr<ThreadPool>& pool = pools[threads];
    if (pool == nullptr) pool = std::make_unique<ThreadPool>(threads);
    return *pool;
  }

  const Graph& graph_;
  const CpuRunOptions options_;
  const Layouts layouts_;
  std::vector<GuardedBuffer> buffers_;  // by the root they were made for
  std::vector<ValueId> holder_;         // by root: whose buffer holds it
  CpuRun run_;
  size_t shifts_ = 0;
};

}  // namespace

CpuRun RunOnCpu(const Graph& graph, const Tensors& leaves,
                const CpuRunOptions& options) {
  return Runner(graph, options).Run(leaves);
}

void CheckAgainstInterpreter(const Graph& graph, const Tensors& leaves,
                             double tolerance) {
  CAPTURE(graph.name());
  Tensors expected = Interpret(graph, leaves, Rounding::kTo16Bits);
  const CpuRun plain = RunOnCpu(graph, leaves);
  REQUIRE(plain.code == StepCode::kOk);
  for (const auto& output : plain.values) {
    const std::string& name = output.first;
    CAPTURE(name);
    REQUIRE(output.second.size() == expected[name].size());
    CHECK(LargestError(output.second, expected[name]) <= tolerance);
  }
  for (const int threads : testing::Instances<int>({3, 1, 2})) {
    for (const bool misaligned : {false, true}) {
      for (const bool overwrite : {false, true}) {
        CAPTURE(threads);
        CAPTURE(misaligned);
        CAPTURE(overwrite);
        const CpuRun run =
            RunOnCpu(graph, leaves, {threads, misaligned, overwrite});
        CHECK(run.code == StepCode::kOk);
        CHECK(run.guards_intact);
        CHECK(run.heap_calls == 0);
        CHECK(run.bytes == plain.bytes);
      }
    }
  }
}

Graph MakeGraph(const std::string& name, const Build& build) {
  GraphBuilder builder(name);
  build(builder);
  Result<Graph> graph = builder.Finish();
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  return std::move(graph).value();
}

Tensors RandomLeaves(const Graph& graph, int64_t limit) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> real(-1, 1);
  std::uniform_int_distribution<int64_t> sixty_fourths(-63, 63);
  std::uniform_int_distribution<int64_t> integer(0, limit - 1);
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    const DType dtype = value.type.dtype;
    std::vector<double>& x = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      if (!IsFloat(dtype)) {
        x.push_back(static_cast<double>(integer(random)));
      } else if (SizeOf(dtype) == 2) {
        x.push_back(static_cast<double>(sixty_fourths(random)) / 64);
      } else {
        x.push_back(static_cast<double>(real(random)));
      }
    }
  }
  return leaves;
}

void CheckGraph(const std::string& name, double tolerance, const Build& build,
                int64_t limit) {
  const Graph graph = MakeGraph(name, build);
  CheckAgainstInterpreter(graph, RandomLeaves(graph, limit), tolerance);
}

}  // namespace stowage

namespace stowage::testing {
namespace {

bool IsHalf(DType dtype) { return IsFloat(dtype) && SizeOf(dtype) == 2; }

DType F32ForHalf(DType dtype) { return IsHalf(dtype) ? DType::kF32 : dtype; }

}  // namespace

Graph ByF32Kernels(const Graph& graph) {
  GraphBuilder g(graph.name());
  std::vector<Value> values(static_cast<size_t>(graph.num_values()));
  std::vector<Value> contents = values;  // as kernels make them, to write over
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    if (!info.is_leaf()) continue;
    ValueInfo leaf = info;
    leaf.type.dtype = F32ForHalf(info.type.dtype);
    values[static_cast<size_t>(id)] = g.LeafLike(leaf);
    contents[static_cast<size_t>(id)] = values[static_cast<size_t>(id)];
  }
  for (const Node& node : graph.nodes()) {
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs) {
      const bool is_target =
          inputs.size() < static_cast<size_t>(GetOpDef(node.op).updates);
      inputs.push_back(
          (is_target ? contents : values)[static_cast<size_t>(id)]);
    }
    Attrs attrs = node.attrs;
    if (attrs.Find("dtype") != nullptr) {
      attrs.Set("dtype", F32ForHalf(attrs.Type("dtype")));
    }
    const std::vector<Value> results = g.Emit(node.op, inputs, attrs);
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueInfo& info = graph.value(node.results[r]);
      const DType dtype = info.type.dtype;
      Value& content = contents[static_cast<size_t>(node.results[r])];
      content = results[r];
      // What only moves is rounded already.
      const bool is_rounded = IsHalf(dtype) && !GetOpDef(node.op).is_view() &&
                              !info.on_host && node.op != OpKind::kReload;
      values[static_cast<size_t>(node.results[r])] =
          is_rounded ? Cast(Cast(results[r], dtype), DType::kF32) : results[r];
      if (is_rounded && static_cast<int>(r) < GetOpDef(node.op).updates) {
        content = Assign(content, values[static_cast<size_t>(node.results[r])]);
      }
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    g.Output(output.name, values[static_cast<size_t>(output.value)]);
  }
  Result<Graph> finished = g.Finish();
  REQUIRE_MESSAGE(finished.ok(), finished.error().message);
  return *std::move(finished);
}

}  // namespace stowage::testing

#include "tests/gpu/run_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/queue.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "ir/uses.h"
#include "runtime/kernel.h"
#include "tests/gpu/grid_runner.h"
#include "tests/support/elements.h"
#include "tests/support/instances.h"

namespace stowage {
namespace {

using gpu::GpuKernel;

constexpr auto kAlignment = static_cast<size_t>(gpu::kSlotAlignment);

class Runner {
 public:
  Runner(const Graph& graph, const GpuRunOptions& options)
      : graph_(graph),
        options_(options),
        layouts_(ComputeLayouts(graph)),
        uses_(graph, layouts_),
        buffers_(static_cast<size_t>(graph.num_values())),
        holder_(static_cast<size_t>(graph.num_values())),
        queue_({.seed = options.seed,
                .warp_by_warp = options.warp_by_warp,
                .report = &run_.wrong}) {
    if (options.refuse_epilogues) queue_.refuse_epilogues();
    queue_.set_attention(options.attention);
    for (ValueId id = 0; id < graph.num_values(); ++id) {
      holder_[static_cast<size_t>(id)] = layout(id).root;
    }
  }

  GpuRun Run(const Tensors& leaves) {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (graph_.value(id).is_leaf()) {
        Write(id, leaves.at(graph_.value(id).name));
      }
    }
    for (NodeId node = 0; node < graph_.num_nodes() && run_.wrong.empty();) {
      node = RunFrom(node);
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const GuardedBuffer& buffer = buffers_[static_cast<size_t>(id)];
      if (buffer.size() > 0 && !buffer.intact()) {
        Blame(StrCat("bytes beside ", Quoted(graph_.value(id).name),
                     " were written"));
      }
    }
    run_.grids = queue_.kernels();
    run_.fault = queue_.has_fault();
    if (!run_.wrong.empty()) return run_;
    for (const GraphOutput& output : graph_.outputs()) {
      Read(output.name, output.value);
    }
    return run_;
  }

 private:
  // A launch with what it points to.
  struct Call {
    std::vector<TensorView> inputs, outputs;
    GuardedBuffer workspace;
  };

  void Blame(const std::string& what) {
    if (run_.wrong.empty()) run_.wrong = what;
  }
  const Layout& layout(ValueId id) const {
    return layouts_[static_cast<size_t>(id)];
  }
  GuardedBuffer& buffer(ValueId root) {
    return buffers_[static_cast<size_t>(holder_[static_cast<size_t>(root)])];
  }
  TensorView View(ValueId id) {
    return {buffer(layout(id).root).data() + layout(id).byte_offset,
            graph_.value(id).type, layout(id).strides};
  }

  bool IsUpdated(ValueId leaf) const {
    return uses_.overwriter(leaf) != kNoNode;
  }

  void Write(ValueId leaf, const std::vector<double>& elements) {
    const TensorType& type = graph_.value(leaf).type;
    STOWAGE_CHECK(static_cast<int64_t>(elements.size()) ==
                  type.shape.num_elements());
    size_t shift = 0;
    if (options_.misaligned && !IsUpdated(leaf)) {
      shift = static_cast<size_t>(SizeOf(type.dtype)) * (1 + shifts_++ % 7);
    }
    GuardedBuffer& to = buffers_[static_cast<size_t>(leaf)];
    to = GuardedBuffer(type.bytes(), kAlignment, shift);
    for (size_t i = 0; i < elements.size(); ++i) {
      EncodeElement(type.dtype, elements[i],
                    to.data() + static_cast<Bytes>(i) * SizeOf(type.dtype));
    }
  }
  void Read(const std::string& name, ValueId id) {
    const TensorType& type = graph_.value(id).type;
    const std::byte* from = buffer(layout(id).root).data();
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
      ValueId& holder = holder_[static_cast<size_t>(result)];
      for (size_t i = 0; options_.overwrite && r == 0 && i < node.inputs.size();
           ++i) {
        if (!Overwrites(id, i)) continue;
        holder = holder_[static_cast<size_t>(layout(node.inputs[i]).root)];
        ++run_.overwritten;
        break;
      }
      if (holder == result) {
        buffers_[static_cast<size_t>(result)] =
            GuardedBuffer(graph_.value(result).type.bytes(), kAlignment);
      }
    }
  }

  void Prepare(NodeId id, const GpuKernel& kernel, Call* call) {
    const Node& node = graph_.node(id);
    OpArgsStorage storage;
    const OpArgs args = MakeOpArgs(graph_, node, &storage);
    const Status supported = gpu::Supports(graph_, node);
    REQUIRE_MESSAGE(supported.ok(),
                    (supported.ok() ? "" : supported.error().message));
    PlaceResults(id);
    std::vector<TensorType> results;
    for (const ValueId input : node.inputs) {
      call->inputs.push_back(View(input));
    }
    for (const ValueId result : node.results) {
      results.push_back(graph_.value(result).type);
      call->outputs.push_back(View(result));
    }
    call->workspace = GuardedBuffer(
        kernel.workspace == nullptr ? 0 : kernel.workspace(args, results),
        kAlignment);
  }

  // Runs node `first`, and those after it that go into the same call; returns
  // the next node.
  NodeId RunFrom(NodeId first) {
    const OpKind op = graph_.node(first).op;
    const GpuKernel& kernel = gpu::GetKernel(op);
    if (kernel.enqueue == nullptr) {
      REQUIRE_MESSAGE(GetOpDef(op).is_view(), "no kernel: ", OpName(op));
      return first + 1;
    }
    NodeId end = first + 1;
    while (kernel.enqueue_many != nullptr && end < graph_.num_nodes() &&
           graph_.node(end).op == op) {
      ++end;
    }
    std::vector<Call> calls(static_cast<size_t>(end - first));
    std::vector<Launch> launches;
    for (NodeId id = first; id < end; ++id) {
      Call& call = calls[static_cast<size_t>(id - first)];
      Prepare(id, kernel, &call);
      launches.push_back({op,
                          id,
                          &graph_.node(id).attrs,
                          call.inputs,
                          call.outputs,
                          {call.workspace.data(), call.workspace.size()}});
    }
    const std::vector<std::vector<std::byte>> before = Unwritten(first, end);
    queue_.set_launch(static_cast<uint32_t>(first));
    queue_.set_memory(Operands(first, end, calls));
    if (kernel.enqueue_many != nullptr) {
      kernel.enqueue_many(launches, queue_);
    } else {
      kernel.enqueue(launches[0], queue_);
    }
    const std::string name{OpName(op)};
    if (Unwritten(first, end) != before) {
      Blame(StrCat("an operand of ", name, " was written"));
    }
    for (const Call& call : calls) {
      if (!call.workspace.intact()) {
        Blame(StrCat("bytes beside the workspace of ", name, " were written"));
      }
    }
    return end;
  }

  // The buffers that these nodes are given.
  std::vector<std::span<std::byte>> Operands(NodeId first, NodeId end,
                                             std::vector<Call>& calls) {
    std::vector<std::span<std::byte>> memory;
    const auto add = [&memory](GuardedBuffer& buffer) {
      memory.emplace_back(buffer.data(), buffer.size());
    };
    for (NodeId id = first; id < end; ++id) {
      for (const ValueId input : graph_.node(id).inputs) {
        add(buffer(layout(input).root));
      }
      for (const ValueId result : graph_.node(id).results) {
        add(buffer(layout(result).root));
      }
      add(calls[static_cast<size_t>(id - first)].workspace);
    }
    return memory;
  }

  // What the operands of these nodes hold that none of them may write.
  std::vector<std::vector<std::byte>> Unwritten(NodeId first, NodeId end) {
    std::vector<const GuardedBuffer*> written;
    for (NodeId id = first; id < end; ++id) {
      for (const ValueId result : graph_.node(id).results) {
        written.push_back(&buffer(layout(result).root));
      }
    }
    std::vector<std::vector<std::byte>> contents;
    for (NodeId id = first; id < end; ++id) {
      for (const ValueId input : graph_.node(id).inputs) {
        const GuardedBuffer& from = buffer(layout(input).root);
        if (std::find(written.begin(), written.end(), &from) == written.end()) {
          contents.emplace_back(from.data(), from.data() + from.size());
        }
      }
    }
    return contents;
  }

  const Graph& graph_;
  const GpuRunOptions options_;
  const Layouts layouts_;
  const Uses uses_;
  std::vector<GuardedBuffer> buffers_;  // by the root they were made for
  std::vector<ValueId> holder_;         // by root: whose buffer holds it
  GpuRun run_;
  testing::GridQueue queue_;
  size_t shifts_ = 0;
};

}  // namespace

GpuRun RunInEmulator(const Graph& graph, const Tensors& leaves,
                     const GpuRunOptions& options) {
  return Runner(graph, options).Run(leaves);
}

namespace {

bool HasAttentionOf16Bits(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
    return (node.op == OpKind::kAttention ||
            node.op == OpKind::kAttentionGrad ||
            node.op == OpKind::kAttentionQkvGrad) &&
           SizeOf(graph.value(node.inputs[0]).type.dtype) == 2;
  });
}

// Whether a gradient of attention takes a grid less where five products are wanted.
bool TakesFiveProducts(const Graph& graph, const Tensors& leaves) {
  return RunInEmulator(graph, leaves,
                       {.attention = gpu::AttentionAlgorithm::kFiveProducts})
             .grids < RunInEmulator(graph, leaves).grids;
}

struct Checked {
  GpuRun plain;
  int runs = 0;
};

// Attention is computed in that way. `if_misaligned` is what comes of misaligned operands,
// where that is not what comes of others.
Checked CheckOrders(const Graph& graph, const Tensors& leaves, double tolerance,
                    Tensors expected, gpu::AttentionAlgorithm way,
                    const GpuRun* if_misaligned = nullptr) {
  CAPTURE(way);
  const GpuRun plain = RunInEmulator(graph, leaves, {.attention = way});
  REQUIRE(plain.wrong == "");
  CHECK(!plain.fault);
  for (const auto& output : plain.values) {
    const std::string& name = output.first;
    CAPTURE(name);
    REQUIRE(output.second.size() == expected[name].size());
    CHECK(LargestError(output.second, expected[name]) <= tolerance);
  }
  int runs = 1;
  const std::vector<uint64_t> seeds =
      testing::TakesAllOrders() ? testing::Instances<uint64_t>({1, 2, 3})
                                : std::vector<uint64_t>{1};
  for (const uint64_t seed : seeds) {
    for (const bool misaligned : {false, true}) {
      for (const bool overwrite : {false, true}) {
        if (misaligned && overwrite) continue;  // results are aligned
        if (!testing::TakesAllOrders() && !misaligned && !overwrite) continue;
        CAPTURE(seed);
        CAPTURE(misaligned);
        CAPTURE(overwrite);
        const GpuRun run = RunInEmulator(graph, leaves,
                                         {.seed = seed,
                                          .misaligned = misaligned,
                                          .overwrite = overwrite,
                                          .attention = way});
        ++runs;
        CHECK(run.wrong == "");
        CHECK(run.bytes ==
              (misaligned && if_misaligned != nullptr ? *if_misaligned : plain)
                  .bytes);
      }
    }
  }
  const bool has_epilogue =
      std::ranges::any_of(graph.nodes(), [](const Node& node) {
        return node.op == OpKind::kEpilogueMatMul &&
               (node.attrs.Int("bias") == 1 ||
                node.attrs.Int("gelu_grad") == 1 ||
                node.attrs.Int("a_sums") == 1 || node.attrs.Int("b_sums") == 1);
      });
  if (has_epilogue) {
    const GpuRun apart =
        RunInEmulator(graph, leaves, {.seed = 5, .refuse_epilogues = true});
    ++runs;
    CHECK(apart.wrong == "");
    CHECK(apart.grids > plain.grids);
    for (const auto& output : apart.values) {
      CHECK(LargestError(output.second, expected[output.first]) <= tolerance);
    }
  }
  const GpuRun ahead = RunInEmulator(
      graph, leaves, {.seed = 4, .warp_by_warp = true, .attention = way});
  CHECK(ahead.wrong == "");
  CHECK(ahead.bytes == plain.bytes);
  return {plain, runs + 1};
}

}  // namespace

int CheckAgainstInterpreter(const Graph& graph, const Tensors& leaves,
                            double tolerance) {
  CAPTURE(graph.name());
  const Tensors expected = Interpret(graph, leaves, Rounding::kTo16Bits);
  const Checked by_warps = CheckOrders(graph, leaves, tolerance, expected,
                                       gpu::AttentionAlgorithm::kWarps);
  int runs = by_warps.runs;
  if (HasAttentionOf16Bits(graph)) {
    // Bulk copies take aligned rows alone.
    runs += CheckOrders(graph, leaves, tolerance, expected,
                        gpu::AttentionAlgorithm::kWarpgroups, &by_warps.plain)
                .runs;
    if (TakesFiveProducts(graph, leaves)) {
      runs += CheckOrders(graph, leaves, tolerance, expected,
                          gpu::AttentionAlgorithm::kFiveProducts)
                  .runs;
    }
  }
  return runs;
}

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF16:
      return 0x1p-10;
    default:
      return 1e-5;
  }
}

Tensors RandomLeaves(const Graph& graph, const LeafRange& range,
                     uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    std::vector<double>& elements = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
      const double x =
          IsFloat(value.type.dtype)
              ? range.low + uniform * (range.high - range.low)
              : std::floor(uniform * static_cast<double>(range.index_limit));
      std::byte stored[8];
      EncodeElement(value.type.dtype, x, stored);
      elements.push_back(DecodeElement(value.type.dtype, stored));
    }
  }
  return leaves;
}

}  // namespace stowage

#include "planner/lifetimes.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/strings.h"

namespace stowage {
namespace {

// When each root's content is wanted for the last time, in nodes; `upper` of
// the buffer before any merging.
std::vector<Time> LastUses(const Graph& graph, const Layouts& layouts) {
  const Time end = graph.num_nodes() + 1;  // the caller reads at num_nodes()
  std::vector<Time> upper(static_cast<size_t>(graph.num_values()), 0);
  const auto extend = [&](ValueId id, Time time) {
    Time& last =
        upper[static_cast<size_t>(layouts[static_cast<size_t>(id)].root)];
    last = std::max(last, time);
  };
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    for (const ValueId input : graph.node(n).inputs) extend(input, n + 1);
    for (const ValueId result : graph.node(n).results) extend(result, n + 1);
  }
  for (const GraphOutput& output : graph.outputs()) extend(output.value, end);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& value = graph.value(id);
    if (value.is_leaf()) extend(id, value.role == Role::kSaved ? 1 : end);
  }
  return upper;
}

Region RegionOfLeaf(const ValueInfo& leaf) {
  if (leaf.on_host) return Region::kHostState;
  switch (leaf.role) {
    case Role::kParam:
      return Region::kWeights;
    case Role::kState:
      return Region::kState;
    case Role::kInput:
      return Region::kIo;
    default:
      return Region::kActivations;  // a saved value arrives, is read, and dies
  }
}

class Builder {
 public:
  Builder(const Graph& graph, const LifetimeOptions& options)
      : graph_(graph), options_(options) {
    out_.layouts = ComputeLayouts(graph);
    out_.buffer_of.assign(static_cast<size_t>(graph.num_values()), -1);
    out_.workspace_of.assign(static_cast<size_t>(graph.num_nodes()), -1);
    upper_ = LastUses(graph, out_.layouts);
  }

  Lifetimes Build() {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueInfo& value = graph_.value(id);
      if (value.is_leaf()) AddBuffer(id, RegionOfLeaf(value), 0);
    }
    if (options_.reserve > 0) {
      out_.reserve = static_cast<int32_t>(out_.buffers.size());
      out_.buffers.push_back({"reserve of the backend", Region::kIo, 0,
                              graph_.num_nodes() + 1, options_.reserve});
    }
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) AddNode(n);
    return std::move(out_);
  }

 private:
  const Layout& layout(ValueId id) const {
    return out_.layouts[static_cast<size_t>(id)];
  }
  int32_t& buffer_of(ValueId id) {
    return out_.buffer_of[static_cast<size_t>(id)];
  }

  void AddBuffer(ValueId id, Region region, Time lower) {
    const ValueInfo& value = graph_.value(id);
    buffer_of(id) = static_cast<int32_t>(out_.buffers.size());
    out_.buffers.push_back({value.name, region, lower,
                            upper_[static_cast<size_t>(id)],
                            value.type.bytes()});
  }

  // The buffer of an operand that result 0 of node `n` may take over, or -1.
  int32_t BufferToTakeOver(NodeId n) const {
    const Node& node = graph_.node(n);
    const OpDef& def = GetOpDef(node.op);
    const Bytes bytes = graph_.value(node.results[0]).type.bytes();
    for (size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
      if ((def.may_overwrite >> i & 1) == 0) continue;
      const ValueId input = node.inputs[i];
      const int32_t candidate = out_.buffer_of[static_cast<size_t>(input)];
      const LiveBuffer& buffer = out_.buffers[static_cast<size_t>(candidate)];
      if (buffer.region == Region::kActivations && buffer.upper == n + 1 &&
          buffer.size == bytes && OnlyReadWhole(node, def, candidate)) {
        return candidate;
      }
    }
    return -1;
  }

  // Whether every operand in `buffer` covers all of it in order and is one the
  // kernel may overwrite: then no element is read after it has been written.
  bool OnlyReadWhole(const Node& node, const OpDef& def, int32_t buffer) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (out_.buffer_of[static_cast<size_t>(input)] != buffer) continue;
      const TensorType& type = graph_.value(input).type;
      if (i >= 32 || (def.may_overwrite >> i & 1) == 0 ||
          layout(input).byte_offset != 0 ||
          type.bytes() != out_.buffers[static_cast<size_t>(buffer)].size ||
          !IsContiguous(type.shape, layout(input).strides)) {
        return false;
      }
    }
    return true;
  }

  void AddNode(NodeId n) {
    const Node& node = graph_.node(n);
    const OpDef& def = GetOpDef(node.op);
    const int32_t taken =
        options_.in_place && def.may_overwrite != 0 ? BufferToTakeOver(n) : -1;
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueId result = node.results[r];
      if (layout(result).root != result) {
        buffer_of(result) = buffer_of(layout(result).root);
        if (def.is_view()) ++out_.views;
      } else if (r == 0 && taken >= 0) {
        buffer_of(result) = taken;
        LiveBuffer& buffer = out_.buffers[static_cast<size_t>(taken)];
        buffer.upper =
            std::max(buffer.upper, upper_[static_cast<size_t>(result)]);
        ++out_.in_place;
      } else {
        AddBuffer(result,
                  graph_.value(result).on_host ? Region::kHostStash
                                               : Region::kActivations,
                  n);
      }
    }
    const Bytes scratch =
        options_.workspace ? options_.workspace(graph_, node) : 0;
    if (scratch > 0) {
      out_.workspace_of[static_cast<size_t>(n)] =
          static_cast<int32_t>(out_.buffers.size());
      out_.buffers.push_back({StrCat("workspace of ", graph_.Describe(n)),
                              Region::kWorkspace, n, n + 1, scratch});
    }
  }

  const Graph& graph_;
  const LifetimeOptions& options_;
  Lifetimes out_;
  std::vector<Time> upper_;  // per root value
};

}  // namespace

std::string_view RegionName(Region region) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "weights",   "state",      "io",        "activations",
      "workspace", "host_state", "host_stash"};
  return kNames[static_cast<size_t>(region)];
}

Lifetimes ComputeLifetimes(const Graph& graph, const LifetimeOptions& options) {
  return Builder(graph, options).Build();
}

}  // namespace stowage

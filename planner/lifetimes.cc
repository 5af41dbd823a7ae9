#include "planner/lifetimes.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/op_def.h"
#include "ir/uses.h"

namespace stowage {
namespace {

// When each root's content has been used for the last time, in nodes; `upper` of
// the buffer before any merging. Leaves that are `handed` die as they do of a body.
std::vector<Time> LastUses(const Graph& graph, const Layouts& layouts,
                           const Uses& uses, const std::vector<bool>& handed) {
  const Time end = graph.num_nodes() + 1;  // the caller reads at num_nodes()
  std::vector<Time> upper(Index(graph.num_values()), 0);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (layouts[Index(id)].root != id) continue;
    const ValueInfo& value = graph.value(id);
    const bool persists =
        value.is_leaf() && value.role != Role::kSaved && !handed[Index(id)];
    const Time arrived = value.is_leaf() && !handed[Index(id)] ? 1 : 0;
    upper[Index(id)] = persists || uses.is_output(id)
                           ? end
                           : std::max(arrived, Time{uses.last_use(id)} + 1);
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
    case Role::kCache:
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
    out_.buffer_of.assign(Index(graph.num_values()), -1);
    out_.workspace_of.assign(Index(graph.num_nodes()), -1);
    handed_.assign(Index(graph.num_values()), false);
    if (!options.dying.empty()) {
      const std::vector<ValueId> leaves = LeavesOf(graph);
      for (size_t i = 0; i < leaves.size(); ++i) {
        handed_[Index(leaves[i])] = options.dying[i];
      }
    }
    const Uses uses(graph, out_.layouts);
    upper_ = LastUses(graph, out_.layouts, uses, handed_);
    for (const Exchange& each : ExchangesOf(graph, uses, out_.layouts)) {
      lands_[each.node] = each.lands;
    }
  }

  Lifetimes Build() {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueInfo& value = graph_.value(id);
      if (!value.is_leaf()) continue;
      const bool dies = handed_[Index(id)];
      AddBuffer(id, dies ? Region::kActivations : RegionOfLeaf(value), 0);
      if (dies) handed_in_.insert(buffer_of(id));
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
  const Layout& layout(ValueId id) const { return out_.layouts[Index(id)]; }
  int32_t& buffer_of(ValueId id) { return out_.buffer_of[Index(id)]; }

  void AddBuffer(ValueId id, Region region, Time lower) {
    const ValueInfo& value = graph_.value(id);
    buffer_of(id) = static_cast<int32_t>(out_.buffers.size());
    out_.buffers.push_back(
        {value.name, region, lower, upper_[Index(id)], value.type.bytes()});
  }

  // The buffer of an operand that result 0 of node `n` takes over, or -1. What a body
  // hands back does not stay in what it was handed.
  int32_t BufferToTakeOver(NodeId n) const {
    const Node& node = graph_.node(n);
    const InPlace in_place(graph_, out_.layouts, node);
    for (const ValueId input : node.inputs) {
      const int32_t candidate = out_.buffer_of[Index(input)];
      const LiveBuffer& buffer = out_.buffers[Index(candidate)];
      if (handed_in_.contains(candidate) &&
          upper_[Index(node.results[0])] > graph_.num_nodes()) {
        continue;
      }
      if (buffer.region == Region::kActivations && buffer.upper == n + 1 &&
          in_place.MayTakeOver(out_.layouts, node, layout(input).root)) {
        return candidate;
      }
    }
    return -1;
  }

  // Which operands of a cond die in its bodies: those that cover a buffer of their own
  // which dies at the node. The index is read before these begin.
  std::vector<bool> DyingIn(NodeId n) const {
    const Node& node = graph_.node(n);
    std::vector<bool> dying(node.inputs.size(), false);
    if (node.op != OpKind::kCond) return dying;
    std::unordered_map<int32_t, int> operands_in;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      ++operands_in[out_.buffer_of[Index(node.inputs[i])]];
    }
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const int32_t index = out_.buffer_of[Index(node.inputs[i])];
      const LiveBuffer& buffer = out_.buffers[Index(index)];
      dying[i] = buffer.region == Region::kActivations &&
                 buffer.upper == n + 1 && operands_in[index] == 1 &&
                 buffer.size == graph_.value(node.inputs[i]).type.bytes();
    }
    return dying;
  }

  Bytes ScratchOf(NodeId n) const {
    const Node& node = graph_.node(n);
    if (options_.bodies && !BodiesOf(node).empty()) {
      return options_.bodies(n, DyingIn(n));
    }
    return options_.workspace ? options_.workspace(graph_, node) : 0;
  }

  void AddNode(NodeId n) {
    const Node& node = graph_.node(n);
    const OpDef& def = GetOpDef(node.op);
    const int32_t taken = options_.in_place ? BufferToTakeOver(n) : -1;
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueId result = node.results[r];
      if (layout(result).root != result) {
        buffer_of(result) = buffer_of(layout(result).root);
        if (def.is_view()) ++out_.views;
      } else if (r == 0 && taken >= 0) {
        buffer_of(result) = taken;
        LiveBuffer& buffer = out_.buffers[Index(taken)];
        buffer.upper = std::max(buffer.upper, upper_[Index(result)]);
        ++out_.in_place;
      } else {
        AddBuffer(result,
                  graph_.value(result).on_host ? Region::kHostOffload
                                               : Region::kActivations,
                  n);
      }
    }
    if (const Bytes scratch = ScratchOf(n); scratch > 0) {
      out_.workspace_of[Index(n)] = static_cast<int32_t>(out_.buffers.size());
      out_.buffers.push_back({StrCat("workspace of ", graph_.Describe(n)),
                              Region::kWorkspace, n, n + 1, scratch});
    }
    const auto under_way = lands_.find(n);
    if (under_way != lands_.end()) KeepUntil(under_way->second, n);
  }

  // What an exchange works on is its own until it lands.
  void KeepUntil(NodeId lands, NodeId exchange) {
    const Node& node = graph_.node(exchange);
    const auto keep = [&](int32_t buffer) {
      Time& upper = out_.buffers[Index(buffer)].upper;
      upper = std::max(upper, Time{lands} + 1);
    };
    for (const ValueId id : node.inputs) keep(buffer_of(id));
    for (const ValueId id : node.results) keep(buffer_of(id));
    const int32_t scratch = out_.workspace_of[Index(exchange)];
    if (scratch >= 0) keep(scratch);
  }

  const Graph& graph_;
  const LifetimeOptions& options_;
  Lifetimes out_;
  std::vector<Time> upper_;                   // per root value
  std::vector<bool> handed_;                  // per value: a leaf that dies
  std::unordered_set<int32_t> handed_in_;     // the buffers that begin with one
  std::unordered_map<NodeId, NodeId> lands_;  // of exchanges
};

}  // namespace

std::string_view RegionName(Region region) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "weights",   "state",      "io",           "activations",
      "workspace", "host_state", "host_offload", "outside"};
  return kNames[static_cast<size_t>(region)];
}

Lifetimes ComputeLifetimes(const Graph& graph, const LifetimeOptions& options) {
  return Builder(graph, options).Build();
}

}  // namespace stowage

#include "planner/fit/recompute/trips.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/index.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage::fit {
namespace {

ValueId OutputOf(const Graph& body, size_t r) {
  return body.outputs()[r].value;
}

// A loop, the one that goes back, and which of the first one's stacked results that
// makes again.
struct Pair {
  NodeId forward = kNoNode;
  NodeId backward = kNoNode;
  std::vector<size_t> remade = {};  // results of `forward`
  std::vector<bool> needed =
      {};  // by value of its body: it must be there for these
};

// The value of its body that a loop copies to hand it back, if it is a leaf: what was
// carried into the trip.
std::optional<ValueId> CopiedLeaf(const Graph& body, ValueId output) {
  const ValueInfo& info = body.value(output);
  if (info.is_leaf()) return output;
  const Node& maker = body.node(info.producer);
  if (maker.op != OpKind::kCopy || !body.value(maker.inputs[0]).is_leaf()) {
    return std::nullopt;
  }
  return maker.inputs[0];
}

// What must be there for `wanted`, by value.
std::vector<bool> NeededFor(const Graph& body,
                            const std::vector<ValueId>& wanted) {
  std::vector<bool> needed(Index(body.num_values()), false);
  for (const ValueId id : wanted) needed[Index(id)] = true;
  for (NodeId n = body.num_nodes() - 1; n >= 0; --n) {
    const Node& node = body.node(n);
    const bool runs = std::ranges::any_of(
        node.results, [&](ValueId result) { return needed[Index(result)]; });
    if (!runs) continue;
    for (const ValueId input : node.inputs) needed[Index(input)] = true;
  }
  return needed;
}

bool HasCollectives(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return GetOpDef(node.op).collective ||
           std::ranges::any_of(BodiesOf(node), [](const auto& body) {
             return HasCollectives(*body);
           });
  });
}

class TripRemaker {
 public:
  TripRemaker(const Graph& graph, std::span<const std::string> kept)
      : graph_(graph), kept_(kept), layouts_(ComputeLayouts(graph)) {}

  Result<RemadeTrips> Run() {
    FindReaders();
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (graph_.node(id).op != OpKind::kLoop) continue;
      if (const auto pair = FindPair(id)) {
        by_backward_[pair->backward] = pairs_.size();
        by_forward_[id] = pairs_.size();
        pairs_.push_back(*pair);
      }
    }
    RemadeTrips made;
    if (pairs_.empty()) {
      made.graph = graph_;
      return made;
    }
    GraphBuilder g(graph_.name());
    GraphCopy copy(graph_, &g);
    copy.DeclareLeaves();
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (const auto pair = by_forward_.find(id); pair != by_forward_.end()) {
        STOWAGE_RETURN_IF_ERROR(CopyForward(pairs_[pair->second], &copy, &g));
      } else if (const auto back = by_backward_.find(id);
                 back != by_backward_.end()) {
        STOWAGE_RETURN_IF_ERROR(
            CopyBackward(pairs_[back->second], &copy, &g, &made));
      } else {
        copy.CopyNode(id);
      }
    }
    copy.DeclareOutputs();
    STOWAGE_ASSIGN_OR_RETURN(made.graph, g.Finish());
    return made;
  }

 private:
  // Of each value: its one reader, kNoNode for none, -2 for several, or an output.
  static constexpr NodeId kMany = -2;

  void FindReaders() {
    reader_.assign(Index(graph_.num_values()), kNoNode);
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      for (const ValueId input : graph_.node(id).inputs) {
        NodeId& reader = reader_[Index(input)];
        reader = reader == kNoNode || reader == id ? id : kMany;
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      reader_[Index(output.value)] = kMany;
    }
  }

  // What the loop `id` hands to one loop that goes back, and to nothing else.
  std::optional<Pair> FindPair(NodeId id) const {
    const Node& node = graph_.node(id);
    const LoopParts loop = PartsOfLoop(node);
    if (HasCollectives(loop.body) || IsKept(node)) return std::nullopt;
    Pair pair = {.forward = id};
    std::vector<ValueId> wanted;
    for (size_t r = loop.handed_on(); r < loop.outputs(); ++r) {
      if (CopiedLeaf(loop.body, OutputOf(loop.body, r))) continue;
      const NodeId reader = reader_[Index(node.results[r])];
      if (!GoesBack(loop, node, reader, node.results[r])) continue;
      if (pair.backward != kNoNode && pair.backward != reader) continue;
      pair.backward = reader;
      pair.remade.push_back(r);
      wanted.push_back(OutputOf(loop.body, r));
    }
    if (wanted.empty() || by_backward_.contains(pair.backward)) {
      return std::nullopt;
    }
    pair.needed = NeededFor(loop.body, wanted);
    if (IsOverwritten(pair, loop)) return std::nullopt;
    return pair;
  }

  bool IsKept(const Node& node) const {
    return std::ranges::any_of(node.results, [&](ValueId result) {
      return std::ranges::count(kept_, graph_.value(result).name) > 0;
    });
  }

  // Whether `reader` is a loop of a later phase that takes the slices of `value`, in
  // whichever order, and reads it as nothing else.
  bool GoesBack(const LoopParts& loop, const Node& node, NodeId reader,
                ValueId value) const {
    if (reader < 0) return false;
    const Node& back = graph_.node(reader);
    if (back.op != OpKind::kLoop || back.phase <= node.phase) return false;
    const LoopParts parts = PartsOfLoop(back);
    if (parts.trips != loop.trips) return false;
    for (size_t i = 0; i < parts.operands(); ++i) {
      if (back.inputs[i] == value && !parts.is_sliced(i)) return false;
    }
    return !HasCollectives(parts.body);
  }

  // Whether what the trips read from outside is another before they run again.
  bool IsOverwritten(const Pair& pair, const LoopParts& loop) const {
    const Node& node = graph_.node(pair.forward);
    const std::vector<ValueId> leaves = LeavesOf(loop.body);
    std::vector<ValueId> roots;
    for (size_t i = loop.carried; i < loop.operands(); ++i) {
      if (pair.needed[Index(leaves[i])]) {
        roots.push_back(layouts_[Index(node.inputs[i])].root);
      }
    }
    for (NodeId id = pair.forward; id < pair.backward; ++id) {
      const Node& between = graph_.node(id);
      for (int r = 0; r < GetOpDef(between.op).updates; ++r) {
        const ValueId target = between.inputs[static_cast<size_t>(r)];
        if (std::ranges::count(roots, layouts_[Index(target)].root) > 0) {
          return true;
        }
      }
    }
    return false;
  }

  std::string StackName(const Pair& pair, ValueId leaf) const {
    const Node& node = graph_.node(pair.forward);
    return StrCat(BodiesOf(node).front()->value(leaf).name, "@",
                  graph_.value(node.results[0]).name);
  }

  // Appends `node` with another body and other operands, its results called so.
  Status Emit(const Node& node, NodeId id, Graph body,
              const std::vector<Value>& operands, const LoopParts& kinds,
              const std::vector<std::string>& names, GraphCopy* copy,
              GraphBuilder* g, std::vector<Value>* results) const {
    Attrs attrs = node.attrs;
    attrs.Set("carried", static_cast<int64_t>(kinds.carried));
    attrs.Set("sliced", static_cast<int64_t>(kinds.sliced));
    attrs.Set("bodies",
              SubGraphs{std::make_shared<const Graph>(std::move(body))});
    copy->SetOrigin(id);
    *results = g->EmitNamed(OpKind::kLoop, operands, attrs, names);
    if (g->error()) return *g->error();
    return {};
  }

  // The loop without what is made again, but with what that takes from trip to trip.
  Status CopyForward(Pair& pair, GraphCopy* copy, GraphBuilder* g) {
    const Node& node = graph_.node(pair.forward);
    const LoopParts loop = PartsOfLoop(node);
    const std::vector<ValueId> leaves = LeavesOf(loop.body);
    std::vector<ValueId> outputs;
    std::vector<size_t> kept;  // results
    std::vector<std::string> names;
    for (size_t r = 0; r < loop.outputs(); ++r) {
      if (std::ranges::count(pair.remade, r) > 0) continue;
      outputs.push_back(OutputOf(loop.body, r));
      kept.push_back(r);
      names.push_back(graph_.value(node.results[r]).name);
    }
    std::vector<ValueId> stacks;  // leaves that are stacked from now on
    for (size_t handed = 0; handed < loop.handed_on(); ++handed) {
      const ValueId leaf = leaves[loop.leaf_of(handed)];
      if (!pair.needed[Index(leaf)] || StackOf(loop, leaf)) continue;
      stacks.push_back(leaf);
      outputs.push_back(leaf);
      std::string name = StackName(pair, leaf);
      while (graph_.Find(name) || g->Find(name)) name += "'";
      names.push_back(std::move(name));
    }
    STOWAGE_ASSIGN_OR_RETURN(Graph body, MakeBody(loop.body, leaves, outputs));
    std::vector<Value> operands, results;
    for (const ValueId input : node.inputs) operands.push_back((*copy)[input]);
    STOWAGE_RETURN_IF_ERROR(Emit(node, pair.forward, std::move(body), operands,
                                 loop, names, copy, g, &results));
    for (size_t k = 0; k < kept.size(); ++k) {
      const ValueId result = node.results[kept[k]];
      const Role role = graph_.value(result).role;
      g->SetRole(results[k], role == Role::kOutput ? Role::kActivation : role);
      copy->Map(result, results[k]);
    }
    for (size_t k = 0; k < stacks.size(); ++k) {
      carried_stacks_[{pair.forward, stacks[k]}] = results[kept.size() + k];
    }
    return {};
  }

  // The result that is `leaf` of every trip already, if there is one.
  static std::optional<size_t> StackOf(const LoopParts& loop, ValueId leaf) {
    for (size_t r = loop.handed_on(); r < loop.outputs(); ++r) {
      if (CopiedLeaf(loop.body, OutputOf(loop.body, r)) == leaf) return r;
    }
    return std::nullopt;
  }

  // The loop that goes back, in whose trips what was handed to it is made again.
  Status CopyBackward(const Pair& pair, GraphCopy* copy, GraphBuilder* g,
                      RemadeTrips* made) {
    const Node& node = graph_.node(pair.forward);
    const Node& back = graph_.node(pair.backward);
    const LoopParts forward = PartsOfLoop(node);
    const LoopParts backward = PartsOfLoop(back);
    const std::vector<ValueId> forward_leaves = LeavesOf(forward.body);
    const std::vector<ValueId> back_leaves = LeavesOf(backward.body);

    GraphBuilder body(backward.body.name());
    GraphCopy trip(forward.body, &body);
    GraphCopy rest(backward.body, &body);
    std::vector<Value> operands;           // of the node
    std::vector<ValueId> leaves;           // of the body, in their order
    std::map<ValueId, ValueId> of_remade;  // a leaf of `rest`: of `trip`
    const auto is_remade = [&](ValueId operand) -> std::optional<size_t> {
      for (const size_t r : pair.remade) {
        if (node.results[r] == operand) return r;
      }
      return std::nullopt;
    };
    const auto declare = [&](const ValueInfo& info) {
      ValueInfo leaf = {.name = info.name,
                        .type = info.type,
                        .role = info.role,
                        .source = info.source};
      while (body.Find(leaf.name)) leaf.name += "'";
      return body.LeafLike(leaf);
    };
    const auto add = [&](Value operand, Value leaf) {
      operands.push_back(operand);
      leaves.push_back(leaf.id());
    };
    // Operands of one kind: first those there were, then what the trip reads, unless it
    // is there.
    std::map<std::pair<ValueId, bool>, Value> at_hand;  // by operand and kind
    const auto add_given = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const ValueId operand = back.inputs[i];
        if (const auto r = is_remade(operand)) {
          of_remade[back_leaves[i]] = OutputOf(forward.body, *r);
          continue;
        }
        const Value leaf = declare(backward.body.value(back_leaves[i]));
        rest.Map(back_leaves[i], leaf);
        add((*copy)[operand], leaf);
        if (i >= backward.carried) {
          at_hand[{operand, backward.is_sliced(i)}] = leaf;
        }
      }
    };
    const auto add_read = [&](size_t i) {
      const ValueId id = forward_leaves[i];
      if (!pair.needed[Index(id)]) return;
      const std::pair key(node.inputs[i], forward.is_sliced(i));
      if (const auto known = at_hand.find(key); known != at_hand.end()) {
        trip.Map(id, known->second);
        return;
      }
      const Value leaf = declare(forward.body.value(id));
      trip.Map(id, leaf);
      add((*copy)[node.inputs[i]], leaf);
    };
    const size_t sliced_end = backward.carried + backward.sliced;
    add_given(0, sliced_end);
    for (size_t handed = 0; handed < forward.handed_on(); ++handed) {
      const ValueId id = forward_leaves[forward.leaf_of(handed)];
      if (!pair.needed[Index(id)]) continue;
      const auto r = StackOf(forward, id);
      const auto known =
          r ? at_hand.find({node.results[*r], true}) : at_hand.end();
      if (known != at_hand.end()) {
        trip.Map(id, known->second);
        continue;
      }
      const Value leaf = declare(forward.body.value(id));
      trip.Map(id, leaf);
      add(r ? (*copy)[node.results[*r]]
            : carried_stacks_.at({pair.forward, id}),
          leaf);
    }
    for (size_t i = forward.carried; i < forward.operands(); ++i) {
      if (forward.is_sliced(i)) add_read(i);
    }
    const size_t sliced = operands.size() - backward.carried;
    add_given(sliced_end, backward.operands());
    for (size_t i = forward.carried; i < forward.operands(); ++i) {
      if (!forward.is_sliced(i)) add_read(i);
    }
    for (size_t i = backward.operands(); i < back_leaves.size(); ++i) {
      const Value leaf = declare(backward.body.value(back_leaves[i]));
      rest.Map(back_leaves[i], leaf);
      leaves.push_back(leaf.id());
    }

    RemadeLoop again;
    again.backward = graph_.value(back.results[0]).name;
    Remade& told = again.told;
    told.name = graph_.value(node.results[0]).name;
    told.times = static_cast<int>(forward.trips);
    const auto trips = static_cast<double>(forward.trips);
    for (NodeId n = 0; n < forward.body.num_nodes(); ++n) {
      const Node& each = forward.body.node(n);
      const bool runs = std::ranges::any_of(each.results, [&](ValueId result) {
        return pair.needed[Index(result)];
      });
      if (!runs) continue;
      trip.CopyNode(n);
      if (GetOpDef(each.op).is_view()) continue;
      told.flops += trips * NodeFlops(forward.body, each);
      again.nodes_again += static_cast<int>(forward.trips);
    }
    for (const size_t r : pair.remade) {
      told.freed += graph_.value(node.results[r]).type.bytes();
    }
    const double of_loop = NodeFlops(graph_, node);
    again.part = of_loop > 0 ? told.flops / of_loop : 0;
    made->loops.push_back(std::move(again));
    for (const auto& [leaf, of_trip] : of_remade) rest.Map(leaf, trip[of_trip]);
    for (NodeId n = 0; n < backward.body.num_nodes(); ++n) rest.CopyNode(n);
    std::vector<ValueId> outputs;
    for (size_t r = 0; r < backward.outputs(); ++r) {
      const Value output = rest[OutputOf(backward.body, r)];
      if (!output.ok()) break;
      outputs.push_back(output.id());
    }
    if (body.error()) return *body.error();
    STOWAGE_ASSIGN_OR_RETURN(Graph joined,
                             MakeBody(body.graph(), leaves, outputs));
    std::vector<std::string> names;
    for (const ValueId result : back.results) {
      names.push_back(graph_.value(result).name);
    }
    LoopParts kinds = {
        .body = backward.body, .carried = backward.carried, .sliced = sliced};
    std::vector<Value> results;
    STOWAGE_RETURN_IF_ERROR(Emit(back, pair.backward, std::move(joined),
                                 operands, kinds, names, copy, g, &results));
    for (size_t r = 0; r < back.results.size(); ++r) {
      const Role role = graph_.value(back.results[r]).role;
      g->SetRole(results[r], role == Role::kOutput ? Role::kActivation : role);
      copy->Map(back.results[r], results[r]);
    }
    return {};
  }

  const Graph& graph_;
  const std::span<const std::string> kept_;
  const Layouts layouts_;
  std::vector<NodeId> reader_;  // by value
  std::vector<Pair> pairs_;
  std::map<NodeId, size_t> by_forward_, by_backward_;  // in pairs_
  // What a loop carries into each trip and stacks for it: by loop and leaf of its body.
  std::map<std::pair<NodeId, ValueId>, Value> carried_stacks_;
};

}  // namespace

Result<RemadeTrips> RemakeTrips(const Graph& graph,
                                std::span<const std::string> kept) {
  return TripRemaker(graph, kept).Run();
}

}  // namespace stowage::fit

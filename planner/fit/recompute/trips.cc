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
#include "planner/fit/recompute/trip_segments.h"

namespace stowage::fit {
namespace {

class TripRemaker {
 public:
  TripRemaker(const Graph& graph, const TripOptions& options)
      : graph_(graph), pairs_(FindTripPairs(graph, options)) {}

  Result<RemadeTrips> Run() {
    RemadeTrips made;
    if (pairs_.empty()) {
      made.graph = graph_;
      return made;
    }
    GraphBuilder g(graph_.name());
    GraphCopy copy(graph_, &g);
    copy.DeclareLeaves();
    std::map<NodeId, size_t> by_loop;
    std::vector<std::unique_ptr<TripSegments>> segments(pairs_.size());
    for (size_t k = 0; k < pairs_.size(); ++k) {
      by_loop[pairs_[k].forward] = k;
      by_loop[pairs_[k].backward] = k;
      made.loops.push_back(Tell(pairs_[k]));
      if (pairs_[k].segment == 1) continue;
      segments[k] =
          std::make_unique<TripSegments>(graph_, pairs_[k], &copy, &g);
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      made.begins.push_back(g.graph().num_nodes());
      const auto at = by_loop.find(id);
      if (at == by_loop.end()) {
        copy.CopyNode(id);
        continue;
      }
      const TripPair& pair = pairs_[at->second];
      TripSegments* const in_segments = segments[at->second].get();
      RemadeLoop& loop = made.loops[at->second];
      const bool is_forward = id == pair.forward;
      if (in_segments != nullptr) {
        STOWAGE_RETURN_IF_ERROR(is_forward ? in_segments->CopyForward()
                                           : in_segments->CopyBackward());
      } else {
        STOWAGE_RETURN_IF_ERROR(is_forward ? CopyForward(pair, &copy, &g)
                                           : CopyBackward(pair, &copy, &g));
      }
      // The views of what a segment stacks follow it.
      NodeId emitted = g.graph().num_nodes() - 1;
      while (g.graph().node(emitted).op != OpKind::kLoop) --emitted;
      const Node& node = g.graph().node(emitted);
      (is_forward ? loop.forward_now : loop.backward_now) =
          g.graph().value(node.results[0]).name;
    }
    copy.DeclareOutputs();
    STOWAGE_ASSIGN_OR_RETURN(made.graph, g.Finish());
    return made;
  }

 private:
  // What is told of a pair.
  RemadeLoop Tell(const TripPair& pair) const {
    const Node& node = graph_.node(pair.forward);
    const LoopParts forward = PartsOfLoop(node);
    const Node& back = graph_.node(pair.backward);
    RemadeLoop again = {.segment = pair.segment};
    again.backward = graph_.value(back.results[0]).name;
    Remade& told = again.told;
    told.name = graph_.value(node.results[0]).name;
    told.times = static_cast<int>(forward.trips);
    const auto trips = static_cast<double>(forward.trips);
    for (const Node& each : forward.body.nodes()) {
      if (!IsNeeded(each, pair.needed) || GetOpDef(each.op).is_view()) continue;
      told.flops += trips * NodeFlops(forward.body, each);
      again.nodes_again += static_cast<int>(forward.trips);
    }
    for (const auto* results : {&pair.made, &pair.carried_in}) {
      for (const size_t r : *results) {
        told.freed += graph_.value(node.results[r]).type.bytes();
      }
    }
    const double of_loop = NodeFlops(graph_, node);
    again.part = of_loop > 0 ? told.flops / of_loop : 0;
    return again;
  }

  std::string StackName(const TripPair& pair, ValueId leaf) const {
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
  Status CopyForward(const TripPair& pair, GraphCopy* copy, GraphBuilder* g) {
    const Node& node = graph_.node(pair.forward);
    const LoopParts loop = PartsOfLoop(node);
    const std::vector<ValueId> leaves = LeavesOf(loop.body);
    std::vector<ValueId> outputs;
    std::vector<size_t> kept;  // results
    std::vector<std::string> names;
    for (size_t r = 0; r < loop.outputs(); ++r) {
      if (std::ranges::count(pair.made, r) > 0) continue;
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

  // The loop that goes back, in whose trips what was handed to it is made again.
  Status CopyBackward(const TripPair& pair, GraphCopy* copy, GraphBuilder* g) {
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
      for (const size_t r : pair.made) {
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

    for (NodeId n = 0; n < forward.body.num_nodes(); ++n) {
      if (IsNeeded(forward.body.node(n), pair.needed)) trip.CopyNode(n);
    }
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
  const std::vector<TripPair> pairs_;
  // What a loop carries into each trip and stacks for it: by loop and leaf of its body.
  std::map<std::pair<NodeId, ValueId>, Value> carried_stacks_;
};

}  // namespace

Result<RemadeTrips> RemakeTrips(const Graph& graph,
                                const TripOptions& options) {
  return TripRemaker(graph, options).Run();
}

}  // namespace stowage::fit

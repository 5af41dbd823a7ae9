#include "planner/fit/recompute/iterations.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage::fit {

namespace {

class IterationRecomputer {
 public:
  IterationRecomputer(const Graph& graph, const IterationOptions& options)
      : graph_(graph), pairs_(FindIterationPairs(graph, options)) {}

  Result<RecomputedIterations> Run() {
    RecomputedIterations made;
    if (pairs_.empty()) {
      made.graph = graph_;
      return made;
    }
    GraphBuilder g(graph_.name());
    GraphCopy copy(graph_, &g);
    copy.DeclareLeaves();
    std::map<NodeId, size_t> by_loop;
    std::vector<std::unique_ptr<IterationSegments>> segments(pairs_.size());
    for (size_t k = 0; k < pairs_.size(); ++k) {
      by_loop[pairs_[k].forward] = k;
      by_loop[pairs_[k].backward] = k;
      made.loops.push_back(Tell(pairs_[k]));
      if (pairs_[k].segment == 1) continue;
      segments[k] =
          std::make_unique<IterationSegments>(graph_, pairs_[k], &copy, &g);
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      made.begins.push_back(g.graph().num_nodes());
      const auto at = by_loop.find(id);
      if (at == by_loop.end()) {
        copy.CopyNode(id);
        continue;
      }
      const IterationPair& pair = pairs_[at->second];
      IterationSegments* const in_segments = segments[at->second].get();
      RecomputedLoop& loop = made.loops[at->second];
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
  RecomputedLoop Tell(const IterationPair& pair) const {
    const Node& node = graph_.node(pair.forward);
    const LoopParts forward = PartsOfLoop(node);
    const Node& back = graph_.node(pair.backward);
    RecomputedLoop again = {.segment = pair.segment};
    again.backward = graph_.value(back.results[0]).name;
    RecomputedNode& told = again.told;
    told.name = graph_.value(node.results[0]).name;
    told.times = static_cast<int>(forward.iterations);
    const auto iterations = static_cast<double>(forward.iterations);
    for (const Node& each : forward.body.nodes()) {
      if (!IsNeeded(each, pair.needed) || GetOpDef(each.op).is_view()) continue;
      told.flops += iterations * NodeFlops(forward.body, each);
      again.nodes_again += static_cast<int>(forward.iterations);
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

  std::string StackName(const IterationPair& pair, ValueId leaf) const {
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

  // The loop without what is made again, but with what that takes from iteration to iteration.
  Status CopyForward(const IterationPair& pair, GraphCopy* copy,
                     GraphBuilder* g) {
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

  // The loop that goes back, in whose iterations what was handed to it is made again.
  Status CopyBackward(const IterationPair& pair, GraphCopy* copy,
                      GraphBuilder* g) {
    const Node& node = graph_.node(pair.forward);
    const Node& back = graph_.node(pair.backward);
    const LoopParts forward = PartsOfLoop(node);
    const LoopParts backward = PartsOfLoop(back);
    const std::vector<ValueId> forward_leaves = LeavesOf(forward.body);
    const std::vector<ValueId> back_leaves = LeavesOf(backward.body);

    GraphBuilder body(backward.body.name());
    GraphCopy iteration(forward.body, &body);
    GraphCopy rest(backward.body, &body);
    std::vector<Value> operands;  // of the node
    std::vector<ValueId> leaves;  // of the body, in their order
    std::map<ValueId, ValueId>
        of_recomputed;  // a leaf of `rest`: of `iteration`
    const auto is_recomputed = [&](ValueId operand) -> std::optional<size_t> {
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
    // Operands of one kind: first those there were, then what the iteration reads, unless it
    // is there.
    std::map<std::pair<ValueId, bool>, Value> at_hand;  // by operand and kind
    const auto add_given = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const ValueId operand = back.inputs[i];
        if (const auto r = is_recomputed(operand)) {
          of_recomputed[back_leaves[i]] = OutputOf(forward.body, *r);
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
        iteration.Map(id, known->second);
        return;
      }
      const Value leaf = declare(forward.body.value(id));
      iteration.Map(id, leaf);
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
        iteration.Map(id, known->second);
        continue;
      }
      const Value leaf = declare(forward.body.value(id));
      iteration.Map(id, leaf);
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
      if (IsNeeded(forward.body.node(n), pair.needed)) iteration.CopyNode(n);
    }
    for (const auto& [leaf, of_iteration] : of_recomputed)
      rest.Map(leaf, iteration[of_iteration]);
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
  const std::vector<IterationPair> pairs_;
  // What a loop carries into each iteration and stacks for it: by loop and leaf of its body.
  std::map<std::pair<NodeId, ValueId>, Value> carried_stacks_;
};

}  // namespace

Result<RecomputedIterations> RecomputeIterations(
    const Graph& graph, const IterationOptions& options) {
  return IterationRecomputer(graph, options).Run();
}

namespace {

// `shape` with its first dimension as segments of so many.
Shape InSegments(const Shape& shape, int64_t segment) {
  Shape cut = {shape[0] / segment, segment};
  for (int axis = 1; axis < shape.rank(); ++axis) cut.push_back(shape[axis]);
  return cut;
}

Attrs LoopAttrs(const LoopParts& loop, int64_t iterations, size_t carried,
                size_t sliced, size_t summed, Graph body) {
  return {
      {"iterations", iterations},
      {"carried", static_cast<int64_t>(carried)},
      {"sliced", static_cast<int64_t>(sliced)},
      {"summed", static_cast<int64_t>(summed)},
      {"reverse", int64_t{loop.reverse}},
      {"bodies", SubGraphs{std::make_shared<const Graph>(std::move(body))}}};
}

// A loop over the iterations of one segment, while its operands are found: leaves of its body
// and what they stand for. What is handed on is carried, sums as well.
struct Inner {
  std::vector<ValueId> leaves = {};
  std::vector<Value> operands = {};
  size_t carried = 0;
  size_t sliced = 0;

  void Add(ValueId leaf, Value operand) {
    leaves.push_back(leaf);
    operands.push_back(operand);
  }
};

// Appends that loop to `g`, for `node`.
Result<std::vector<Value>> EmitInner(const Inner& inner, const Graph& graph,
                                     const Node& node, int64_t iterations,
                                     const Graph& iteration,
                                     const std::vector<ValueId>& outputs,
                                     GraphBuilder* g) {
  STOWAGE_ASSIGN_OR_RETURN(Graph body,
                           MakeBody(iteration, inner.leaves, outputs));
  g->SetOrigin(node.phase, node.origin, graph.value(node.results[0]).source);
  std::vector<Value> results = g->Emit(
      OpKind::kLoop, inner.operands,
      LoopAttrs(PartsOfLoop(node), iterations, inner.carried, inner.sliced,
                /*summed=*/0, std::move(body)));
  if (g->error()) return *g->error();
  return results;
}

}  // namespace

IterationSegments::IterationSegments(const Graph& graph,
                                     const IterationPair& pair, GraphCopy* copy,
                                     GraphBuilder* g)
    : graph_(graph),
      pair_(pair),
      copy_(*copy),
      g_(*g),
      forward_(PartsOfLoop(graph.node(pair.forward))),
      backward_(PartsOfLoop(graph.node(pair.backward))),
      segments_(forward_.iterations / pair.segment) {}

std::string IterationSegments::FreeName(std::string name) const {
  while (graph_.Find(name) || g_.Find(name)) name += "'";
  return name;
}

// A leaf of the body of a segment, which is handed all slices of one where `is_cut`.
Value IterationSegments::Declare(GraphBuilder* body, const ValueInfo& like,
                                 bool is_cut) const {
  TensorType type = like.type;
  if (is_cut) {
    type.shape = {pair_.segment};
    for (const int64_t dim : like.type.shape) type.shape.push_back(dim);
  }
  std::string name = like.name;
  while (body->Find(name)) name += "'";
  return body->LeafLike({.name = std::move(name),
                         .type = std::move(type),
                         .role = Role::kInput,
                         .source = like.source});
}

// The slices of `id`, seen as segments.
Value IterationSegments::Cut(ValueId id) {
  const auto known = cuts_.find(id);
  if (known != cuts_.end()) return known->second;
  const ValueInfo& info = graph_.value(id);
  std::string name = FreeName(StrCat(info.name, "@segments"));
  const Value cut =
      Reshape(copy_[id], InSegments(info.type.shape, pair_.segment));
  return cuts_[id] = g_.Name(name, cut);
}

// Appends the loop over segments that takes the place of node `id`.
Status IterationSegments::Emit(NodeId id, const Handed& handed,
                               const GraphBuilder& body,
                               const std::vector<Value>& outputs,
                               const std::vector<std::string>& names,
                               std::vector<Value>* results) {
  std::vector<ValueId> leaves, ids;
  for (const Value leaf : handed.leaves) leaves.push_back(leaf.id());
  for (const Value output : outputs) ids.push_back(output.id());
  STOWAGE_ASSIGN_OR_RETURN(Graph made, MakeBody(body.graph(), leaves, ids));
  copy_.SetOrigin(id);
  *results = g_.EmitNamed(
      OpKind::kLoop, handed.operands,
      LoopAttrs(PartsOfLoop(graph_.node(id)), segments_, handed.carried,
                handed.sliced, handed.leaves.size() - handed.operands.size(),
                std::move(made)),
      names);
  if (g_.error()) return *g_.error();
  return {};
}

// Lets `result` stand for the value `id`, which a loop over iterations handed back.
void IterationSegments::MapResult(ValueId id, Value result, bool is_stacked) {
  const ValueInfo& info = graph_.value(id);
  const Role role = info.role == Role::kOutput ? Role::kActivation : info.role;
  g_.SetRole(result, role);
  if (is_stacked) {
    result = g_.Name(info.name, Reshape(result, info.type.shape));
    g_.SetRole(result, role);
  }
  copy_.Map(id, result);
}

std::string IterationSegments::NameOf(ValueId result, bool is_stacked) const {
  const std::string& name = graph_.value(result).name;
  return is_stacked ? FreeName(StrCat(name, "@segments")) : name;
}

// The loop without what is made again, but with what is carried into each segment.
Status IterationSegments::CopyForward() {
  const Node& node = graph_.node(pair_.forward);
  const std::vector<ValueId> leaves = LeavesOf(forward_.body);
  copy_.SetOrigin(pair_.forward);
  GraphBuilder body(StrCat(forward_.body.name(), ".segment"));
  Handed handed = {.carried = forward_.carried, .sliced = forward_.sliced};
  for (size_t i = 0; i < leaves.size(); ++i) {
    const bool is_cut = forward_.is_sliced(i);
    handed.leaves.push_back(
        Declare(&body, forward_.body.value(leaves[i]), is_cut));
    if (i >= forward_.operands()) continue;
    const ValueId operand = node.inputs[i];
    handed.operands.push_back(is_cut ? Cut(operand) : copy_[operand]);
  }
  Inner inner = {.carried = forward_.handed_on(), .sliced = forward_.sliced};
  for (size_t i = 0; i < forward_.handed_on(); ++i) {
    const size_t leaf = forward_.leaf_of(i);
    inner.Add(leaves[leaf], handed.leaves[leaf]);
  }
  for (size_t i = forward_.carried; i < forward_.operands(); ++i) {
    inner.Add(leaves[i], handed.leaves[i]);
  }
  std::vector<size_t> kept;  // results
  std::vector<ValueId> outputs;
  std::vector<std::string> names;
  for (size_t r = 0; r < forward_.outputs(); ++r) {
    if (std::ranges::count(pair_.made, r) > 0 ||
        std::ranges::count(pair_.carried_in, r) > 0) {
      continue;
    }
    kept.push_back(r);
    outputs.push_back(OutputOf(forward_.body, r));
    names.push_back(NameOf(node.results[r], r >= forward_.handed_on()));
  }
  STOWAGE_ASSIGN_OR_RETURN(std::vector<Value> handed_back,
                           EmitInner(inner, graph_, node, pair_.segment,
                                     forward_.body, outputs, &body));
  std::vector<ValueId> begun;  // leaves that are stacked for segments to begin
  for (size_t i = 0; i < forward_.handed_on(); ++i) {
    const size_t leaf = forward_.leaf_of(i);
    if (!pair_.needed[Index(leaves[leaf])]) continue;
    begun.push_back(leaves[leaf]);
    handed_back.push_back(handed.leaves[leaf]);
    names.push_back(FreeName(StrCat(forward_.body.value(leaves[leaf]).name, "@",
                                    graph_.value(node.results[0]).name)));
  }
  std::vector<Value> results;
  STOWAGE_RETURN_IF_ERROR(
      Emit(pair_.forward, handed, body, handed_back, names, &results));
  for (size_t k = 0; k < kept.size(); ++k) {
    MapResult(node.results[kept[k]], results[k],
              kept[k] >= forward_.handed_on());
  }
  for (size_t k = 0; k < begun.size(); ++k) {
    starts_[begun[k]] = results[kept.size() + k];
  }
  return {};
}

// The loop that goes back: of each segment, the iterations once more, and their gradient.
Status IterationSegments::CopyBackward() {
  const Node& node = graph_.node(pair_.forward);
  const Node& back = graph_.node(pair_.backward);
  const std::vector<ValueId> leaves = LeavesOf(forward_.body);
  const std::vector<ValueId> back_leaves = LeavesOf(backward_.body);
  copy_.SetOrigin(pair_.backward);

  // What runs again of an iteration.
  GraphBuilder needed(forward_.body.name());
  GraphCopy iteration(forward_.body, &needed);
  for (const ValueId leaf : leaves) {
    if (pair_.needed[Index(leaf)]) iteration.DeclareLeaf(leaf);
  }
  for (NodeId n = 0; n < forward_.body.num_nodes(); ++n) {
    if (IsNeeded(forward_.body.node(n), pair_.needed)) iteration.CopyNode(n);
  }
  if (needed.error()) return *needed.error();

  GraphBuilder body(StrCat(backward_.body.name(), ".segment"));
  Handed handed = {.carried = backward_.carried};
  Inner again;
  std::vector<Value> given(back_leaves.size());  // what stands for these
  const auto made_again = [&](ValueId operand) -> std::optional<size_t> {
    for (const auto* results : {&pair_.made, &pair_.carried_in}) {
      for (const size_t r : *results) {
        if (node.results[r] == operand) return r;
      }
    }
    return std::nullopt;
  };
  const auto add = [&](Value operand, const ValueInfo& like, bool is_cut) {
    handed.operands.push_back(operand);
    handed.leaves.push_back(Declare(&body, like, is_cut));
    return handed.leaves.back();
  };
  // Operands of one kind: those there were, and then what the iterations read, unless it is
  // among them.
  std::map<ValueId, Value> at_hand;
  const auto add_given = [&](size_t begin, size_t end, bool is_cut) {
    at_hand.clear();
    for (size_t i = begin; i < end; ++i) {
      const ValueId operand = back.inputs[i];
      if (made_again(operand)) continue;
      given[i] = add(is_cut ? Cut(operand) : copy_[operand],
                     backward_.body.value(back_leaves[i]), is_cut);
      at_hand[operand] = given[i];
    }
  };
  const auto add_read = [&](bool is_cut) {
    for (size_t i = forward_.carried; i < forward_.operands(); ++i) {
      if (forward_.is_sliced(i) != is_cut || !pair_.needed[Index(leaves[i])]) {
        continue;
      }
      Value& leaf = at_hand[node.inputs[i]];
      if (!leaf.ok()) {
        leaf = add(is_cut ? Cut(node.inputs[i]) : copy_[node.inputs[i]],
                   forward_.body.value(leaves[i]), is_cut);
      }
      again.Add(iteration[leaves[i]].id(), leaf);
    }
  };
  const size_t sliced_end = backward_.carried + backward_.sliced;
  add_given(0, backward_.carried, /*is_cut=*/false);
  std::vector<ValueId> outputs;  // of an iteration that runs again
  for (size_t i = 0; i < forward_.handed_on(); ++i) {
    const ValueId leaf = leaves[forward_.leaf_of(i)];
    if (!pair_.needed[Index(leaf)]) continue;
    again.Add(iteration[leaf].id(),
              add(starts_.at(leaf), forward_.body.value(leaf), false));
    outputs.push_back(iteration[OutputOf(forward_.body, i)].id());
  }
  again.carried = again.leaves.size();
  add_given(backward_.carried, sliced_end, /*is_cut=*/true);
  add_read(/*is_cut=*/true);
  again.sliced = again.leaves.size() - again.carried;
  handed.sliced = handed.operands.size() - handed.carried;
  add_given(sliced_end, backward_.operands(), /*is_cut=*/false);
  add_read(/*is_cut=*/false);
  for (size_t i = backward_.operands(); i < back_leaves.size(); ++i) {
    given[i] = Declare(&body, backward_.body.value(back_leaves[i]), false);
    handed.leaves.push_back(given[i]);
  }

  std::map<size_t, size_t> place_of;  // by result: among those of a segment
  for (const auto* made : {&pair_.made, &pair_.carried_in}) {
    for (const size_t r : *made) {
      place_of[r] = outputs.size();
      outputs.push_back(iteration[OutputOf(forward_.body, r)].id());
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Value> made,
                           EmitInner(again, graph_, node, pair_.segment,
                                     needed.graph(), outputs, &body));
  for (size_t i = backward_.carried; i < sliced_end; ++i) {
    if (const auto r = made_again(back.inputs[i])) {
      given[i] = made[place_of.at(*r)];
    }
  }

  Inner inner = {.carried = backward_.handed_on(), .sliced = backward_.sliced};
  for (size_t i = 0; i < backward_.handed_on(); ++i) {
    const size_t leaf = backward_.leaf_of(i);
    inner.Add(back_leaves[leaf], given[leaf]);
  }
  for (size_t i = backward_.carried; i < backward_.operands(); ++i) {
    inner.Add(back_leaves[i], given[i]);
  }
  outputs.clear();
  std::vector<std::string> names;
  for (size_t r = 0; r < backward_.outputs(); ++r) {
    outputs.push_back(OutputOf(backward_.body, r));
    names.push_back(NameOf(back.results[r], r >= backward_.handed_on()));
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Value> handed_back,
                           EmitInner(inner, graph_, back, pair_.segment,
                                     backward_.body, outputs, &body));
  std::vector<Value> results;
  STOWAGE_RETURN_IF_ERROR(
      Emit(pair_.backward, handed, body, handed_back, names, &results));
  for (size_t r = 0; r < results.size(); ++r) {
    MapResult(back.results[r], results[r], r >= backward_.handed_on());
  }
  return {};
}

}  // namespace stowage::fit

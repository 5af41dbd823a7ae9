// Gradients of loops and branches.
//
// The gradient of a loop is a loop in reverse order. Its body is the sweep over the forward
// body: cotangents of carried and summed values are carried, those of stacked values are
// sliced, gradients of sliced operands are stacked and those of whole ones summed. The
// forward loop stacks the values that it reads (autodiff/backward.h), which are sliced here.
//
// The gradient of a cond is a cond on the same index. Each of its bodies recomputes the values
// that it reads of its forward body, so that nothing is saved for branches that do not run.

#include "ir/control_flow.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/vjp.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/graph_copy.h"
#include "ir/ops.h"

namespace stowage {

namespace {

bool IsFloatValue(const Graph& graph, ValueId id) {
  return IsFloat(graph.value(id).type.dtype);
}

// By value: whether a node or output reads it.
std::vector<bool> ReadIn(const Graph& graph) {
  std::vector<bool> read(static_cast<size_t>(graph.num_values()), false);
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs) {
      read[static_cast<size_t>(input)] = true;
    }
  }
  return read;
}

// A forward body during its differentiation.
struct BodySweep {
  BodySweep(const Graph& body, GraphBuilder* g)
      : values(body, g), cotangents(body) {}
  ForwardValues values;
  Cotangents cotangents;
};

Value SeedLeaf(GraphBuilder& g, size_t output, const TensorType& type) {
  return g.Input(GradientName(StrCat("out", output)), type.dtype, type.shape);
}

Value FilledZeros(GraphBuilder& g, const TensorType& type) {
  return Fill(g, 0, type.dtype, type.shape);
}

// --- Loops ------------------------------------------------------------------

// A sum that the body only adds to: its cotangent is the same in every iteration.
bool IsPlainSum(const LoopParts& loop, const std::vector<ValueId>& leaves,
                size_t handed) {
  if (handed < loop.carried) return false;
  const ValueId leaf = leaves[loop.leaf_of(handed)];
  const ValueId output = loop.body.outputs()[handed].value;
  const NodeId maker = loop.body.value(output).producer;
  int uses = 0;
  for (const Node& node : loop.body.nodes()) {
    for (const ValueId input : node.inputs) {
      if (input == output) return false;
      uses += input == leaf ? 1 : 0;
    }
  }
  const Node& node = loop.body.node(maker);
  return uses == 1 && node.op == OpKind::kAdd &&
         (node.inputs[0] == leaf || node.inputs[1] == leaf);
}

class LoopGradient {
 public:
  explicit LoopGradient(VjpContext& v)
      : v_(v), loop_(PartsOfLoop(v.node())), leaves_(LeavesOf(loop_.body)) {}

  void Emit() {
    FindWanted();
    for (size_t i = 0; i < loop_.handed_on(); ++i) {
      arrives_.push_back(Wanted(i) && v_.has_cotangent(static_cast<int>(i)));
    }
    // A cotangent that comes only from a later iteration is found once the value through
    // which it comes has one.
    while (!SweepBody()) {
    }
    if (v_.builder().error()) return;
    EmitLoop();
  }

 private:
  const Graph& body() const { return loop_.body; }
  ValueId Output(size_t r) const { return body().outputs()[r].value; }
  ValueId LeafOf(size_t handed) const { return leaves_[loop_.leaf_of(handed)]; }
  bool Wanted(size_t handed) const { return wanted_[loop_.leaf_of(handed)]; }

  // Finds the leaves whose gradient matters: those of operands that need one, and the
  // carried and summed values that depend on these.
  void FindWanted() {
    wanted_.assign(leaves_.size(), false);
    for (size_t i = 0; i < loop_.operands(); ++i) {
      wanted_[i] =
          v_.needs(static_cast<int>(i)) && IsFloatValue(body(), leaves_[i]);
    }
    for (bool grew = true; grew;) {
      grew = false;
      Cotangents depends(body());
      WantLeaves(&depends);
      for (size_t i = 0; i < loop_.handed_on(); ++i) {
        if (Wanted(i) || !depends.wanted(Output(i))) continue;
        wanted_[loop_.leaf_of(i)] = true;
        grew = true;
      }
    }
  }

  void WantLeaves(Cotangents* cotangents) const {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (wanted_[i]) cotangents->Want(leaves_[i]);
    }
    WantAllThatDepends(body(), cotangents);
  }

  // Sweeps the body with the cotangents that are known to arrive. Returns false, and
  // records them, if more arrive.
  bool SweepBody() {
    g_.emplace(StrCat(body().name(), ".backward"));
    sweep_.emplace(body(), &*g_);
    WantLeaves(&sweep_->cotangents);
    seeds_.assign(loop_.outputs(), Value());
    const auto seed = [&](size_t r) {
      seeds_[r] = SeedLeaf(*g_, r, body().value(Output(r)).type);
      sweep_->cotangents.Add(Output(r), seeds_[r]);
    };
    for (size_t r = loop_.handed_on(); r < loop_.outputs(); ++r) {
      if (v_.has_cotangent(static_cast<int>(r)) &&
          sweep_->cotangents.wanted(Output(r))) {
        seed(r);
      }
    }
    for (size_t i = 0; i < loop_.handed_on(); ++i) {
      if (arrives_[i]) seed(i);
    }
    Sweep(body(), &sweep_->values, &sweep_->cotangents, &*g_);
    if (g_->error()) {
      v_.builder().Fail(*g_->error());
      return true;
    }
    bool complete = true;
    for (size_t i = 0; i < loop_.handed_on(); ++i) {
      if (arrives_[i] || !Wanted(i) || !sweep_->cotangents.Find(LeafOf(i))) {
        continue;
      }
      arrives_[i] = true;
      complete = false;
    }
    return complete;
  }

  // The forward value that the body's gradient reads in its leaf `leaf`, as an operand of the
  // backward loop, and whether it is sliced.
  std::pair<Value, bool> Source(ValueId leaf) {
    const ValueInfo& info = g_->graph().value(leaf);
    const auto id = body().Find(info.name);
    for (size_t i = loop_.carried; id && i < loop_.operands(); ++i) {
      if (leaves_[i] == *id) {
        return {v_.input(static_cast<int>(i)), loop_.is_sliced(i)};
      }
    }
    for (size_t r = loop_.handed_on(); id && r < loop_.outputs(); ++r) {
      if (Output(r) == *id) return {v_.output(static_cast<int>(r)), true};
    }
    const std::string name = SavedInLoopName(
        info.name, v_.forward().value(v_.node().results[0]).name);
    if (const auto known = v_.builder().Find(name)) return {*known, true};
    Shape shape = {loop_.iterations};
    for (const int64_t dim : info.type.shape) shape.push_back(dim);
    return {v_.builder().Saved(name, info.type.dtype, shape), true};
  }

  void EmitLoop() {
    GraphBuilder& outer = v_.builder();
    std::vector<Value> carried, sliced, whole;            // operands
    std::vector<Value> carried_in, sliced_in, whole_in;   // leaves of the body
    std::vector<Value> next, sums, sums_so_far, stacked;  // in the body
    std::vector<int> carried_of, summed_of,
        stacked_of;  // operands they are for
    g_->SetOrigin(Phase::kBackward,
                  v_.forward().value(v_.node().results[0]).name);

    for (size_t i = 0; i < loop_.handed_on(); ++i) {
      if (!arrives_[i]) continue;
      const int result = static_cast<int>(i);
      const Value seed = seeds_[i];
      const bool given = v_.has_cotangent(result);
      if (IsPlainSum(loop_, leaves_, i)) {
        whole.push_back(v_.cotangent(result));
        whole_in.push_back(seed);
        continue;
      }
      carried.push_back(given ? v_.cotangent(result)
                              : FilledZeros(outer, seed.type()));
      carried_in.push_back(seed);
      const auto gradient = sweep_->cotangents.Find(LeafOf(i));
      next.push_back(gradient ? *gradient : FilledZeros(*g_, seed.type()));
      carried_of.push_back(i < loop_.carried ? result : -1);
    }
    for (size_t r = loop_.handed_on(); r < loop_.outputs(); ++r) {
      if (!seeds_[r].ok()) continue;
      sliced.push_back(v_.cotangent(static_cast<int>(r)));
      sliced_in.push_back(seeds_[r]);
    }
    for (size_t i = loop_.carried; i < loop_.operands(); ++i) {
      if (!wanted_[i]) continue;
      const auto gradient = sweep_->cotangents.Find(leaves_[i]);
      if (!gradient) continue;
      const int operand = static_cast<int>(i);
      if (loop_.is_sliced(i)) {
        stacked.push_back(*gradient);
        stacked_of.push_back(operand);
        continue;
      }
      const TensorType& type = body().value(leaves_[i]).type;
      sums_so_far.push_back(
          g_->Input(StrCat("sum:", body().value(leaves_[i]).name), type.dtype,
                    type.shape));
      sums.push_back(Add(sums_so_far.back(), *gradient));
      g_->SetRole(sums.back(), Role::kGradient);
      summed_of.push_back(operand);
    }
    if (g_->error()) {
      outer.Fail(*g_->error());
      return;
    }
    if (next.empty() && sums.empty() && stacked.empty()) return;
    // The forward values that it reads.
    const std::vector<bool> read = ReadIn(g_->graph());
    std::vector<ValueId> outputs;
    for (const auto* list : {&next, &sums, &stacked}) {
      for (const Value& value : *list) outputs.push_back(value.id());
    }
    const auto is_ours = [&](ValueId id) {
      for (const auto* list :
           {&carried_in, &sliced_in, &whole_in, &sums_so_far}) {
        for (const Value& value : *list) {
          if (value.id() == id) return true;
        }
      }
      return false;
    };
    std::vector<ValueId> from_forward;
    for (ValueId id = 0; id < g_->graph().num_values(); ++id) {
      bool needed = read[static_cast<size_t>(id)];
      for (const ValueId output : outputs) needed |= output == id;
      if (!g_->graph().value(id).is_leaf() || is_ours(id) || !needed) continue;
      from_forward.push_back(id);
    }
    std::vector<ValueId> sliced_ids, whole_ids;
    for (const Value& value : sliced_in) sliced_ids.push_back(value.id());
    for (const Value& value : whole_in) whole_ids.push_back(value.id());
    for (const ValueId id : from_forward) {
      const auto [value, is_sliced] = Source(id);
      (is_sliced ? sliced : whole).push_back(value);
      (is_sliced ? sliced_ids : whole_ids).push_back(id);
    }
    std::vector<ValueId> leaves;
    for (const Value& value : carried_in) leaves.push_back(value.id());
    leaves.insert(leaves.end(), sliced_ids.begin(), sliced_ids.end());
    leaves.insert(leaves.end(), whole_ids.begin(), whole_ids.end());
    for (const Value& value : sums_so_far) leaves.push_back(value.id());
    Result<Graph> made = MakeBody(g_->graph(), leaves, outputs);
    if (!made.ok()) {
      outer.Fail(made.error());
      return;
    }
    std::vector<Value> operands = carried;
    operands.insert(operands.end(), sliced.begin(), sliced.end());
    operands.insert(operands.end(), whole.begin(), whole.end());
    const auto number = [](const auto& list) {
      return static_cast<int64_t>(list.size());
    };
    std::vector<Value> results = outer.Emit(
        OpKind::kLoop, operands,
        {{"iterations", loop_.iterations},
         {"carried", number(carried)},
         {"sliced", number(sliced)},
         {"summed", number(sums)},
         {"reverse", int64_t{!loop_.reverse}},
         {"bodies",
          SubGraphs{std::make_shared<const Graph>(*std::move(made))}}});
    results.resize(outputs.size());
    size_t r = 0;
    for (const auto* list : {&carried_of, &summed_of, &stacked_of}) {
      for (const int operand : *list) {
        const Value gradient = results[r++];
        if (operand >= 0 && v_.needs(operand)) v_.Contribute(operand, gradient);
      }
    }
  }

  VjpContext& v_;
  const LoopParts loop_;
  const std::vector<ValueId> leaves_;
  std::vector<bool> wanted_;   // by leaf
  std::vector<bool> arrives_;  // by carried or summed value: has a cotangent
  std::optional<GraphBuilder> g_;
  std::optional<BodySweep> sweep_;
  std::vector<Value> seeds_;  // by output
};

// --- Branches ---------------------------------------------------------------

// The gradient of one body, before its leaves are unified with those of the others.
struct Branch {
  Graph forward;                    // with the values that its loops save
  std::unique_ptr<GraphBuilder> g;  // of the sweep
  std::vector<Value> seeds;         // by result
  std::vector<Value> gradients;     // by operand that wants one, inert for none
};

class CondGradient {
 public:
  explicit CondGradient(VjpContext& v) : v_(v) {}

  void Emit() {
    for (int i = 1; i < v_.num_inputs(); ++i) {
      if (v_.needs(i) && IsFloat(v_.input_type(i).dtype)) wanted_.push_back(i);
    }
    for (int r = 0; r < v_.num_results(); ++r) {
      if (v_.has_cotangent(r)) given_.push_back(r);
    }
    std::vector<Branch> branches;
    for (const auto& body : BodiesOf(v_.node())) {
      branches.push_back(SweepBody(*body));
      if (v_.builder().error()) return;
    }
    reads_.assign(static_cast<size_t>(v_.num_inputs()) - 1, false);
    SubGraphs bodies;
    for (Branch& branch : branches) NoteReads(branch);
    for (Branch& branch : branches) {
      Result<Graph> made = Finish(branch);
      if (!made.ok()) {
        v_.builder().Fail(made.error());
        return;
      }
      bodies.push_back(std::make_shared<const Graph>(*std::move(made)));
    }
    std::vector<Value> operands = {v_.input(0)};
    for (size_t i = 0; i < reads_.size(); ++i) {
      if (reads_[i]) operands.push_back(v_.input(static_cast<int>(i) + 1));
    }
    for (const int r : given_) operands.push_back(v_.cotangent(r));
    std::vector<Value> results = v_.builder().Emit(
        OpKind::kCond, operands, {{"bodies", std::move(bodies)}});
    results.resize(wanted_.size());
    for (size_t i = 0; i < wanted_.size(); ++i) {
      v_.Contribute(wanted_[i], results[i]);
    }
  }

 private:
  Branch SweepBody(const Graph& body) {
    Branch branch;
    branch.g = std::make_unique<GraphBuilder>(StrCat(body.name(), ".backward"));
    GraphBuilder& g = *branch.g;
    BodySweep sweep(body, &g);
    const std::vector<ValueId> leaves = LeavesOf(body);
    for (const int i : wanted_) {
      sweep.cotangents.Want(leaves[static_cast<size_t>(i) - 1]);
    }
    WantAllThatDepends(body, &sweep.cotangents);
    for (const int r : given_) {
      const ValueId output = body.outputs()[static_cast<size_t>(r)].value;
      branch.seeds.push_back(
          SeedLeaf(g, static_cast<size_t>(r), body.value(output).type));
      sweep.cotangents.Add(output, branch.seeds.back());
    }
    Sweep(body, &sweep.values, &sweep.cotangents, &g);
    for (const int i : wanted_) {
      const ValueId leaf = leaves[static_cast<size_t>(i) - 1];
      branch.gradients.push_back(sweep.cotangents.Find(leaf).value_or(Value()));
    }
    const Result<Graph> saving = SaveInLoops(body, g.graph());
    if (g.error() || !saving.ok()) {
      v_.builder().Fail(g.error() ? *g.error() : saving.error());
      return branch;
    }
    branch.forward = *saving;
    return branch;
  }

  // The values of the forward body that the gradient reads, by name.
  static std::vector<ValueId> ForwardReads(const Branch& branch) {
    const Graph& graph = branch.g->graph();
    const std::vector<bool> read = ReadIn(graph);
    std::vector<ValueId> reads;
    for (ValueId id = 0; id < graph.num_values(); ++id) {
      bool needed = read[static_cast<size_t>(id)];
      for (const Value& gradient : branch.gradients) {
        needed |= gradient.ok() && gradient.id() == id;
      }
      for (const Value& seed : branch.seeds) needed &= seed.id() != id;
      if (needed && graph.value(id).is_leaf()) reads.push_back(id);
    }
    return reads;
  }

  // Values of the forward body on which those read depend.
  static std::vector<bool> Needed(const Branch& branch) {
    const Graph& forward = branch.forward;
    std::vector<bool> needed(static_cast<size_t>(forward.num_values()), false);
    for (const ValueId id : ForwardReads(branch)) {
      const auto found = forward.Find(branch.g->graph().value(id).name);
      if (found) needed[static_cast<size_t>(*found)] = true;
    }
    for (NodeId n = forward.num_nodes() - 1; n >= 0; --n) {
      const Node& node = forward.node(n);
      bool any = false;
      for (const ValueId result : node.results) {
        any |= needed[static_cast<size_t>(result)];
      }
      for (const ValueId input : node.inputs) {
        if (any) needed[static_cast<size_t>(input)] = true;
      }
    }
    return needed;
  }

  void NoteReads(const Branch& branch) {
    const std::vector<bool> needed = Needed(branch);
    const std::vector<ValueId> leaves = LeavesOf(branch.forward);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (needed[static_cast<size_t>(leaves[i])]) reads_[i] = true;
    }
  }

  // The forward nodes it needs, then the gradient's, over the leaves of all branches.
  Result<Graph> Finish(const Branch& branch) {
    const Graph& forward = branch.forward;
    const Graph& backward = branch.g->graph();
    GraphBuilder g(backward.name());
    GraphCopy forward_copy(forward, &g);
    GraphCopy backward_copy(backward, &g);
    const std::vector<ValueId> leaves = LeavesOf(forward);
    std::vector<Value> all_leaves;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!reads_[i]) continue;
      forward_copy.DeclareLeaf(leaves[i]);
      all_leaves.push_back(forward_copy[leaves[i]]);
    }
    for (const Value& seed : branch.seeds) {
      backward_copy.DeclareLeaf(seed.id());
      all_leaves.push_back(backward_copy[seed.id()]);
    }
    const std::vector<bool> needed = Needed(branch);
    for (NodeId n = 0; n < forward.num_nodes(); ++n) {
      bool any = false;
      for (const ValueId result : forward.node(n).results) {
        any |= needed[static_cast<size_t>(result)];
      }
      if (any) forward_copy.CopyNode(n);
    }
    for (const ValueId id : ForwardReads(branch)) {
      const auto found = forward.Find(backward.value(id).name);
      if (found) backward_copy.Map(id, forward_copy[*found]);
    }
    for (NodeId n = 0; n < backward.num_nodes(); ++n) backward_copy.CopyNode(n);
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const Value gradient = branch.gradients[i];
      const Value out = gradient.ok()
                            ? backward_copy[gradient.id()]
                            : FilledZeros(g, v_.input_type(wanted_[i]));
      if (!out.ok()) break;
      outputs.push_back(out.id());
    }
    if (g.error()) return *g.error();
    std::vector<ValueId> leaf_ids;
    for (const Value& leaf : all_leaves) leaf_ids.push_back(leaf.id());
    return MakeBody(g.graph(), leaf_ids, outputs);
  }

  VjpContext& v_;
  std::vector<int> wanted_;  // operands
  std::vector<int> given_;   // results that have a cotangent
  std::vector<bool> reads_;  // by operand behind the index
};

void LoopRule(VjpContext& v) { LoopGradient(v).Emit(); }
void CondRule(VjpContext& v) {
  bool wanted = false;
  for (int i = 1; i < v.num_inputs(); ++i) {
    wanted |= v.needs(i) && IsFloat(v.input_type(i).dtype);
  }
  if (wanted) CondGradient(v).Emit();
}

}  // namespace

constinit const Vjp LoopVjp = Differentiable(LoopRule);
constinit const Vjp CondVjp = Differentiable(CondRule);

// The gradient of a stand-in op is a stand-in too. Its formula is unknown, so it reads the
// inputs, which are thereby saved, and the results' gradients. An input's gradient is assumed
// to cost as much as the op, as for a matmul.
constinit const Vjp StandInVjp = Differentiable([](VjpContext& v) {
  std::vector<Value> operands;
  for (int i = 0; i < v.num_inputs(); ++i) operands.push_back(v.input(i));
  for (int r = 0; r < v.num_results(); ++r) {
    if (v.has_cotangent(r)) operands.push_back(v.cotangent(r));
  }
  for (int i = 0; i < v.num_inputs(); ++i) {
    if (!v.needs(i)) continue;
    const TensorType& type = v.input_type(i);
    v.Contribute(i, StandIn(operands, type.dtype, {&type.shape, 1},
                            v.attrs().Float("flops"))[0]);
  }
});

}  // namespace stowage

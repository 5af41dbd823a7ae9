#include "autodiff/batch_analysis.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage {

Status BatchAxes::Mismatch(const Graph& micro_batch, const ValueInfo& info,
                           std::string_view why) const {
  const std::optional<ValueId> id = whole_.Find(info.name);
  return InvalidArgumentError(
      "[autodiff] micro-batch ", Quoted(micro_batch.name()), " has ",
      RoleName(info.role), " ", Quoted(info.name), " of ", info.type.ToString(),
      ", batch ", Quoted(whole_.name()), " has ",
      id ? whole_.value(*id).type.ToString() : std::string("none"), "; ", why);
}

Status BatchAxes::Add(const Graph& micro_batch) {
  weight_ = 0;
  for (ValueId id = 0; id < micro_batch.num_values(); ++id) {
    const ValueInfo& info = micro_batch.value(id);
    if (!info.is_leaf()) continue;
    const std::optional<ValueId> in_whole = whole_.Find(info.name);
    if (!in_whole || whole_.value(*in_whole).role != info.role) {
      return Mismatch(micro_batch, info, "build both with the same model");
    }
    const TensorType& all = whole_.value(*in_whole).type;
    const bool known = splits_.contains(info.name);
    if (all == info.type && !known) continue;
    const Shape& part = info.type.shape;
    int axis = known ? splits_[info.name].axis : 0;
    while (!known && axis < part.rank() && axis < all.shape.rank() &&
           part[axis] == all.shape[axis]) {
      ++axis;
    }
    Shape rest = part;
    if (axis < part.rank() && axis < all.shape.rank()) {
      rest[axis] = all.shape[axis];
    }
    if (info.role != Role::kInput || all != TensorType{info.type.dtype, rest}) {
      return Mismatch(micro_batch, info,
                      "only inputs may differ, and in one dimension");
    }
    Split& split = splits_[info.name];
    split.axis = axis;
    split.start = split.end;
    split.end += part[axis];
    const double weight =
        static_cast<double>(part[axis]) / static_cast<double>(all.shape[axis]);
    if (split.end > all.shape[axis] || (weight_ != 0 && weight != weight_)) {
      return Mismatch(micro_batch, info,
                      "all inputs must be cut at the same examples");
    }
    weight_ = weight;
  }
  if (weight_ > 0) return {};
  return InvalidArgumentError(
      "[autodiff] micro-batch ", Quoted(micro_batch.name()),
      " takes as much as the whole batch in every input; expected parts "
      "of it");
}

Status BatchAxes::CheckComplete() const {
  for (const auto& [name, split] : splits_) {
    const int64_t size = part_.value(*part_.Find(name)).type.shape[split.axis];
    if (split.end == size) continue;
    return InvalidArgumentError("[autodiff] the micro-batches take ", split.end,
                                " of the ", size, " examples of input ",
                                Quoted(name), "; expected every example once");
  }
  return {};
}

Value BatchAxes::Part(const Graph& micro_batch, ValueId id, Value whole) const {
  const auto it = splits_.find(micro_batch.value(id).name);
  if (it == splits_.end()) return whole;
  if (whole.type() == micro_batch.value(id).type) return whole;
  return Slice(whole, it->second.axis, it->second.start, it->second.end);
}

Value BatchAxes::Part(Value whole, int axis) const {
  const auto& [name, split] = *splits_.begin();
  const int64_t examples =
      whole_.value(*whole_.Find(name)).type.shape[split.axis];
  const int64_t size = whole.shape()[axis];
  return Slice(whole, axis, size * split.start / examples,
               size * split.end / examples);
}

namespace {

constexpr ValueId kNoValue = -1;

// Reads the graphs side by side and skips copies in both, which depend on sizes.
class Analyzer {
 public:
  // `leaves` are those of the graphs, in order. A body has no totals, which are computed
  // before the step, outside its loops.
  Analyzer(const Graph& whole, const Graph& part,
           std::vector<BatchValue> leaves, bool is_body,
           const BatchAnalysisOptions& options)
      : whole_(whole),
        part_(part),
        is_body_(is_body),
        options_(options),
        whole_of_(Index(part.num_values()), kNoValue),
        source_(Index(whole.num_values()), kNoValue) {
    made_.options = options;
    made_.values.resize(Index(part.num_values()));
    size_t next = 0;
    for (ValueId id = 0; id < part.num_values(); ++id) {
      if (!part.value(id).is_leaf()) continue;
      made_.values[Index(id)] = std::move(leaves[next++]);
    }
  }

  BatchAnalysis Run() {
    MatchLeaves();
    NodeId w = 0;
    bool is_same_graph = true;
    for (NodeId p = 0; p < part_.num_nodes(); ++p) {
      const Node& node = part_.node(p);
      if (node.op == OpKind::kCopy) {
        made_.values[Index(node.results[0])] = Of(node.inputs[0]);
        whole_of_[Index(node.results[0])] = whole_of_[Index(node.inputs[0])];
        continue;
      }
      // A broadcast is missing if nothing is repeated, as for one example.
      for (; w < whole_.num_nodes(); ++w) {
        const Node& other = whole_.node(w);
        const bool is_left_out =
            other.op == OpKind::kCopy ||
            (other.op == OpKind::kBroadcast && !IsCounterpart(node, other));
        if (!is_left_out) break;
        source_[Index(other.results[0])] = Source(other.inputs[0]);
      }
      is_same_graph = is_same_graph && w < whole_.num_nodes() &&
                      IsCounterpart(node, whole_.node(w));
      if (!is_same_graph) {
        MarkOther(node);
        continue;
      }
      Visit(p, whole_.node(w++));
    }
    made_.whole = std::move(whole_of_);
    return std::move(made_);
  }

 private:
  const BatchValue& Of(ValueId id) const { return made_.values[Index(id)]; }
  ValueId Source(ValueId id) const {
    const ValueId source = source_[Index(id)];
    return source == kNoValue ? id : source;
  }

  // Bodies have leaves by order, graphs by name.
  void MatchLeaves() {
    std::vector<ValueId> in_order;
    if (is_body_) in_order = LeavesOf(whole_);
    size_t next = 0;
    for (ValueId id = 0; id < part_.num_values(); ++id) {
      const ValueInfo& leaf = part_.value(id);
      if (!leaf.is_leaf()) continue;
      whole_of_[Index(id)] = is_body_
                                 ? in_order[next++]
                                 : whole_.Find(leaf.name).value_or(kNoValue);
    }
  }

  bool IsCounterpart(const Node& node, const Node& whole) const {
    if (node.op != whole.op || node.inputs.size() != whole.inputs.size() ||
        node.results.size() != whole.results.size()) {
      return false;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (whole_of_[Index(node.inputs[i])] != Source(whole.inputs[i])) {
        return false;
      }
    }
    return true;
  }

  void MarkOther(const Node& node) {
    NoteWritten(node);
    for (const ValueId id : node.results) {
      made_.values[Index(id)] = MixedBecause(
          StrCat("the model has other nodes for another number of examples, ",
                 OpName(node.op), " ", Quoted(part_.value(id).name),
                 " the first of them"));
      made_.values[Index(id)].of_inputs = false;
    }
  }

  static std::vector<TensorType> TypesOf(const Graph& graph,
                                         const std::vector<ValueId>& ids) {
    std::vector<TensorType> types;
    for (const ValueId id : ids) types.push_back(graph.value(id).type);
    return types;
  }

  void Visit(NodeId id, const Node& whole) {
    const Node& node = part_.node(id);
    std::vector<BatchValue> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      operands.push_back(Of(node.inputs[i]));
      // The whole batch broadcasts a value that a single example uses directly.
      const int axis = ExamplesAxis(part_.value(node.inputs[i]).type,
                                    whole_.value(whole.inputs[i]).type);
      BatchValue& operand = operands.back();
      const bool is_same = operand.kind == BatchKind::kSame;
      const int expected =
          operand.kind == BatchKind::kPerExample ? operand.axis : -1;
      if (axis == expected || operand.kind == BatchKind::kMixed) continue;
      if (is_same && axis >= 0) {
        operand = {.kind = BatchKind::kPerExample,
                   .axis = axis,
                   .is_uniform = true,
                   .of_inputs = operand.of_inputs};
      } else {
        operand = MixedBecause("a broadcast repeats examples");
      }
    }
    const std::vector<TensorType> operand_types = TypesOf(part_, node.inputs),
                                  result_types = TypesOf(part_, node.results),
                                  whole_operand_types =
                                      TypesOf(whole_, whole.inputs),
                                  whole_result_types =
                                      TypesOf(whole_, whole.results);
    const BatchNode both = {.part = node,
                            .whole = whole,
                            .operands = operands,
                            .operand_types = operand_types,
                            .whole_operand_types = whole_operand_types,
                            .result_types = result_types,
                            .whole_result_types = whole_result_types};
    BatchRuling ruling;
    if (node.op == OpKind::kLoop) {
      ruling.results = OfLoop(both);
    } else if (node.op == OpKind::kCond) {
      ruling.results = OfCond(both);
    } else {
      ruling = ApplyBatchRule(both);
    }
    if ((is_body_ || !options_.has_shares) && !ruling.by_share.empty()) {
      ruling.results.assign(
          node.results.size(),
          MixedBecause(
              is_body_ ? "a sum and a mean over the examples meet in a body"
                       : "adds to a sum over the examples what counts once"));
      ruling.by_share.clear();
    }
    for (const int operand : ruling.by_share) {
      made_.by_share.push_back({.node = id, .operand = operand});
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      BatchValue& value = ruling.results[r];
      const ValueId whole_value = whole.results[r];
      MakeTotal(node.results[r], whole_value, &value);
      NameObstacle(node.results[r], &value);
      if (options_.allows_change) {
        Assume(result_types[r], whole_result_types[r], &value);
      }
      whole_of_[Index(node.results[r])] = whole_value;
      made_.values[Index(node.results[r])] = std::move(value);
    }
    NoteWritten(node);
  }

  // The error names the first value that is mixed.
  void NameObstacle(ValueId id, BatchValue* value) const {
    if (value->kind != BatchKind::kMixed || value->is_named) return;
    value->is_named = true;
    value->why = StrCat(Quoted(part_.value(id).name), ": ", value->why);
  }

  static void Assume(const TensorType& part, const TensorType& whole,
                     BatchValue* value) {
    if (value->kind != BatchKind::kMixed) return;
    const int axis = ExamplesAxis(part, whole);
    if (axis >= 0) {
      *value = {.kind = BatchKind::kPerExample, .axis = axis};
    } else if (axis == -1 && IsFloat(part.dtype)) {
      *value = {.kind = BatchKind::kMean};
    }
    value->of_inputs = false;
  }

  // Values that depend on inputs alone are known for the whole batch before the first
  // micro-batch.
  void MakeTotal(ValueId id, ValueId whole_value, BatchValue* value) {
    const bool is_total =
        value->of_inputs && options_.has_totals &&
        (value->kind == BatchKind::kSum ||
         (value->kind == BatchKind::kMean &&
          IsFloat(part_.value(id).type.dtype)) ||
         (value->kind == BatchKind::kMax && options_.has_max));
    if (!is_total && !value->is_whole_constant) return;
    if (is_body_ || !options_.has_totals) {
      if (value->is_whole_constant) {
        *value = MixedBecause(
            "the constant is another for another number of examples");
      }
      return;
    }
    if (is_total) {
      made_.totals.push_back({.value = id, .kind = value->kind});
    } else {
      made_.constants.push_back({.value = id, .whole_value = whole_value});
    }
    *value = {.kind = BatchKind::kSame, .of_inputs = true};
  }

  void NoteWritten(const Node& node) {
    const int updates = GetOpDef(node.op).updates;
    for (int i = 0; i < updates; ++i) {
      const ValueId target = node.inputs[static_cast<size_t>(i)];
      if (part_.value(target).is_leaf()) made_.written.push_back(target);
    }
  }

  static std::vector<BatchValue> All(const BatchNode& node,
                                     const BatchValue& value) {
    return std::vector<BatchValue>(node.part.results.size(), value);
  }
  // All results mixed if an operand is; nothing otherwise.
  static std::optional<std::vector<BatchValue>> MixedOperand(
      const BatchNode& node) {
    for (const BatchValue& operand : node.operands) {
      if (operand.kind == BatchKind::kMixed) return All(node, operand);
    }
    return std::nullopt;
  }
  static bool OfInputs(const BatchNode& node) {
    return std::ranges::all_of(node.operands, [](const BatchValue& operand) {
      return operand.of_inputs;
    });
  }

  std::vector<BatchValue> OutputsOfBody(const Graph& whole, const Graph& part,
                                        std::vector<BatchValue> leaves) const {
    const BatchAnalysis inner =
        Analyzer(whole, part, std::move(leaves), /*is_body=*/true, options_)
            .Run();
    std::vector<BatchValue> outputs;
    for (const GraphOutput& output : part.outputs()) {
      outputs.push_back(inner.values[Index(output.value)]);
    }
    return outputs;
  }

  std::vector<BatchValue> OfLoop(const BatchNode& node) const;
  std::vector<BatchValue> OfCond(const BatchNode& node) const;

  const Graph& whole_;
  const Graph& part_;
  const bool is_body_;
  const BatchAnalysisOptions options_;
  std::vector<ValueId> whole_of_;  // by value of part_; the source of copies
  std::vector<ValueId> source_;    // by value of whole_, of copies
  BatchAnalysis made_;
};

bool IsAlike(const BatchValue& a, const BatchValue& b) {
  return a.kind == b.kind && a.axis == b.axis && a.runs == b.runs &&
         a.is_uniform == b.is_uniform;
}

// The kind of a value that is `a` in one iteration or branch and `b` in another.
BatchValue Joined(const BatchValue& a, const BatchValue& b) {
  if (a.kind == BatchKind::kMixed) return a;
  if (b.kind == BatchKind::kMixed) return b;
  const bool of_inputs = a.of_inputs && b.of_inputs;
  const auto as = [&](BatchValue value) {
    value.of_inputs = of_inputs;
    return value;
  };
  if (IsAlike(a, b)) return as(a);
  const bool are_of_examples = a.kind == BatchKind::kPerExample &&
                               b.kind == BatchKind::kPerExample &&
                               a.axis == b.axis;
  if (are_of_examples && a.is_uniform) return as(b);
  if (are_of_examples && (b.is_uniform || a.runs == b.runs)) return as(a);
  // A value that is the same in all micro-batches is also their mean.
  const auto is_one_of = [&](BatchKind x, BatchKind y) {
    return (a.kind == x && b.kind == y) || (a.kind == y && b.kind == x);
  };
  if (is_one_of(BatchKind::kSame, BatchKind::kMean)) {
    return as({.kind = BatchKind::kMean});
  }
  return MixedBecause("it follows from the micro-batches in two ways");
}

// The kinds of carried and summed values are found by analysing the body until nothing
// changes.
std::vector<BatchValue> Analyzer::OfLoop(const BatchNode& node) const {
  if (const auto mixed = MixedOperand(node)) return *mixed;
  const LoopParts loop = PartsOfLoop(node.part);
  const LoopParts whole = PartsOfLoop(node.whole);
  if (loop.iterations != whole.iterations) {
    return All(node, MixedBecause("a loop goes through the examples"));
  }
  std::vector<BatchValue> leaves(node.operands.begin(), node.operands.end());
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!loop.is_sliced(i) || leaves[i].kind != BatchKind::kPerExample)
      continue;
    if (leaves[i].axis == 0) {
      return All(node, MixedBecause("a loop goes through the examples"));
    }
    --leaves[i].axis;
  }
  // Sums begin at zeros, which are a sum and a mean of zeros as well as the same.
  const std::vector<ValueId> part_leaves = LeavesOf(loop.body);
  const std::vector<ValueId> whole_leaves = LeavesOf(whole.body);
  for (size_t i = 0; i < loop.summed; ++i) {
    const size_t leaf = loop.leaf_of(loop.carried + i);
    const int axis = ExamplesAxis(loop.body.value(part_leaves[leaf]).type,
                                  whole.body.value(whole_leaves[leaf]).type);
    leaves.push_back(axis < 0 ? BatchValue{.is_zero = true}
                              : BatchValue{.kind = BatchKind::kPerExample,
                                           .axis = axis,
                                           .is_uniform = true});
  }
  const bool of_inputs = OfInputs(node);
  for (BatchValue& leaf : leaves) leaf.of_inputs = leaf.of_inputs && of_inputs;
  std::vector<BatchValue> outputs;
  // Each round changes some leaf: from the same to a sum or mean, to one that is not
  // uniform, or to mixed.
  for (size_t round = 0; round <= 4 * loop.handed_on() + 1; ++round) {
    outputs = OutputsOfBody(whole.body, loop.body, leaves);
    bool is_stable = true;
    for (size_t i = 0; i < loop.handed_on(); ++i) {
      BatchValue& leaf = leaves[loop.leaf_of(i)];
      const bool is_sum_of_zeros = i >= loop.carried &&
                                   leaf.kind == BatchKind::kSame &&
                                   outputs[i].kind != BatchKind::kPerExample;
      const BatchValue next =
          is_sum_of_zeros ? outputs[i] : Joined(leaf, outputs[i]);
      is_stable &= IsAlike(next, leaf) && next.of_inputs == leaf.of_inputs;
      leaf = next;
    }
    if (is_stable) break;
  }
  std::vector<BatchValue> results;
  for (size_t i = 0; i < loop.handed_on(); ++i) {
    results.push_back(leaves[loop.leaf_of(i)]);
  }
  for (size_t i = loop.handed_on(); i < loop.outputs(); ++i) {
    results.push_back(outputs[i]);
    if (outputs[i].kind == BatchKind::kPerExample) ++results.back().axis;
  }
  for (BatchValue& result : results) {
    result.of_inputs = result.of_inputs && of_inputs;
    result.is_whole_constant = false;
  }
  return results;
}

std::vector<BatchValue> Analyzer::OfCond(const BatchNode& node) const {
  if (const auto mixed = MixedOperand(node)) return *mixed;
  if (node.operands[0].kind != BatchKind::kSame) {
    return All(node, MixedBecause("a branch is chosen by the examples"));
  }
  const auto bodies = BodiesOf(node.part);
  const auto whole_bodies = BodiesOf(node.whole);
  std::vector<BatchValue> results;
  for (size_t b = 0; b < bodies.size(); ++b) {
    const std::vector<BatchValue> outputs =
        OutputsOfBody(*whole_bodies[b], *bodies[b],
                      std::vector<BatchValue>(node.operands.begin() + 1,
                                              node.operands.end()));
    if (b == 0) {
      results = outputs;
      continue;
    }
    for (size_t r = 0; r < results.size(); ++r) {
      results[r] = Joined(results[r], outputs[r]);
    }
  }
  for (BatchValue& result : results) {
    result.of_inputs = result.of_inputs && OfInputs(node);
    result.is_whole_constant = false;
  }
  return results;
}

std::vector<BatchValue> LeavesOfModel(const Graph& whole, const Graph& part) {
  std::vector<BatchValue> leaves;
  for (ValueId id = 0; id < part.num_values(); ++id) {
    const ValueInfo& leaf = part.value(id);
    if (!leaf.is_leaf()) continue;
    BatchValue value = {.of_inputs = leaf.role == Role::kInput};
    const std::optional<ValueId> in_whole = whole.Find(leaf.name);
    const int axis =
        in_whole ? ExamplesAxis(leaf.type, whole.value(*in_whole).type) : -2;
    if (axis >= 0) {
      value.kind = BatchKind::kPerExample;
      value.axis = axis;
    }
    // BatchAxes reports an input that does not fit.
    leaves.push_back(std::move(value));
  }
  return leaves;
}

}  // namespace

BatchAnalysis AnalyzeBatch(const Graph& whole, const Graph& part,
                           const BatchAnalysisOptions& options) {
  return Analyzer(whole, part, LeavesOfModel(whole, part), /*is_body=*/false,
                  options)
      .Run();
}

std::vector<BatchObstacle> ObstaclesToSplit(const Graph& part,
                                            const BatchAnalysis& analysis,
                                            std::string_view loss) {
  std::vector<BatchObstacle> obstacles;
  const std::optional<ValueId> loss_value = part.Find(loss);
  std::vector<GraphOutput> outputs(part.outputs().begin(),
                                   part.outputs().end());
  // The loss may be a value that is no output.
  if (loss_value &&
      std::ranges::count(outputs, *loss_value, &GraphOutput::value) == 0) {
    outputs.push_back({.name = std::string(loss), .value = *loss_value});
  }
  for (const GraphOutput& output : outputs) {
    const BatchValue& value = analysis.values[Index(output.value)];
    if (part.value(output.value).role == Role::kState ||
        part.value(output.value).role == Role::kParam) {
      continue;
    }
    if (value.kind == BatchKind::kMixed) {
      obstacles.push_back({.name = output.name, .why = value.why});
    } else if (value.kind == BatchKind::kPerExample && !value.is_whole_axis()) {
      obstacles.push_back(
          {.name = output.name,
           .why = StrCat("its axis ", value.axis, " has the batch ", value.runs,
                         " times, one behind the other")});
    } else if (value.kind == BatchKind::kMax &&
               (!analysis.options.has_max || output.value == loss_value)) {
      obstacles.push_back(
          {.name = output.name, .why = "it is a maximum over the examples"});
    }
  }
  for (const ValueId id : analysis.written) {
    obstacles.push_back(
        {.name = part.value(id).name,
         .why = "the model writes it, which micro-batches would do one after "
                "the other"});
  }
  return obstacles;
}

}  // namespace stowage

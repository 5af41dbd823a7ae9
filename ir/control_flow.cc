#include "ir/control_flow.h"

#include <memory>
#include <set>
#include <utility>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/graph_copy.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage {

namespace {

// The operands of a branch: carried, then whole ones.
WhileValues ValuesOf(CondBody& branch, const WhileOperands& operands) {
  WhileValues values = {branch.builder(), {}, {}};
  const size_t carried = operands.carried.size();
  for (size_t i = 0; i < carried; ++i) {
    values.carried.push_back(branch.operand(i));
  }
  for (size_t i = 0; i < operands.whole.size(); ++i) {
    values.whole.push_back(branch.operand(carried + i));
  }
  return values;
}

// One iteration: the body, or nothing.
void BuildIteration(
    LoopBody& iteration, const WhileOperands& operands,
    const std::function<Value(const WhileValues&)>& holds,
    const std::function<std::vector<Value>(const WhileValues&)>& body,
    SourceLoc loc) {
  GraphBuilder& g = iteration.builder();
  const size_t carried = operands.carried.size();
  WhileValues values = {g, {}, {}};
  for (size_t i = 0; i < carried; ++i) {
    values.carried.push_back(iteration.carried(i));
  }
  for (size_t i = 0; i < operands.whole.size(); ++i) {
    values.whole.push_back(iteration.whole(i));
  }
  const Value runs = holds(values);
  if (!runs.ok() || runs.builder() != &g ||
      runs.type() != TensorType{DType::kBool, {}}) {
    g.Fail(StrCat("[while] the condition is ",
                  runs.ok() && runs.builder() == &g ? runs.type().ToString()
                                                    : "no value of its graph",
                  "; expected bool()"),
           loc);
    return;
  }
  std::vector<Value> all = values.carried;
  all.insert(all.end(), values.whole.begin(), values.whole.end());
  const std::function<std::vector<Value>(CondBody&)> branches[] = {
      [&](CondBody& branch) { return ValuesOf(branch, operands).carried; },
      [&](CondBody& branch) {
        std::vector<Value> next = body(ValuesOf(branch, operands));
        if (next.size() != carried) {
          branch.builder().Fail(
              StrCat("[while] the body returns ", next.size(),
                     " values; expected as many as are carried, ", carried),
              loc);
          next.resize(carried);
        }
        return next;
      }};
  const std::vector<Value> next = Cond(g, runs, all, branches, loc);
  if (g.error()) return;
  for (size_t i = 0; i < carried; ++i) iteration.Next(i, next[i]);
  iteration.Sum(Cast(runs, DType::kI64, loc));
}

}  // namespace

WhileResults While(
    GraphBuilder& g, int64_t most, const WhileOperands& operands,
    const std::function<Value(const WhileValues&)>& holds,
    const std::function<std::vector<Value>(const WhileValues&)>& body,
    SourceLoc loc) {
  LoopResults results = Loop(
      g, most, {.carried = operands.carried, .whole = operands.whole},
      [&](LoopBody& iteration) {
        BuildIteration(iteration, operands, holds, body, loc);
      },
      {.name = "while"}, loc);
  WhileResults made = {.carried = std::move(results.carried)};
  if (!results.summed.empty()) made.iterations = results.summed[0];
  return made;
}

namespace {

// A leaf of the body that stands for `outer`, with its name if that is free.
Value DeclareOperand(GraphBuilder& g, Value outer, const GraphBuilder& outside,
                     bool slice) {
  if (!outer.ok() || outer.builder() != &outside) return Value();
  const ValueInfo& info = outside.info(outer);
  std::string name = info.name;
  for (int i = 2; g.Find(name); ++i) name = StrCat(info.name, ".", i);
  TensorType type = info.type;
  if (slice) {
    type.shape = {};
    for (int axis = 1; axis < info.type.shape.rank(); ++axis) {
      type.shape.push_back(info.type.shape[axis]);
    }
  }
  return g.LeafLike({.name = name,
                     .type = type,
                     .role = Role::kInput,
                     .source = info.source});
}

std::vector<Value> DeclareOperands(GraphBuilder& g,
                                   std::span<const Value> outer,
                                   const GraphBuilder& outside,
                                   bool slice = false) {
  std::vector<Value> leaves;
  for (const Value& value : outer) {
    leaves.push_back(DeclareOperand(g, value, outside, slice));
  }
  return leaves;
}

bool IsOf(Value value, const GraphBuilder& g) {
  return value.ok() && value.builder() == &g;
}

void Append(std::span<const Value> more, std::vector<Value>* values) {
  values->insert(values->end(), more.begin(), more.end());
}

std::vector<ValueId> IdsOf(std::span<const Value> values) {
  std::vector<ValueId> ids;
  for (const Value& value : values) ids.push_back(value.id());
  return ids;
}

// The graph of a body whose functions have been called; an error where something is
// wrong with it.
Result<Graph> FinishBody(GraphBuilder& g, std::span<const Value> leaves,
                         std::span<const Value> outputs) {
  if (g.error()) return *g.error();
  for (const Value& output : outputs) {
    if (IsOf(output, g)) continue;
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("body ", Quoted(g.graph().name()),
                        " hands back a value that is not of its builder")};
  }
  return MakeBody(g.graph(), IdsOf(leaves), IdsOf(outputs));
}

}  // namespace

Result<Graph> MakeBody(const Graph& body, std::span<const ValueId> leaves,
                       std::span<const ValueId> outputs) {
  GraphBuilder g(body.name());
  GraphCopy copy(body, &g);
  for (const ValueId leaf : leaves) {
    const ValueInfo& info = body.value(leaf);
    const bool saved = info.role == Role::kSaved;
    copy.Map(leaf, DeclareLeaf(g, info, saved ? Role::kInput : info.role));
  }
  // Any others that are read are too many, which the node's rule says.
  for (const Node& node : body.nodes()) {
    for (const ValueId input : node.inputs) {
      if (body.value(input).is_leaf() && !copy[input].ok()) {
        copy.DeclareLeaf(input);
      }
    }
  }
  for (NodeId id = 0; id < body.num_nodes(); ++id) copy.CopyNode(id);
  const auto owns_bytes = [&](ValueId id) {
    const ValueInfo& info = body.value(id);
    if (info.is_leaf()) return false;
    const OpDef& def = GetOpDef(body.node(info.producer).op);
    return !def.is_view() && info.result >= def.updates;
  };
  std::set<ValueId> seen;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value value = copy[outputs[i]];
    if (!owns_bytes(outputs[i]) || !seen.insert(outputs[i]).second) {
      const ValueInfo& info = body.value(outputs[i]);
      g.SetOrigin(Phase::kForward, "", info.source);
      value = Copy(value);
    }
    if (!value.ok()) break;
    g.Name(g.info(value).name, value);  // which it keeps as an output
    std::string name = StrCat("out", i);
    while (g.Find(name)) name += "'";
    g.Output(name, value);
  }
  return g.Finish();
}

LoopBody::LoopBody(const LoopOperands& operands, const LoopOptions& options,
                   const GraphBuilder& outside)
    : g_(options.name),
      carried_(DeclareOperands(g_, operands.carried, outside)),
      sliced_(DeclareOperands(g_, operands.sliced, outside, /*slice=*/true)),
      whole_(DeclareOperands(g_, operands.whole, outside)),
      next_(operands.carried.size()) {}

void LoopBody::Next(size_t i, Value value) {
  if (i < next_.size()) {
    next_[i] = value;
  } else {
    g_.Fail(StrCat("[loop] there is no carried value ", i, " among the ",
                   next_.size(), " of body ", Quoted(g_.graph().name())),
            SourceLoc{});
  }
}

void LoopBody::Sum(Value value) {
  if (!IsOf(value, g_)) return;
  std::string name = StrCat("sum", sums_.size());
  while (g_.Find(name)) name += "'";
  const Value so_far = g_.LeafLike({.name = name,
                                    .type = value.type(),
                                    .role = Role::kInput,
                                    .source = g_.info(value).source});
  sums_so_far_.push_back(so_far);
  sums_.push_back(Add(so_far, value));
}

LoopResults Loop(GraphBuilder& g, int64_t iterations,
                 const LoopOperands& operands,
                 const std::function<void(LoopBody&)>& build,
                 const LoopOptions& options, SourceLoc loc) {
  LoopResults results;
  results.carried.resize(operands.carried.size());
  if (g.error()) return results;
  std::vector<Value> all = operands.carried;
  Append(operands.sliced, &all);
  Append(operands.whole, &all);
  for (const Value& value : all) {
    if (IsOf(value, g)) continue;
    g.Fail(StrCat("[loop] an operand is not a value of graph ",
                  Quoted(g.graph().name())),
           loc);
    return results;
  }
  LoopBody body(operands, options, g);
  build(body);
  for (size_t i = 0; i < body.next_.size(); ++i) {
    if (body.next_[i].builder() != nullptr || body.g_.error()) continue;
    body.g_.Fail(StrCat("body ", Quoted(options.name),
                        " gives no Next for carried value ", i, ", ",
                        Quoted(g.info(operands.carried[i]).name)),
                 SourceLoc{});
  }
  std::vector<Value> leaves = body.carried_;
  Append(body.sliced_, &leaves);
  Append(body.whole_, &leaves);
  Append(body.sums_so_far_, &leaves);
  std::vector<Value> outputs = body.next_;
  Append(body.sums_, &outputs);
  Append(body.stacked_, &outputs);
  Result<Graph> graph = FinishBody(body.g_, leaves, outputs);
  if (!graph.ok()) {
    g.Fail(StrCat("[loop] ", graph.error().message), loc);
    return results;
  }
  const auto number = [](const auto& list) {
    return static_cast<int64_t>(list.size());
  };
  std::vector<Value> made = g.Emit(
      OpKind::kLoop, all,
      {{"iterations", iterations},
       {"carried", number(operands.carried)},
       {"sliced", number(operands.sliced)},
       {"summed", number(body.sums_)},
       {"reverse", int64_t{options.reverse}},
       {"bodies", SubGraphs{std::make_shared<const Graph>(*std::move(graph))}}},
      loc);
  made.resize(outputs.size());  // after an error there may be other numbers
  const auto summed = made.begin() + number(operands.carried);
  const auto stacked = summed + number(body.sums_);
  results.carried.assign(made.begin(), summed);
  results.summed = LoopValues({summed, stacked});
  results.stacked = LoopValues({stacked, made.end()});
  return results;
}

CondBody::CondBody(std::string name, std::span<const Value> operands,
                   const GraphBuilder& outside)
    : g_(std::move(name)), operands_(DeclareOperands(g_, operands, outside)) {}

std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::span<const Value> operands,
    std::span<const std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc) {
  std::vector<Value> results;
  std::vector<Value> all = {index};
  Append(operands, &all);
  for (const Value& value : all) {
    if (IsOf(value, g) || g.error()) continue;
    g.Fail(StrCat("[cond] an operand is not a value of graph ",
                  Quoted(g.graph().name())),
           loc);
  }
  SubGraphs graphs;
  for (size_t i = 0; i < bodies.size() && !g.error(); ++i) {
    CondBody body(StrCat("branch", i), operands, g);
    const std::vector<Value> outputs = bodies[i](body);
    results.resize(outputs.size());
    Result<Graph> graph = FinishBody(body.g_, body.operands_, outputs);
    if (!graph.ok()) {
      g.Fail(StrCat("[cond] ", graph.error().message), loc);
    } else {
      graphs.push_back(std::make_shared<const Graph>(*std::move(graph)));
    }
  }
  if (g.error()) return results;
  std::vector<Value> made =
      g.Emit(OpKind::kCond, all, {{"bodies", std::move(graphs)}}, loc);
  made.resize(results.size());
  return made;
}

std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::initializer_list<Value> operands,
    std::initializer_list<std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc) {
  return Cond(g, index, std::span(operands.begin(), operands.size()),
              std::span(bodies.begin(), bodies.size()), loc);
}

}  // namespace stowage

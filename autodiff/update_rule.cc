#include "autodiff/update_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage {
namespace {

template <typename... Args>
Error Fail(const Args&... args) {
  return Error{ErrorCode::kInvalidArgument, StrCat("[optimizer] ", args...)};
}

// Whether a node from `first` on overwrites `param`.
bool IsWritten(const Graph& graph, ValueId param, NodeId first) {
  for (NodeId id = first; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      if (node.inputs[static_cast<size_t>(r)] == param) return true;
    }
  }
  return false;
}

// The first node from `first` on that writes in place and is not one of `known`;
// kNoNode: there is none.
NodeId FindOtherWriter(const Graph& graph, const std::vector<NodeId>& known,
                       NodeId first) {
  for (NodeId id = first; id < graph.num_nodes(); ++id) {
    const bool writes = GetOpDef(graph.node(id).op).updates > 0;
    if (writes && std::ranges::find(known, id) == known.end()) return id;
  }
  return kNoNode;
}

}  // namespace

ParamUpdate::ParamUpdate(Value of, Value delta, Value by)
    : param(JoinWeight(of, delta)), gradient(by), leaf_(of), delta_(delta) {}

Value ParamUpdate::State(std::string_view suffix, Init init) {
  return State(suffix, TensorType(param.type()), init);
}

Value ParamUpdate::State(std::string_view suffix, const TensorType& type,
                         Init init) {
  if (!param.ok()) return Value();
  GraphBuilder& g = *leaf_.builder();
  const std::string name = StrCat(g.info(leaf_).name, ".", suffix);
  return g.State(name, type.dtype, type.shape, init);
}

void ParamUpdate::Set(Value target, Value content) {
  if (!target.ok() || !content.ok()) return;
  if (good.builder() != nullptr) {
    content = Where(BroadcastTo(good, content.shape()), content, target);
  }
  const bool is_param = target.id() == param.id();
  const bool is_split = is_param && delta_.builder() != nullptr;
  const Value written = is_split ? SplitUpdate(leaf_, delta_, content).w
                                 : Assign(target, content);
  Note(written, is_param ? leaf_ : target);
}

Value ParamUpdate::Lerp(Value state, Value x, Value weight) {
  if (!state.ok() || !weight.ok()) return Value();
  if (good.builder() != nullptr) {
    const Value never =
        Fill(*state.builder(), std::numeric_limits<double>::infinity(),
             weight.dtype(), weight.shape());
    weight = Where(BroadcastTo(good, weight.shape()), weight, never);
  }
  const Value written = LerpUpdate(state, x, weight);
  Note(written, state);
  return written;
}

// That the new content of `leaf` is `written`.
void ParamUpdate::Note(Value written, Value leaf) {
  if (!written.ok()) return;
  GraphBuilder& g = *written.builder();
  writers_.push_back(g.info(written).producer);
  const std::string name = StrCat("new:", g.info(leaf).name);
  if (!g.Find(name)) g.Name(name, written);
}

Value ParamUpdate::LearningRate() const { return Cast(lr, param.dtype()); }

Status CheckUpdateRule(const UpdateRule& rule) {
  if (rule.name.empty()) return Fail("an update rule has no name");
  if (!rule.update) {
    return Fail("update rule ", Quoted(rule.name), " has no function");
  }
  const auto check = [&](std::string_view what, double value) -> Status {
    if (value >= 0 && std::isfinite(value)) return {};
    return Fail(what, " of update rule ", Quoted(rule.name), " is ", value,
                "; expected a finite number of at least 0");
  };
  STOWAGE_RETURN_IF_ERROR(check("the learning rate", rule.learning_rate));
  return check("the decay", rule.decay);
}

void EmitUpdate(const UpdateRule& rule, ParamUpdate& update) {
  if (!update.param.ok()) return;
  GraphBuilder& g = *update.param.builder();
  const NodeId first = g.graph().num_nodes();
  rule.update(update);
  if (g.error()) return;
  const std::string& param = g.info(update.leaf_).name;
  if (!IsWritten(g.graph(), update.leaf_.id(), first)) {
    g.Fail(Fail("update rule ", Quoted(rule.name), " does not write the param ",
                Quoted(param),
                "; call Set(update.param, ...), or freeze the param by a "
                "group"));
    return;
  }
  if (update.good.builder() == nullptr) return;
  const NodeId other = FindOtherWriter(g.graph(), update.writers_, first);
  if (other == kNoNode) return;
  g.Fail(Error{
      ErrorCode::kUnsupported,
      StrCat("[optimizer] update rule ", Quoted(rule.name), " writes by ",
             OpName(g.graph().node(other).op), " for the param ", Quoted(param),
             ", which a step with loss scaling cannot skip; expected "
             "Set and Lerp alone, or a step without loss scaling")});
}

}  // namespace stowage

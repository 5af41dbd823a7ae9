#include "autodiff/update_rule.h"

#include <cmath>

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

}  // namespace

Value ParamUpdate::State(std::string_view suffix, Init init) {
  return State(suffix, TensorType(param.type()), init);
}

Value ParamUpdate::State(std::string_view suffix, const TensorType& type,
                         Init init) {
  if (!param.ok()) return Value();
  GraphBuilder& g = *param.builder();
  const std::string name = StrCat(g.info(param).name, ".", suffix);
  return g.State(name, type.dtype, type.shape, init);
}

void ParamUpdate::Set(Value target, Value content) {
  const Value written = Assign(target, content);
  if (!written.ok()) return;
  GraphBuilder& g = *target.builder();
  const std::string name = StrCat("new:", g.info(target).name);
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
  if (g.error() || IsWritten(g.graph(), update.param.id(), first)) return;
  g.Fail(Fail("update rule ", Quoted(rule.name), " does not write the param ",
              Quoted(g.info(update.param).name),
              "; call Set(update.param, ...), or freeze the param by a group"));
}

}  // namespace stowage

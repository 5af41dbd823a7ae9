#include "autodiff/forward_values.h"

#include <algorithm>

#include "base/check.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/uses.h"

namespace stowage {
namespace {

bool IsMadeAgain(OpKind op) {
  return op == OpKind::kFill || op == OpKind::kIota ||
         op == OpKind::kConstant || GetOpDef(op).is_view();
}

}  // namespace

ForwardValues::ForwardValues(const Graph& forward, GraphBuilder* backward)
    : forward_(forward),
      backward_(*backward),
      values_(static_cast<size_t>(forward.num_values())) {
  const Uses uses(forward, ComputeLayouts(forward));
  const auto declare = [&](ValueId id) {
    const ValueInfo& info = forward.value(id);
    const bool stays = info.is_leaf() && uses.overwriter(id) == kNoNode;
    const Role role = stays ? info.role : Role::kSaved;
    values_[static_cast<size_t>(id)] = DeclareLeaf(backward_, info, role);
  };
  // Leaves, then results in the order of execution.
  for (ValueId id = 0; id < forward.num_values(); ++id) {
    if (forward.value(id).is_leaf()) declare(id);
  }
  for (const Node& node : forward.nodes()) {
    if (IsMadeAgain(node.op)) continue;
    for (const ValueId id : node.results) declare(id);
  }
}

Value ForwardValues::Read(ValueId id) {
  std::optional<Value>& value = values_[static_cast<size_t>(id)];
  if (value) return *value;
  const ValueInfo& info = forward_.value(id);
  const Node& node = forward_.node(info.producer);
  STOWAGE_CHECK(IsMadeAgain(node.op));
  std::vector<Value> inputs;
  bool is_of_this_node =
      (node.op == OpKind::kFill || node.op == OpKind::kIota) &&
      info.type.shape.num_elements() > 1;
  for (const ValueId input : node.inputs) {
    inputs.push_back(Read(input));
    is_of_this_node |= std::ranges::count(of_this_node_, input) > 0;
  }
  std::vector<Value> results = backward_.Emit(node.op, inputs, node.attrs);
  results.resize(node.results.size());  // after an error there may be fewer
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueId result = node.results[r];
    values_[static_cast<size_t>(result)] = results[r];
    if (is_of_this_node) of_this_node_.push_back(result);
  }
  return *value;
}

void ForwardValues::BeginNode() {
  for (const ValueId id : of_this_node_) {
    values_[static_cast<size_t>(id)].reset();
  }
  of_this_node_.clear();
}

}  // namespace stowage

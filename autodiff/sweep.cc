#include "autodiff/sweep.h"

#include <algorithm>

#include "autodiff/vjp.h"
#include "base/check.h"
#include "base/strings.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/uses.h"

namespace stowage {

void Cotangents::Add(ValueId id, Value gradient) {
  if (!wanted(id)) return;
  STOWAGE_CHECK(!gradient.ok() || gradient.type() == forward_.value(id).type);
  std::optional<Value>& sum = sums_[static_cast<size_t>(id)];
  sum = sum ? stowage::Add(*sum, gradient) : gradient;
}

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

std::string GradientName(std::string_view name) {
  return StrCat("grad:", name);
}

void WantAllThatDepends(const Graph& forward, Cotangents* cotangents) {
  for (const Node& node : forward.nodes()) {
    if (GetVjp(node.op).is_zero()) continue;
    bool depends = false;
    for (const ValueId input : node.inputs) {
      depends |= cotangents->wanted(input);
    }
    if (!depends) continue;
    for (const ValueId result : node.results) {
      if (IsFloat(forward.value(result).type.dtype)) cotangents->Want(result);
    }
  }
}

void NameGradient(const ValueInfo& of, Value gradient, GraphBuilder* g) {
  if (!gradient.ok()) return;
  const ValueInfo& info = g->info(gradient);
  if (info.is_leaf() || info.role != Role::kActivation) return;
  g->SetRole(gradient, Role::kGradient);
  const std::string name = GradientName(of.name);
  if (!g->Find(name)) g->Name(name, gradient);
}

void Sweep(const Graph& forward, ForwardValues* values, Cotangents* cotangents,
           GraphBuilder* g) {
  for (NodeId id = forward.num_nodes() - 1; id >= 0; --id) {
    const Node& node = forward.node(id);
    bool matters = false;
    for (const ValueId result : node.results) {
      if (const auto gradient = cotangents->Find(result)) {
        NameGradient(forward.value(result), *gradient, g);
        matters = true;
      }
    }
    if (!matters) continue;
    const ValueInfo& made = forward.value(node.results.front());
    g->SetOrigin(Phase::kBackward, made.name, made.source);
    values->BeginNode();
    VjpContext context(forward, node, values, cotangents, g);
    const Vjp& vjp = GetVjp(node.op);
    if (vjp.refusal != nullptr) {
      context.Refuse(vjp.refusal);
    } else {
      vjp.rule(context);
    }
    if (g->error()) return;
  }
}

}  // namespace stowage

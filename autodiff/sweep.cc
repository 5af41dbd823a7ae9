#include "autodiff/sweep.h"

#include "autodiff/vjp.h"
#include "base/strings.h"

namespace stowage {

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

#include "ir/graph_copy.h"

#include <optional>
#include <string>

namespace stowage {

Value DeclareLeaf(GraphBuilder& to, const ValueInfo& info, Role role) {
  ValueInfo leaf = {.name = info.name,
                    .type = info.type,
                    .role = role,
                    .source = info.source};
  if (role == Role::kParam || role == Role::kState) leaf.init = info.init;
  if (role == Role::kState) leaf.on_host = info.on_host;
  return to.LeafLike(leaf);
}

void GraphCopy::DeclareLeaf(ValueId id) {
  const ValueInfo& info = from_.value(id);
  Map(id, stowage::DeclareLeaf(to_, info, info.role));
}

void GraphCopy::DeclareLeaves() {
  for (ValueId id = 0; id < from_.num_values(); ++id) {
    if (from_.value(id).is_leaf() && !(*this)[id].ok()) DeclareLeaf(id);
  }
}

void GraphCopy::SetOrigin(NodeId id) {
  const Node& node = from_.node(id);
  to_.SetOrigin(node.phase, origin_ ? *origin_ : node.origin,
                from_.value(node.results.front()).source);
}

void GraphCopy::DeclareOutputs() {
  for (const GraphOutput& output : from_.outputs()) {
    to_.Output(output.name, (*this)[output.value]);
  }
}

void GraphCopy::CopyNode(NodeId id, const Attrs& attrs) {
  const Node& node = from_.node(id);
  std::vector<Value> inputs;
  for (const ValueId input : node.inputs) inputs.push_back((*this)[input]);
  SetOrigin(id);
  std::vector<Value> results = to_.Emit(node.op, inputs, attrs);
  results.resize(node.results.size());  // after an error there may be fewer
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueInfo& info = from_.value(node.results[r]);
    const std::string name = info.name + suffix_;
    // A later result may hold this one's name, as its fresh one.
    for (size_t later = r + 1; later < node.results.size(); ++later) {
      if (!results[later].ok() || to_.info(results[later]).name != name) {
        continue;
      }
      std::string aside = name + "_";
      while (to_.Find(aside)) aside += "_";
      to_.Name(aside, results[later]);
    }
    // Also where it has the name by chance, so that no output renames it.
    const std::optional<Value> holder = to_.Find(name);
    if (!holder || (results[r].ok() && holder->id() == results[r].id())) {
      to_.Name(name, results[r]);
    }
    // Outputs are outputs only where they are declared as such.
    to_.SetRole(results[r],
                info.role == Role::kOutput ? Role::kActivation : info.role);
    Map(node.results[r], results[r]);
  }
}

}  // namespace stowage

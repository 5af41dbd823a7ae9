#include "ir/rewrite.h"

#include "base/strings.h"

namespace stowage {

Rewriter::Rewriter(const Graph& from)
    : from_(from),
      to_(from.name()),
      first_(static_cast<size_t>(from.num_values())) {
  for (ValueId id = 0; id < from.num_values(); ++id) {
    const ValueInfo& info = from.value(id);
    if (!info.is_leaf()) continue;
    first_[static_cast<size_t>(id)] = to_.LeafLike(info);
  }
}

std::string Rewriter::FreshName(const std::string& of) {
  const std::string stem = StrCat(of, kRunAgainSuffix);
  std::string name = stem;
  // The old names, too: their nodes may be yet to come.
  for (int i = 2; to_.Find(name) || from_.Find(name); ++i) {
    name = StrCat(stem, i);
  }
  return name;
}

std::vector<Value> Rewriter::Run(NodeId id, std::span<const Value> operands) {
  const Node& node = from_.node(id);
  const bool again = first_[static_cast<size_t>(node.results[0])].ok();
  std::vector<std::string> names;
  for (const ValueId result : node.results) {
    const std::string& name = from_.value(result).name;
    names.push_back(again ? FreshName(name) : name);
  }
  to_.SetOrigin(node.phase, node.origin,
                from_.value(node.results.front()).source);
  std::vector<Value> results =
      to_.EmitNamed(node.op, operands, node.attrs, names);
  results.resize(node.results.size());  // after an error there may be more
  for (size_t r = 0; r < results.size(); ++r) {
    const ValueId result = node.results[r];
    const Role role = from_.value(result).role;
    // Outputs become outputs where they are declared as such.
    to_.SetRole(results[r], role == Role::kOutput ? Role::kActivation : role);
    if (!again) first_[static_cast<size_t>(result)] = results[r];
  }
  return results;
}

Result<Graph> Rewriter::Finish() {
  for (const GraphOutput& output : from_.outputs()) {
    to_.Output(output.name, first_[static_cast<size_t>(output.value)]);
  }
  return to_.Finish();
}

}  // namespace stowage

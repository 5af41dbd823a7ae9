#include "onnx/weights.h"

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"

namespace stowage::onnx {
namespace {

using Tensors = std::vector<std::pair<std::string, const pb::TensorProto*>>;

void AddTensors(const pb::GraphProto& graph, Tensors* tensors) {
  for (const pb::TensorProto& tensor : graph.initializer()) {
    tensors->emplace_back(tensor.name(), &tensor);
  }
  for (const pb::NodeProto& node : graph.node()) {
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) AddTensors(attribute.g(), tensors);
    }
  }
}

}  // namespace

bool IsNameOfStep(std::string_view name) {
  return name == "lr" || name == "step" || name == "seed" || name == "loss" ||
         name == "labels";
}

bool MayNameState(std::string_view name,
                  const std::unordered_set<std::string>& tensors) {
  for (size_t dot = name.find('.'); dot != name.npos;
       dot = name.find('.', dot + 1)) {
    if (tensors.contains(std::string(name.substr(0, dot)))) return true;
  }
  return false;
}

Tensors TensorsOf(const pb::GraphProto& graph) {
  Tensors tensors;
  AddTensors(graph, &tensors);
  std::unordered_set<std::string> names, taken;
  for (const auto& [name, tensor] : tensors) names.insert(name);
  std::unordered_map<std::string, int64_t> counts;
  for (auto& [name, tensor] : tensors) {
    const bool is_free = !IsNameOfStep(name) && !MayNameState(name, names);
    if (is_free && taken.insert(name).second) continue;
    do {
      name = StrCat(tensor->name(), ".", 1 + ++counts[tensor->name()]);
    } while (!taken.insert(name).second);
  }
  return tensors;
}

}  // namespace stowage::onnx

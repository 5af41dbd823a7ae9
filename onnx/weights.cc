#include "onnx/weights.h"

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"

namespace stowage::onnx {
namespace {

using Tensors = std::vector<std::pair<std::string, const pb::TensorProto*>>;

struct Names {
  std::unordered_set<std::string> taken = {};
  std::unordered_map<std::string, int64_t> counts = {};  // by what was taken
};

void AddTensors(const pb::GraphProto& graph, Names* names, Tensors* tensors) {
  for (const pb::TensorProto& tensor : graph.initializer()) {
    std::string name = tensor.name();
    while (!names->taken.insert(name).second) {
      name = StrCat(tensor.name(), ".", 1 + ++names->counts[tensor.name()]);
    }
    tensors->emplace_back(std::move(name), &tensor);
  }
  for (const pb::NodeProto& node : graph.node()) {
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) AddTensors(attribute.g(), names, tensors);
    }
  }
}

}  // namespace

Tensors TensorsOf(const pb::GraphProto& graph) {
  Names names;
  Tensors tensors;
  AddTensors(graph, &names, &tensors);
  return tensors;
}

}  // namespace stowage::onnx

#include "onnx/needed_nodes.h"

namespace stowage::onnx {
namespace {

using Names = std::unordered_set<std::string_view>;

// All that a graph within a node names may be a value outside of it.
void AddNames(const pb::GraphProto& graph, Names* names);

void AddNames(const pb::NodeProto& node, Names* names) {
  names->insert(node.input().begin(), node.input().end());
  for (const pb::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) AddNames(attribute.g(), names);
  }
}

void AddNames(const pb::GraphProto& graph, Names* names) {
  for (const pb::NodeProto& node : graph.node()) AddNames(node, names);
  for (const pb::ValueInfoProto& output : graph.output()) {
    names->insert(output.name());
  }
}

}  // namespace

std::vector<bool> NodesFor(
    const std::string& value,
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes) {
  Names names = {value};
  std::vector<bool> needed(static_cast<size_t>(nodes.size()), false);
  for (int i = nodes.size(); i-- > 0;) {
    const pb::NodeProto& node = nodes.Get(i);
    for (const std::string& result : node.output()) {
      if (names.contains(result)) needed[static_cast<size_t>(i)] = true;
    }
    if (needed[static_cast<size_t>(i)]) AddNames(node, &names);
  }
  return needed;
}

std::unordered_set<std::string_view> ReadBy(
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
    const std::vector<bool>& needed) {
  Names names;
  for (int i = 0; i < nodes.size(); ++i) {
    if (needed[static_cast<size_t>(i)]) AddNames(nodes.Get(i), &names);
  }
  return names;
}

}  // namespace stowage::onnx

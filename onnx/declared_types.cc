#include "onnx/declared_types.h"

namespace stowage::onnx {

DeclaredTypes::DeclaredTypes(const pb::GraphProto& graph) {
  for (const std::string& bytes : graph.value_info()) {
    pb::ValueInfoProto info;
    if (info.ParseFromString(bytes)) others_[info.name()] = &bytes;
  }
  for (const pb::ValueInfoProto& info : graph.output()) {
    outputs_[info.name()] = &info;
  }
}

std::optional<pb::TypeProto::Tensor> DeclaredTypes::Find(
    const std::string& name) const {
  pb::ValueInfoProto info;
  if (const auto output = outputs_.find(name); output != outputs_.end()) {
    info = *output->second;
  } else if (const auto other = others_.find(name); other != others_.end()) {
    info.ParseFromString(*other->second);
  }
  if (!info.type().has_tensor_type()) return std::nullopt;
  return info.type().tensor_type();
}

}  // namespace stowage::onnx

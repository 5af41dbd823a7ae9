#include "onnx/functions.h"

#include <algorithm>
#include <unordered_map>

namespace stowage::onnx {
namespace {

// What an attribute of the body refers to; null where neither has it.
const pb::AttributeProto* Meant(const std::string& name,
                                const pb::NodeProto& call,
                                const pb::FunctionProto& function) {
  for (const auto* const list :
       {&call.attribute(), &function.attribute_proto()}) {
    for (const pb::AttributeProto& attribute : *list) {
      if (attribute.name() == name) return &attribute;
    }
  }
  return nullptr;
}

void FillIn(const pb::NodeProto& call, const pb::FunctionProto& function,
            pb::NodeProto* node) {
  for (int i = node->attribute_size(); i-- > 0;) {
    pb::AttributeProto* const attribute = node->mutable_attribute(i);
    if (attribute->ref_attr_name().empty()) {
      if (!attribute->has_g()) continue;
      for (pb::NodeProto& inner : *attribute->mutable_g()->mutable_node()) {
        FillIn(call, function, &inner);
      }
      continue;
    }
    const pb::AttributeProto* const meant =
        Meant(attribute->ref_attr_name(), call, function);
    if (!meant) {
      node->mutable_attribute()->DeleteSubrange(i, 1);
      continue;
    }
    const std::string name = attribute->name();
    attribute->CopyFrom(*meant);
    attribute->set_name(name);
  }
}

// Counts each function once.
class NodeCounter {
 public:
  NodeCounter(const FunctionTable& functions, int64_t most)
      : functions_(functions), most_(most) {}

  /// Null where no function calls itself.
  const pb::FunctionProto* recursive() const { return recursive_; }

  int64_t Count(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
                size_t depth) {
    int64_t count = 0;
    for (const pb::NodeProto& node : nodes) {
      count = std::min(most_, count + CountOf(node, depth));
    }
    return count;
  }

 private:
  int64_t CountOf(const pb::NodeProto& node, size_t depth) {
    if (const pb::FunctionProto* const function = functions_.Find(node)) {
      if (depth == 0) return 1;
      const auto [counted, is_new] = counts_.emplace(function, kBeingCounted);
      if (counted->second == kBeingCounted && !is_new) {
        recursive_ = function;
        return 1;
      }
      if (!is_new) return counted->second;
      const int64_t count = 1 + Count(function->node(), depth - 1);
      counts_[function] = count;
      return count;
    }
    int64_t count = 1;
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count += Count(attribute.g().node(), depth);
    }
    return count;
  }

  static constexpr int64_t kBeingCounted = 0;

  const FunctionTable& functions_;
  const int64_t most_;
  std::unordered_map<const pb::FunctionProto*, int64_t> counts_;
  const pb::FunctionProto* recursive_ = nullptr;
};

}  // namespace

FunctionTable::WrittenOut FunctionTable::CountWrittenOut(
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
    int64_t most, size_t depth) const {
  NodeCounter counter(*this, most);
  const int64_t count = counter.Count(nodes, depth);
  return {count, counter.recursive()};
}

FunctionTable::FunctionTable(const pb::ModelProto& model) {
  for (const pb::FunctionProto& function : model.functions()) {
    functions_[{function.domain(), function.name(), function.overload()}] =
        &function;
  }
}

const pb::FunctionProto* FunctionTable::Find(const pb::NodeProto& node) const {
  const auto found =
      functions_.find({node.domain(), node.op_type(), node.overload()});
  return found == functions_.end() ? nullptr : found->second;
}

google::protobuf::RepeatedPtrField<pb::NodeProto> BodyOf(
    const pb::NodeProto& call, const pb::FunctionProto& function) {
  google::protobuf::RepeatedPtrField<pb::NodeProto> body = function.node();
  const auto is_left_out = [&](const std::string& name) {
    for (int i = 0; i < function.input_size(); ++i) {
      if (function.input(i) != name) continue;
      return i >= call.input_size() || call.input(i).empty();
    }
    return false;
  };
  for (pb::NodeProto& node : body) {
    FillIn(call, function, &node);
    for (std::string& name : *node.mutable_input()) {
      if (is_left_out(name)) name.clear();
    }
  }
  return body;
}

}  // namespace stowage::onnx

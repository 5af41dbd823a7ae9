#include "onnx/opsets.h"

#include <cstdint>

#include "base/strings.h"
#include "onnx/ops.h"

namespace stowage::onnx {

bool IsOnnxDomain(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx";
}

Opsets OpsetsOf(
    const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports) {
  Opsets opsets;
  for (const pb::OperatorSetIdProto& import : imports) {
    opsets[IsOnnxDomain(import.domain()) ? "" : import.domain()] =
        import.version();
  }
  return opsets;
}

Status CheckOpset(const Opsets& opsets) {
  const auto found = opsets.find("");
  if (found == opsets.end() ||
      (found->second >= kOldestOpset && found->second <= kNewestOpset)) {
    return {};
  }
  return Error{
      ErrorCode::kUnsupported,
      StrCat("[onnx] the file asks for operator set ", found->second, "; ",
             kOldestOpset, " to ", kNewestOpset, " are supported")};
}

namespace {

template <typename Nodes>
void Count(const Nodes& nodes, const Opsets& opsets,
           const FunctionTable& functions, MissingOps* missing) {
  for (const pb::NodeProto& node : nodes) {
    if (const std::string name = MissingName(node, opsets, functions);
        !name.empty()) {
      ++(*missing)[name];
      continue;
    }
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) {
        Count(attribute.g().node(), opsets, functions, missing);
      }
    }
  }
}

}  // namespace

std::string MissingName(const pb::NodeProto& node, const Opsets& opsets,
                        const FunctionTable& functions) {
  if (functions.Find(node)) return "";
  if (!IsOnnxDomain(node.domain())) {
    return StrCat(node.domain(), ".", node.op_type());
  }
  const ImportedOp* const op = FindOp(node.domain(), node.op_type());
  if (!op) {
    return node.op_type().empty() ? "an op without a name" : node.op_type();
  }
  const auto version = opsets.find("");
  if (version == opsets.end()) return "";
  const bool known = version->second >= op->since &&
                     (op->changed == 0 || version->second < op->changed);
  if (known) return "";
  const int64_t asked =
      version->second < op->since ? version->second : op->changed;
  return StrCat(node.op_type(), " of operator set ", asked);
}

MissingOps FindMissingOps(const pb::ModelProto& model,
                          const FunctionTable& functions) {
  MissingOps missing;
  Count(model.graph().node(), OpsetsOf(model.opset_import()), functions,
        &missing);
  for (const pb::FunctionProto& function : model.functions()) {
    Count(function.node(), OpsetsOf(function.opset_import()), functions,
          &missing);
  }
  return missing;
}

std::string ToText(const MissingOps& missing) {
  std::string text;
  for (const auto& [name, count] : missing) {
    text += StrCat(text.empty() ? "" : ", ", name, " (", count,
                   count == 1 ? " node)" : " nodes)");
  }
  return text;
}

}  // namespace stowage::onnx

#include "onnx/opsets.h"

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

}  // namespace stowage::onnx

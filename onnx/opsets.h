#ifndef STOWAGE_ONNX_OPSETS_H_
#define STOWAGE_ONNX_OPSETS_H_

// Which definition of each op a file means: the operator sets that it asks for.
//
//   const Opsets opsets = OpsetsOf(model.opset_import());
//   opsets.at("");  // ONNX's own

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// Versions by domain; ONNX's own is "".
using Opsets = std::map<std::string, int64_t>;

/// Whether that is ONNX's own domain, which goes by two names.
bool IsOnnxDomain(std::string_view domain);

Opsets OpsetsOf(
    const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports);

/// Error kUnsupported: a version of ONNX's own that is not known here.
Status CheckOpset(const Opsets& opsets);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_OPSETS_H_

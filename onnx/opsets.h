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
#include "onnx/parse_model.h"

namespace stowage::onnx {

/// Versions by domain; ONNX's own is "".
using Opsets = std::map<std::string, int64_t>;

/// Whether that is ONNX's own domain, which goes by two names.
bool IsOnnxDomain(std::string_view domain);

Opsets OpsetsOf(
    const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports);

/// Error kUnsupported: a version of ONNX's own that is not known here.
Status CheckOpset(const Opsets& opsets);

// The ops of a file that are not known here: all of them at once, so that nobody has to
// find them one by one.
//
//   const MissingOps missing = FindMissingOps(model, functions);
//   ToText(missing) == "Loop (1 node), com.microsoft.Attention (12 nodes)"

/// How many nodes have each, by its name with its domain, or with the operator set that
/// has made another op of it.
using MissingOps = std::map<std::string, int>;

/// What the op of `node` is called among them; "" where it is known.
std::string MissingName(const pb::NodeProto& node, const Opsets& opsets,
                        const FunctionTable& functions);

/// Those of the model's graph, of the graphs within its nodes and of its functions.
MissingOps FindMissingOps(const pb::ModelProto& model,
                          const FunctionTable& functions);

std::string ToText(const MissingOps& missing);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_OPSETS_H_

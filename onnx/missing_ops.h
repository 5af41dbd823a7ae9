#ifndef STOWAGE_ONNX_MISSING_OPS_H_
#define STOWAGE_ONNX_MISSING_OPS_H_

// The ops of a file that are not known here: all of them at once, so that nobody has to
// find them one by one.
//
//   const MissingOps missing = FindMissingOps(model, functions);
//   ToText(missing) == "Loop (1 node), com.microsoft.Attention (12 nodes)"

#include <map>
#include <string>

#include "onnx/functions.h"
#include "onnx/onnx.pb.h"
#include "onnx/opsets.h"

namespace stowage::onnx {

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

#endif  // STOWAGE_ONNX_MISSING_OPS_H_

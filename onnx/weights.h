#ifndef STOWAGE_ONNX_WEIGHTS_H_
#define STOWAGE_ONNX_WEIGHTS_H_

// The tensors that a model holds, under names that are unique: those of its graph, and of
// the graphs within its nodes, which may call different ones alike.
//
//   for (const auto& [name, tensor] : TensorsOf(model.graph())) ...

#include <string>
#include <utility>
#include <vector>

#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// All of them, a graph's own before those within its nodes. A name that has come before
/// gets a number: "w", then "w.2".
std::vector<std::pair<std::string, const pb::TensorProto*>> TensorsOf(
    const pb::GraphProto& graph);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_WEIGHTS_H_

#ifndef STOWAGE_ONNX_WEIGHTS_H_
#define STOWAGE_ONNX_WEIGHTS_H_

// The tensors that a model holds, under names that are unique: those of its graph, and of
// the graphs within its nodes, which may call different ones alike.
//
//   for (const auto& [name, tensor] : TensorsOf(model.graph())) ...

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// Whether a training step has a value of its own of that name: "lr", "step", "seed",
/// "loss", "labels".
bool IsNameOfStep(std::string_view name);

/// Whether a training step may call a state of one of these tensors so: "w.m" where there
/// is a tensor "w".
bool MayNameState(std::string_view name,
                  const std::unordered_set<std::string>& tensors);

/// All of them, a graph's own before those within its nodes. A name that has come before
/// gets a number: "w", then "w.2"; so do names that a training step has of its own
/// (IsNameOfStep) or may give to a state.
std::vector<std::pair<std::string, const pb::TensorProto*>> TensorsOf(
    const pb::GraphProto& graph);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_WEIGHTS_H_

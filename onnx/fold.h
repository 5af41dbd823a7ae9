#ifndef STOWAGE_ONNX_FOLD_H_
#define STOWAGE_ONNX_FOLD_H_

// Computes at import what is the same in every step: the arithmetic on shapes that
// exporters write, up to a Reshape that wants to know its numbers.
//
//   Result<std::optional<std::vector<Array>>> folded = Fold(node);
//   if (folded.ok() && *folded) ...  // its results; no op in the graph

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "formats/array.h"
#include "onnx/node.h"

namespace stowage::onnx {

/// Elements that a folded result may have; a larger one is made by the step. So is what
/// comes when so many bytes of a model have been folded.
inline constexpr int64_t kMaxFolded = 1 << 16;
inline constexpr Bytes kMaxFoldedBytes = 64 << 20;

/// The results of a node that needs nothing but what is known; absent where the graph
/// has to compute it. Errors: what is wrong with the node's attributes or operands.
Result<std::optional<std::vector<Array>>> Fold(ImportedNode& node);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_FOLD_H_

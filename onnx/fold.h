#ifndef STOWAGE_ONNX_FOLD_H_
#define STOWAGE_ONNX_FOLD_H_

// Constant folding at import: the arithmetic on shapes that exporters write, whose results
// are operands of a Reshape.
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

/// Limits of the elements of a folded result, and of the bytes of all results of a model;
/// beyond them nodes are computed by the step.
inline constexpr int64_t kMaxFolded = 1 << 16;
inline constexpr Bytes kMaxFoldedBytes = 64 << 20;

/// The results of a node whose operands are constants; absent if the graph must compute it.
/// Errors: invalid attributes or operands.
Result<std::optional<std::vector<Array>>> Fold(ImportedNode& node);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_FOLD_H_

#ifndef STOWAGE_ONNX_FOLD_H_
#define STOWAGE_ONNX_FOLD_H_

// Folds constants at import. Exporters write arithmetic on shapes, whose results are operands of
// nodes such as Reshape and must be known when the graph is built.
//
//   Result<std::optional<std::vector<Array>>> folded = Fold(node);
//   if (folded.ok() && *folded) ...  // **folded are the results; no op is added to the graph

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "formats/array.h"
#include "onnx/node.h"

namespace stowage::onnx {

/// The maximum number of elements of a folded result, and the maximum bytes of all folded results
/// of a model. Nodes beyond these limits are computed in the step.
inline constexpr int64_t kMaxFolded = 1 << 16;
inline constexpr Bytes kMaxFoldedBytes = 64 << 20;

/// Returns the results of a node whose operands are constants, or nullopt if the graph must compute
/// them. Returns an error for invalid attributes or operands.
Result<std::optional<std::vector<Array>>> Fold(ImportedNode& node);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_FOLD_H_

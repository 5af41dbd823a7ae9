#ifndef STOWAGE_ONNX_FOLD_H_
#define STOWAGE_ONNX_FOLD_H_

// Folds constants at import. Exporters write arithmetic on shapes as nodes. The results are
// operands of nodes such as Reshape, and must be known when the graph is built.
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

/// Limits of folding. A node is folded only if each constant operand and each result has at most
/// kMaxFolded elements. No node is folded once the results of all folded nodes of the model take
/// more than kMaxFoldedBytes. Other nodes are computed in the step. Constant nodes are folded in
/// any case.
inline constexpr int64_t kMaxFolded = 1 << 16;
inline constexpr Bytes kMaxFoldedBytes = 64 << 20;

/// Returns the results of `node` if they are constant, or nullopt if the step must compute them.
/// The results of most ops are constant if all operands are, and those of Shape and Size always
/// are. Returns an error for invalid attributes or operands.
Result<std::optional<std::vector<Array>>> Fold(ImportedNode& node);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_FOLD_H_

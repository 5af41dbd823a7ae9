#ifndef STOWAGE_ONNX_OPS_H_
#define STOWAGE_ONNX_OPS_H_

// ONNX's ops that can be imported: onnx/ops.def lists them, and onnx/ops/ has the
// conversion of each into ops of a graph, one file a family. docs/reference/onnx_ops.md is made
// from this table.
//
//   const ImportedOp* op = FindOp("", "Conv");
//   Result<Values> results = op->convert(node);

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "onnx/node.h"

namespace stowage::onnx {

/// The operator sets of ONNX that are known here: from kUsualOpset on (onnx/node.h), and
/// before it for those ops that are the same there.
inline constexpr int64_t kOldestOpset = 1;
inline constexpr int64_t kNewestOpset = 28;

struct ImportedOp {
  std::string_view name;
  int operands = 0;  // at least so many
  /// The first operator set whose definition of the op is known here.
  int64_t since = kUsualOpset;
  /// The first operator set whose definition of the op is not known here; 0 where
  /// all are.
  int64_t changed = 0;
  std::string_view limits;  // what of it is refused; "" for nothing
  /// Null for one that holds graphs, which the importer of nodes converts.
  Result<Values> (*convert)(ImportedNode& node) = nullptr;
};

/// All of them, by name, those that hold graphs among them.
std::span<const ImportedOp> ImportedOps();

/// The op of that domain and name, or null. ONNX's own domain is "" or "ai.onnx".
const ImportedOp* FindOp(std::string_view domain, std::string_view name);

#define STOWAGE_ONNX_OP(Name, operands, since, changed, limits) \
  Result<Values> Convert##Name(ImportedNode& node);
#include "onnx/ops.def"
#undef STOWAGE_ONNX_OP

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_OPS_H_

#ifndef STOWAGE_ONNX_OPS_H_
#define STOWAGE_ONNX_OPS_H_

// Declares the supported ops of ONNX. onnx/ops.def lists them. The sources in onnx/ops/, one per
// family of ops, convert them to ops of the graph. docs/reference/onnx_ops.md is generated from the
// list.
//
//   const ImportedOp* op = FindOp("", "Conv");
//   Result<Values> results = op->convert(node);

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "onnx/node.h"

namespace stowage::onnx {

/// The range of supported operator sets. In operator sets before kUsualOpset (onnx/node.h), an op
/// is supported only if its definition is the same.
inline constexpr int64_t kOldestOpset = 1;
inline constexpr int64_t kNewestOpset = 28;

struct ImportedOp {
  std::string_view name;
  int operands = 0;  // minimum number
  /// The first operator set with the supported definition of the op.
  int64_t since = kUsualOpset;
  /// The first later operator set with an unsupported definition, or 0 if there is none.
  int64_t changed = 0;
  std::string_view limits;  // unsupported uses; "" means none
  /// Converts a node of this op. Null for an op with subgraphs (onnx/control_flow.h).
  Result<Values> (*convert)(ImportedNode& node) = nullptr;
};

/// Returns all ops, sorted by name.
std::span<const ImportedOp> ImportedOps();

/// Returns the op `name` of `domain`, or null if it is not supported. All supported ops are in
/// ONNX's own domain, which is called "" or "ai.onnx".
const ImportedOp* FindOp(std::string_view domain, std::string_view name);

#define STOWAGE_ONNX_OP(Name, operands, since, changed, limits) \
  Result<Values> Convert##Name(ImportedNode& node);
#include "onnx/ops.def"
#undef STOWAGE_ONNX_OP

// Helpers shared by conversions.

/// Returns the scalar `number` of the element type of `x`. If `x` is inert, so is the result.
Value Like(Value x, double number);

/// Returns a constant i64 vector.
Value ConstantInts(GraphBuilder& g, const std::vector<int64_t>& ints);

/// Returns the `count` elements of `x` along `axis` at the indices start, start + step, ... Unlike
/// a slice, supports every step, including a negative one.
Value TakeAlong(Value x, int axis, int64_t start, int64_t step, int64_t count);

/// Returns the elements of `x` at the indices `places` along `axis`.
Value TakeAt(Value x, int axis, const std::vector<int64_t>& places);

/// Returns the permutation of `rank` axes that swaps `axis` with the last axis.
Axes SwappedWithLast(int rank, int64_t axis);

/// The keys of a node's random draws, which are the model's inputs "seed" and "step" and a number
/// that differs between nodes.
struct Draws {
  Value seed, step;
  int64_t id = 0;
};
/// Returns the keys of the next node's random draws. The first call declares the inputs "seed" and
/// "step" of the model's graph. Within a body, the keys are values of the body.
Draws NextDraws(ImportedNode& node);

/// Returns `v`, a vector with an element per channel, reshaped so that it broadcasts along
/// dimension 1 of a tensor with `rank` dimensions.
Value PerChannel(Value v, int rank);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_OPS_H_

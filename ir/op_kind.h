#ifndef STOWAGE_IR_OP_KIND_H_
#define STOWAGE_IR_OP_KIND_H_

// Defines the enum of ops and their names, both generated from the list in ir/ops.def. Values past
// the end of the list are custom ops, which the program has defined (DefineOp, ir/op_def.h).
//
//   OpName(OpKind::kMatMul) == "matmul";  FindOp("matmul") == OpKind::kMatMul

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stowage {

enum class OpKind : uint16_t {
#define STOWAGE_OP(kind, name) k##kind,
#include "ir/ops.def"
#undef STOWAGE_OP
};

inline constexpr int kNumOps = 0
#define STOWAGE_OP(kind, name) +1
#include "ir/ops.def"
#undef STOWAGE_OP
    ;

/// The maximum number of custom ops of a program.
inline constexpr int kMaxCustomOps = 128;
static_assert(kNumOps + kMaxCustomOps <= 65536);

/// Returns the index, from 0, of `op` among the custom ops, or nullopt if it is an op of the list.
/// Tables indexed by op in other packages have kMaxCustomOps further entries.
constexpr std::optional<size_t> CustomIndex(OpKind op) {
  const int kind = static_cast<int>(op);
  if (kind < kNumOps) return std::nullopt;
  return static_cast<size_t>(kind - kNumOps);
}

/// Returns "matmul", "gelu_tanh", ...
std::string_view OpName(OpKind op);

/// Returns the op called `name`, or nullopt if none is. Former names of ops are also accepted.
std::optional<OpKind> FindOp(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_IR_OP_KIND_H_

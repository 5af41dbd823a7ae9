#ifndef STOWAGE_IR_OP_KIND_H_
#define STOWAGE_IR_OP_KIND_H_

// Defines OpKind, the enum of ops, and the names of ops. Both are generated from the list in
// ir/ops.def. Enum values past the end of the list are custom ops, which the program has defined
// (DefineOp, ir/op_def.h).
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

/// The maximum number of custom ops that a program can define.
inline constexpr int kMaxCustomOps = 128;
static_assert(kNumOps + kMaxCustomOps <= 65536);

/// Returns the index of `op` among the custom ops, from 0, or nullopt if `op` is in ir/ops.def.
/// Other packages have tables with kMaxCustomOps entries for custom ops.
constexpr std::optional<size_t> CustomIndex(OpKind op) {
  const int kind = static_cast<int>(op);
  if (kind < kNumOps) return std::nullopt;
  return static_cast<size_t>(kind - kNumOps);
}

/// Returns "matmul", "gelu_tanh", ...
std::string_view OpName(OpKind op);

/// Returns the op called `name`, or nullopt if there is none. Former names of ops are also
/// accepted.
std::optional<OpKind> FindOp(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_IR_OP_KIND_H_

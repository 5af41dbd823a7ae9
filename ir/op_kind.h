#ifndef STOWAGE_IR_OP_KIND_H_
#define STOWAGE_IR_OP_KIND_H_

// The enum of ops and their names, both generated from ir/ops.def. Kinds past the end of
// the list are ops that the program has defined (DefineOp, ir/op_def.h).
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

/// How many ops a program may define beside those of the list.
inline constexpr int kMaxCustomOps = 128;
static_assert(kNumOps + kMaxCustomOps <= 65536);

/// The index, from 0, among the ops that the program has defined; nothing for an op of the
/// list. Packages with a table by op have kMaxCustomOps further entries.
constexpr std::optional<size_t> CustomIndex(OpKind op) {
  const int kind = static_cast<int>(op);
  if (kind < kNumOps) return std::nullopt;
  return static_cast<size_t>(kind - kNumOps);
}

/// "matmul", "gelu_tanh", ...
std::string_view OpName(OpKind op);

/// The inverse of OpName; nothing for any other text.
std::optional<OpKind> FindOp(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_IR_OP_KIND_H_

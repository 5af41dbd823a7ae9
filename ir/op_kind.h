#ifndef STOWAGE_IR_OP_KIND_H_
#define STOWAGE_IR_OP_KIND_H_

// The enum of ops and their names, both generated from ir/ops.def. Kinds past the
// last of the list are ops that the program has defined itself (ir/custom_op.h).

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

/// Ops that a program may define beside those of the list.
inline constexpr int kMaxCustomOps = 128;
static_assert(kNumOps + kMaxCustomOps <= 65536);

/// Which of the program's own ops this is, from 0; nothing for one of the list.
/// Rooms that keep a table by op keep one of kMaxCustomOps entries for them.
constexpr std::optional<size_t> CustomIndex(OpKind op) {
  const int kind = static_cast<int>(op);
  if (kind < kNumOps) return std::nullopt;
  return static_cast<size_t>(kind - kNumOps);
}

/// A kind for one more op of the program, called `name`; nothing when there are
/// kMaxCustomOps already. DefineOp (ir/custom_op.h) calls this.
std::optional<OpKind> AddCustomOpKind(std::string_view name);

/// "matmul", "gelu_tanh", ...
std::string_view OpName(OpKind op);

/// The inverse of OpName; nothing for any other text.
std::optional<OpKind> FindOp(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_IR_OP_KIND_H_

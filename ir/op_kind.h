#ifndef STOWAGE_IR_OP_KIND_H_
#define STOWAGE_IR_OP_KIND_H_

// The enum of ops and their names, both generated from ir/ops.def.

#include <cstdint>
#include <optional>
#include <string_view>

namespace stowage {

enum class OpKind : uint8_t {
#define STOWAGE_OP(kind, name) k##kind,
#include "ir/ops.def"
#undef STOWAGE_OP
};

inline constexpr int kNumOps = 0
#define STOWAGE_OP(kind, name) +1
#include "ir/ops.def"
#undef STOWAGE_OP
    ;

/// "matmul", "gelu_tanh", ...
std::string_view OpName(OpKind op);

/// The inverse of OpName; nothing for any other text.
std::optional<OpKind> FindOp(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_IR_OP_KIND_H_

#include "ir/op_kind.h"

#include <array>

namespace stowage {
namespace {
constexpr std::array<std::string_view, kNumOps> kNames = {
#define STOWAGE_OP(kind, name) name,
#include "ir/ops.def"
#undef STOWAGE_OP
};
}  // namespace

std::string_view OpName(OpKind op) { return kNames[static_cast<size_t>(op)]; }

std::optional<OpKind> FindOp(std::string_view name) {
  for (int i = 0; i < kNumOps; ++i) {
    if (kNames[static_cast<size_t>(i)] == name) return static_cast<OpKind>(i);
  }
  return std::nullopt;
}

}  // namespace stowage

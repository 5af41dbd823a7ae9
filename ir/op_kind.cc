#include "ir/op_kind.h"

#include <array>
#include <atomic>
#include <string>

namespace stowage {
namespace {

constexpr std::array<std::string_view, kNumOps> kNames = {
#define STOWAGE_OP(kind, name) name,
#include "ir/ops.def"
#undef STOWAGE_OP
};

// Made at first use, which may be in another file's initializers.
struct CustomNames {
  std::array<std::string, kMaxCustomOps> names;
  std::atomic<size_t> count{0};
};
CustomNames& Custom() {
  static CustomNames names;
  return names;
}

}  // namespace

std::optional<OpKind> AddCustomOpKind(std::string_view name) {
  CustomNames& custom = Custom();
  const size_t index = custom.count;
  if (index == custom.names.size()) return std::nullopt;
  custom.names[index] = name;
  custom.count = index + 1;
  return static_cast<OpKind>(static_cast<size_t>(kNumOps) + index);
}

std::string_view OpName(OpKind op) {
  if (const auto index = CustomIndex(op)) return Custom().names[*index];
  return kNames[static_cast<size_t>(op)];
}

std::optional<OpKind> FindOp(std::string_view name) {
  for (int i = 0; i < kNumOps; ++i) {
    if (kNames[static_cast<size_t>(i)] == name) return static_cast<OpKind>(i);
  }
  const CustomNames& custom = Custom();
  for (size_t i = 0; i < custom.count; ++i) {
    if (custom.names[i] != name) continue;
    return static_cast<OpKind>(static_cast<size_t>(kNumOps) + i);
  }
  return std::nullopt;
}

}  // namespace stowage

#include "ir/op_def.h"

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "base/strings.h"
#include "ir/custom_op.h"
#include "ir/op_kind.h"

namespace stowage {

std::string OpArgs::Describe(int i) const {
  return StrCat(Quoted(names[static_cast<size_t>(i)]), " is ",
                type(i).ToString());
}

Error OpArgs::Fail(std::string_view message) const {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[", OpName(op), "] ", message)};
}

bool AcceptAnyStrides(const OpArgs&, int, const Strides&) { return true; }

// The table of all ops, apart from ir/op_def.cc so that the definitions in
// ir/ops/ can use the latter without a cycle of libraries.

const OpDef& GetOpDef(OpKind op) {
  if (CustomIndex(op)) return CustomOpDef(op);
  static constexpr std::array<const OpDef*, kNumOps> kDefs = {
#define STOWAGE_OP(kind, name) &op_defs::kind,
#include "ir/ops.def"
#undef STOWAGE_OP
  };
  return *kDefs[static_cast<size_t>(op)];
}

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
  // Former names, which graphs in text may have for one release.
  constexpr std::pair<std::string_view, OpKind> kFormerNames[] = {
      {"fetch", OpKind::kReload},
      {"stash", OpKind::kOffload},
      {"stash_update", OpKind::kOffloadUpdate},
  };
  for (const auto& [former, op] : kFormerNames) {
    if (name == former) return op;
  }
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

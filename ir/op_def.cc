#include "ir/op_def.h"

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "base/strings.h"
#include "ir/op_kind.h"

namespace stowage {
namespace {

constexpr std::array<std::string_view, kNumOps> kNames = {
#define STOWAGE_OP(kind, name) name,
#include "ir/ops.def"
#undef STOWAGE_OP
};

// Constructed at first use, which may be in another file's initializers.
struct CustomNames {
  std::array<std::string, kMaxCustomOps> names;
  std::atomic<size_t> count{0};
};
CustomNames& Custom() {
  static CustomNames names;
  return names;
}

// The kind of one more op; nothing when there are kMaxCustomOps already.
std::optional<OpKind> AddCustomOpKind(std::string_view name) {
  CustomNames& custom = Custom();
  const size_t index = custom.count;
  if (index == custom.names.size()) return std::nullopt;
  custom.names[index] = name;
  custom.count = index + 1;
  return static_cast<OpKind>(static_cast<size_t>(kNumOps) + index);
}

constinit std::array<OpDef, kMaxCustomOps> custom_defs;

bool IsName(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (name.empty() || !is_letter(name[0])) return false;
  for (const char c : name) {
    if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '_') return false;
  }
  return true;
}

}  // namespace

std::string OpArgs::Describe(int i) const {
  return StrCat(Quoted(names[static_cast<size_t>(i)]), " is ",
                type(i).ToString());
}

Error OpArgs::Fail(std::string_view message) const {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[", OpName(op), "] ", message)};
}

bool AcceptAnyStrides(const OpArgs&, int, const Strides&) { return true; }

const OpDef& GetOpDef(OpKind op) {
  if (const auto index = CustomIndex(op)) return custom_defs[*index];
  static constexpr std::array<const OpDef*, kNumOps> kDefs = {
#define STOWAGE_OP(kind, name) &op_defs::kind,
#include "ir/ops.def"
#undef STOWAGE_OP
  };
  return *kDefs[static_cast<size_t>(op)];
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

Result<OpKind> DefineOp(std::string_view name, const OpDef& def) {
  const auto fail = [&](std::string_view what) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[define_op] ", Quoted(name), " ", what)};
  };
  if (!IsName(name)) {
    return fail(
        "is no name for an op; expected lower case letters, digits and "
        "underscores, the first a letter");
  }
  if (FindOp(name)) return fail("is the name of an op already");
  if (def.infer == nullptr) {
    return fail("is defined without infer, which gives its results' types");
  }
  if (def.view != nullptr && (def.updates > 0 || def.may_overwrite != 0)) {
    return fail("is defined as a view that writes");
  }
  const std::optional<OpKind> op = AddCustomOpKind(name);
  if (!op) {
    return fail(StrCat("is one op too many: ", kMaxCustomOps,
                       " are defined, which is the most"));
  }
  custom_defs[*CustomIndex(*op)] = def;
  return *op;
}

Result<size_t> CustomOpIndex(OpKind op, std::string_view what) {
  const std::optional<size_t> index = CustomIndex(op);
  if (index && custom_defs[*index].infer != nullptr) return *index;
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[define_op] a ", what, " is given for ",
                      index ? "an op that is not defined"
                            : StrCat(OpName(op), ", which has its own"),
                      "; expected an op that DefineOp gave")};
}

}  // namespace stowage

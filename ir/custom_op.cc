#include "ir/custom_op.h"

#include <array>

#include "base/strings.h"

namespace stowage {
namespace {

constinit std::array<OpDef, kMaxCustomOps> defs;

bool IsName(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (name.empty() || !is_letter(name[0])) return false;
  for (const char c : name) {
    if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '_') return false;
  }
  return true;
}

}  // namespace

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
  defs[*CustomIndex(*op)] = def;
  return *op;
}

Result<size_t> CustomOpIndex(OpKind op, std::string_view what) {
  const std::optional<size_t> index = CustomIndex(op);
  if (index && defs[*index].infer != nullptr) return *index;
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[define_op] a ", what, " is given for ",
                      index ? "an op that is not defined"
                            : StrCat(OpName(op), ", which has its own"),
                      "; expected an op that DefineOp gave")};
}

const OpDef& CustomOpDef(OpKind op) { return defs[*CustomIndex(op)]; }

}  // namespace stowage

#include "ir/op_def.h"

#include "base/strings.h"

namespace stowage {

std::string OpArgs::Describe(int i) const {
  return StrCat(Quoted(names[static_cast<size_t>(i)]), " is ",
                type(i).ToString());
}

Error OpArgs::Fail(std::string_view message) const {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[", OpName(op), "] ", message)};
}

const OpDef& GetOpDef(OpKind op) {
  static constexpr std::array<const OpDef*, kNumOps> kDefs = {
#define STOWAGE_OP(kind, name) &op_defs::kind,
#include "ir/ops.def"
#undef STOWAGE_OP
  };
  return *kDefs[static_cast<size_t>(op)];
}

bool AcceptAnyStrides(const OpArgs&, int, const Strides&) { return true; }

}  // namespace stowage

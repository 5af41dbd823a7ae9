// The table of all ops, apart from ir/op_def.cc so that the definitions in
// ir/ops/ can use the latter without a cycle of libraries.

#include <array>

#include "ir/custom_op.h"
#include "ir/op_def.h"

namespace stowage {

const OpDef& GetOpDef(OpKind op) {
  if (CustomIndex(op)) return CustomOpDef(op);
  static constexpr std::array<const OpDef*, kNumOps> kDefs = {
#define STOWAGE_OP(kind, name) &op_defs::kind,
#include "ir/ops.def"
#undef STOWAGE_OP
  };
  return *kDefs[static_cast<size_t>(op)];
}

}  // namespace stowage

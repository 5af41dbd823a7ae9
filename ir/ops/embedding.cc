// gather, scatter_add: rows of a table by index, and the gradient of that.

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

// The shape of the rows of operand 0, a table (V, C...), at the indices of
// operand 1: S + (C...). More than kMaxRank dimensions are left to Typed.
Shape RowsShape(const OpArgs& args) {
  Shape shape = args.shape(1);
  for (int i = 1; i < args.shape(0).rank(); ++i) {
    shape.push_back(args.shape(0)[i]);
  }
  return shape;
}

TypesResult InferGather(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "table", 1));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 1, "indices", DTypes::kIndex));
  return Typed(args, {TensorType{args.type(0).dtype, RowsShape(args)}});
}

TypesResult InferScatterAdd(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "base", DTypes::kNumeric));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "base", 1));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 1, "indices", DTypes::kIndex));
  STOWAGE_RETURN_IF_ERROR(CheckType(
      args, 2, "updates", TensorType{args.type(0).dtype, RowsShape(args)},
      StrCat("since ", Operand(args, 0, "base"), " and ",
             Operand(args, 1, "indices"))));
  return Typed(args, {args.type(0)});
}

double ScatterAddFlops(const OpArgs& args, std::span<const TensorType>) {
  return Elements(args.type(2));
}

}  // namespace

constinit const OpDef Gather = {.num_inputs = 2, .infer = InferGather};
constinit const OpDef ScatterAdd = {.num_inputs = 3,
                                    .infer = InferScatterAdd,
                                    .flops = ScatterAddFlops,
                                    .may_overwrite = 0b1};

}  // namespace stowage::op_defs

// take_along_axis, put_add: elements along an axis by index, and the gradient of that.

#include <string_view>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

// Operand 1 are indices into operand 0 along the axis: of its dimensions elsewhere.
Status CheckIndices(const OpArgs& args, std::string_view label) {
  STOWAGE_RETURN_IF_ERROR(CheckAxis(args, 0, label));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 1, "indices", DTypes::kIndex));
  const int64_t axis = args.attrs.Int("axis");
  const Shape& x = args.shape(0);
  const Shape& indices = args.shape(1);
  bool agrees = x.rank() == indices.rank();
  for (int i = 0; agrees && i < x.rank(); ++i) {
    agrees = i == axis || x[i] == indices[i];
  }
  if (agrees) return {};
  return args.Fail(StrCat("shapes differ beside axis ", axis, ": ",
                          Operand(args, 0, label), ", ",
                          Operand(args, 1, "indices"),
                          "; expected equal dimensions along all other axes"));
}

TypesResult InferTakeAlongAxis(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"axis", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckIndices(args, "x"));
  return Typed(args, {TensorType{args.type(0).dtype, args.shape(1)}});
}

TypesResult InferPutAdd(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"axis", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "base", DTypes::kNumeric));
  STOWAGE_RETURN_IF_ERROR(CheckIndices(args, "base"));
  STOWAGE_RETURN_IF_ERROR(CheckType(
      args, 2, "updates", TensorType{args.type(0).dtype, args.shape(1)},
      StrCat("since ", Operand(args, 0, "base"), " and ",
             Operand(args, 1, "indices"))));
  return Typed(args, {args.type(0)});
}

}  // namespace

constinit const OpDef TakeAlongAxis = {.num_inputs = 2,
                                       .infer = InferTakeAlongAxis};
constinit const OpDef PutAdd = {
    .num_inputs = 3,
    .infer = InferPutAdd,
    .flops = [](const OpArgs& args,
                std::span<const TensorType>) { return Elements(args.type(2)); },
    .may_overwrite = 0b1};

}  // namespace stowage::op_defs

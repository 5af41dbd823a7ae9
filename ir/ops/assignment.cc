// assign, lerp_update, slice_update: what a program writes in place itself.

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

TypesResult InferAssign(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "target", 1, "x"));
  return Typed(args, {args.type(0)});
}

TypesResult InferLerpUpdate(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "target", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "target", 1, "x"));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "target", 2, "weight"));
  return Typed(args, {args.type(0)});
}

TypesResult InferSliceUpdate(const OpArgs& args) {
  if (args.count() != 2 && args.count() != 3) {
    return args.Fail(
        StrCat("takes 2 operands, or 3 with where to start; was given ",
               args.count()));
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"axis", AttrKind::kInt}, {"start", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckAxis(args, 0, "target"));
  const int axis = static_cast<int>(args.attrs.Int("axis"));
  const int64_t start = args.attrs.Int("start");
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "target", 1, "x"));
  Shape rest = args.shape(1);
  if (rest.rank() == args.shape(0).rank()) rest[axis] = args.shape(0)[axis];
  if (rest != args.shape(0)) {
    return args.Fail(StrCat("shapes differ: ", Operand(args, 0, "target"), ", ",
                            Operand(args, 1, "x"), "; all dimensions but axis ",
                            axis, " must agree"));
  }
  const int64_t size = args.shape(0)[axis];
  const int64_t count = args.shape(1)[axis];
  if (start < 0 || count > size || start > size - count) {
    return args.Fail(StrCat(
        "places [", start, ", ", start + count, ") are not all in axis ", axis,
        ": ", Operand(args, 0, "target"), ", ", Operand(args, 1, "x")));
  }
  if (args.count() == 3) {
    STOWAGE_RETURN_IF_ERROR(CheckDType(args, 2, "from", DTypes::kIndex));
    if (args.shape(2).rank() != 0) {
      return args.Fail(StrCat(Operand(args, 2, "from"), "; expected a scalar"));
    }
  }
  return Typed(args, {args.type(0)});
}

}  // namespace

constinit const OpDef Assign = {.num_inputs = 2,
                                .infer = InferAssign,
                                .accepts = AcceptAnyStrides,
                                .updates = 1};
constinit const OpDef LerpUpdate = {.num_inputs = 3,
                                    .infer = InferLerpUpdate,
                                    .flops = FlopsPerResultElement<3>,
                                    .accepts = AcceptAnyStrides,
                                    .updates = 1};
constinit const OpDef SliceUpdate = {.num_inputs = kAnyNumber,
                                     .infer = InferSliceUpdate,
                                     .accepts = AcceptAnyStrides,
                                     .updates = 1};

}  // namespace stowage::op_defs

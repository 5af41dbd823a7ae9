// rope: rotary position embedding. Its gradient is the rotation back.

#include <cmath>
#include <cstdint>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

Status CheckPositions(const OpArgs& args) {
  const TensorType& positions = args.type(1);
  const Shape& x = args.shape(0);
  const bool fits =
      positions.shape == Shape{x[1]} || positions.shape == Shape{x[0], x[1]};
  if (positions.dtype == DType::kI32 && fits) return {};
  return args.Fail(StrCat(Operand(args, 1, "positions"), "; expected i32(",
                          x[1], ") or i32(", x[0], ", ", x[1], "), since ",
                          Operand(args, 0, "x")));
}

TypesResult InferRope(const OpArgs& args) {
  if (args.count() != 1 && args.count() != 2) {
    return args.Fail(StrCat("takes 1 operand, or 2 with positions; was given ",
                            args.count()));
  }
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"base", AttrKind::kReal},
                                            {"dims", AttrKind::kInt},
                                            {"interleaved", AttrKind::kFlag},
                                            {"inverse", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  const Shape& x = args.shape(0);
  if (x.rank() != 4) {
    return args.Fail(
        StrCat(Operand(args, 0, "x"),
               "; expected (B, T, H, D): batch, time, heads, elements"));
  }
  const int64_t dims = args.attrs.Int("dims");
  if (dims < 2 || dims > x[3] || dims % 2 != 0) {
    return args.Fail(StrCat("dims is ", dims, ": ", Operand(args, 0, "x"),
                            "; expected an even number from 2 to its last "
                            "dimension, ",
                            x[3]));
  }
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "base"));
  if (args.count() == 2) STOWAGE_RETURN_IF_ERROR(CheckPositions(args));
  return Typed(args, {args.type(0)});
}

// Heads of contiguous elements, anywhere; so a packed qkv needs no copy.
bool AcceptsRope(const OpArgs& args, int i, const Strides& strides) {
  return i == 0 ? strides[3] == 1 : IsContiguous(args.shape(i), strides);
}

}  // namespace

// Both elements of a pair are read before either is written.
constinit const OpDef Rope = {.num_inputs = kAnyNumber,
                              .infer = InferRope,
                              .flops = FlopsPerResultElement<3>,
                              .accepts = AcceptsRope,
                              .may_overwrite = 0b1};

}  // namespace stowage::op_defs

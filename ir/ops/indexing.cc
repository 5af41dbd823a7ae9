// Ops that read or write rows by their numbers.

#include <string_view>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {

// take_along_axis, put_add: elements along an axis by index, and the gradient of that.

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

constinit const OpDef TakeAlongAxis = {
    .num_inputs = 2, .infer = InferTakeAlongAxis, .accepts = AcceptAnyStrides};
constinit const OpDef PutAdd = {
    .num_inputs = 3,
    .infer = InferPutAdd,
    .flops = [](const OpArgs& args,
                std::span<const TensorType>) { return Elements(args.type(2)); },
    .accepts =
        [](const OpArgs& args, int i, const Strides& strides) {
          return i > 0 || IsContiguous(args.shape(0), strides);
        },
    .may_overwrite = 0b1};

// gather, scatter_add: rows of a table by index, and the gradient of that.

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

// assign, lerp_update, slice_update: in-place writes.

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

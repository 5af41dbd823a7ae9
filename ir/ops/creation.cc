// Ops without operands, and ops on random numbers.

#include <cmath>
#include <limits>
#include <string>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {

// constant, fill, iota.

namespace {

TypesResult InferConstant(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"dtype", AttrKind::kDType},
                                            {"shape", AttrKind::kInts},
                                            {"data", AttrKind::kData}}));
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(args));
  STOWAGE_ASSIGN_OR_RETURN(
      std::vector<TensorType> types,
      Typed(args, {TensorType{args.attrs.Type("dtype"), shape}}));
  const TensorType& type = types[0];
  const std::string& data = args.attrs.Data("data");
  if (static_cast<Bytes>(data.size()) != type.bytes()) {
    return args.Fail(StrCat("data has ", data.size(), " bytes; ",
                            type.ToString(), " has ", type.bytes()));
  }
  if (type.dtype == DType::kBool) {
    for (size_t i = 0; i < data.size(); ++i) {
      if (data[i] == 0 || data[i] == 1) continue;
      return args.Fail(StrCat("byte ", i, " of bool data is ",
                              static_cast<unsigned char>(data[i]),
                              "; expected 0 or 1"));
    }
  }
  return types;
}

// Whether the integer type of `digits` value bits (and a sign, if
// `has_negative`) holds `value` exactly.
bool FitsInteger(double value, int digits, bool has_negative) {
  const double limit = std::ldexp(1.0, digits);
  return std::trunc(value) == value && value < limit &&
         value >= (has_negative ? -limit : 0);
}

bool Holds(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
      return true;
    case DType::kI16:
      return FitsInteger(value, std::numeric_limits<int16_t>::digits, true);
    case DType::kI32:
      return FitsInteger(value, std::numeric_limits<int32_t>::digits, true);
    case DType::kI64:
      return FitsInteger(value, std::numeric_limits<int64_t>::digits, true);
    case DType::kU8:
      return FitsInteger(value, std::numeric_limits<uint8_t>::digits, false);
    case DType::kBool:
      return FitsInteger(value, 1, false);
  }
  return false;
}

TypesResult InferFill(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"dtype", AttrKind::kDType},
                                            {"shape", AttrKind::kInts},
                                            {"value", AttrKind::kReal}}));
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(args));
  const DType dtype = args.attrs.Type("dtype");
  STOWAGE_RETURN_IF_ERROR(
      CheckReal(args, "value", Holds(dtype, args.attrs.Float("value")),
                StrCat("a number that ", DTypeName(dtype), " holds")));
  return Typed(args, {TensorType{dtype, shape}});
}

TypesResult InferIota(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"dtype", AttrKind::kDType},
                                            {"start", AttrKind::kReal},
                                            {"step", AttrKind::kReal},
                                            {"n", AttrKind::kInt}}));
  const DType dtype = args.attrs.Type("dtype");
  const double start = args.attrs.Float("start");
  const double step = args.attrs.Float("step");
  const int64_t n = args.attrs.Int("n");
  if (n < 1) return args.Fail(StrCat("n is ", n, "; expected at least 1"));
  const std::string expected =
      StrCat("a number that ", DTypeName(dtype), " holds");
  STOWAGE_RETURN_IF_ERROR(CheckReal(
      args, "start", std::isfinite(start) && Holds(dtype, start), expected));
  // Steps may be larger than the range, or negative.
  const bool good =
      std::isfinite(step) && (IsFloat(dtype) || Holds(DType::kI64, step));
  STOWAGE_RETURN_IF_ERROR(CheckReal(
      args, "step", good,
      IsFloat(dtype) ? "a finite number" : "a whole number that i64 holds"));
  const double last = start + step * static_cast<double>(n - 1);
  if (!std::isfinite(last) || !Holds(dtype, last)) {
    return args.Fail(StrCat("the last of ", n, " numbers from ", start,
                            " in steps of ", step, " is ", last, "; expected ",
                            expected));
  }
  return Typed(args, {TensorType{dtype, {n}}});
}

}  // namespace

constinit const OpDef Constant = {.num_inputs = 0, .infer = InferConstant};
constinit const OpDef Fill = {.num_inputs = 0, .infer = InferFill};
constinit const OpDef Iota = {.num_inputs = 0, .infer = InferIota};

// random_uniform, random_normal: numbers that are a function of seed, op, step and
// element (Philox).

namespace {

TypesResult InferRandom(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"dtype", AttrKind::kDType},
                                            {"shape", AttrKind::kInts},
                                            {"id", AttrKind::kInt}}));
  const TensorType scalar = {DType::kI64, {}};
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 0, "seed", scalar, "a scalar"));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 1, "step", scalar, "a scalar"));
  const DType dtype = args.attrs.Type("dtype");
  if (!IsFloat(dtype)) {
    return args.Fail(StrCat("dtype is ", DTypeName(dtype),
                            "; expected f32, f64, f16 or bf16"));
  }
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(args));
  return Typed(args, {TensorType{dtype, shape}});
}

}  // namespace

constinit const OpDef RandomUniform = {.num_inputs = 2, .infer = InferRandom};
// A logarithm, a root, a sine and a cosine for two.
constinit const OpDef RandomNormal = {
    .num_inputs = 2,
    .infer = InferRandom,
    .flops = FlopsPerResultElement<2 * kTranscendentalFlops>};

// dropout: a mask that is computed where it is used (Philox) and never stored.

namespace {

TypesResult InferDropout(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"p", AttrKind::kReal}, {"id", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  const TensorType scalar = {DType::kI64, {}};
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 1, "seed", scalar, "a scalar"));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 2, "step", scalar, "a scalar"));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "p"));
  return Typed(args, {args.type(0)});
}

}  // namespace

constinit const OpDef Dropout = {.num_inputs = 3,
                                 .infer = InferDropout,
                                 .flops = FlopsPerResultElement<2>,
                                 .accepts = AcceptAnyStrides,
                                 .may_overwrite = 0b1};

}  // namespace stowage::op_defs

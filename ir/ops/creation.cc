// constant, fill.

#include <cmath>
#include <limits>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
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

}  // namespace

constinit const OpDef Constant = {.num_inputs = 0, .infer = InferConstant};
constinit const OpDef Fill = {.num_inputs = 0, .infer = InferFill};

}  // namespace stowage::op_defs

#ifndef STOWAGE_IR_OPS_SHAPE_RULES_H_
#define STOWAGE_IR_OPS_SHAPE_RULES_H_

// Provides checks of attributes, element types and shapes for the `infer` functions of ops
// (ir/op_def.h). Error messages state the operand and its actual type.
//
// A graph may be parsed from text, so an `infer` function must first check that its attributes
// exist and have the right kinds. It then checks the operands, and finally, with Typed, that the
// sizes of the results in bytes fit 64 bits.
//
//   STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"axis", AttrKind::kInt}}));
//   STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
//   return Typed(args, {args.type(0)});

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"

namespace stowage::op_defs {

/// The return type of OpDef::infer.
using TypesResult = Result<std::vector<TensorType>>;

/// The kinds of attributes. A flag is an integer that is 0 or 1.
enum class AttrKind { kInt, kFlag, kReal, kDType, kInts, kData, kGraphs };
struct AttrSpec {
  std::string_view name;
  AttrKind kind;
};

// All checks return kInvalidArgument if the condition that they check does not hold.

/// Checks that exactly the attributes `specs` exist, each once and of the given kind.
Status CheckAttrs(const OpArgs& args, std::initializer_list<AttrSpec> specs);
/// Checks the same as CheckAttrs, except that a finite real attribute "softcap" above 0 may exist
/// as well.
Status CheckAttrsAndSoftcap(const OpArgs& args, std::vector<AttrSpec> specs);

/// Checks that `holds` is true, which must state whether the real attribute `name` is valid. The
/// message states the attribute's value, and describes valid values with `expected`.
Status CheckReal(const OpArgs& args, std::string_view name, bool holds,
                 std::string_view expected);
/// CheckPositive checks that the real attribute `name` is finite and above 0. CheckNotNegative
/// checks that it is finite and at least 0. CheckFraction checks that it is in [0, 1).
Status CheckPositive(const OpArgs& args, std::string_view name);
Status CheckNotNegative(const OpArgs& args, std::string_view name);
Status CheckFraction(const OpArgs& args, std::string_view name);

/// Checks that the real attributes "min" and "max" satisfy min <= max, and are not NaN.
Status CheckBounds(const OpArgs& args);

/// Sets of element types that ops accept. kNumeric is all element types except bool.
enum class DTypes { kFloat, kNumeric, kIndex, kBool, kAny };

// In the following functions, `label` is the operand's name in the op's signature (ir/ops.def).

/// Returns a description of operand `i` for messages: `a "h" is f32(32, 128)`.
std::string Operand(const OpArgs& args, int i, std::string_view label);
Status CheckDType(const OpArgs& args, int i, std::string_view label,
                  DTypes allowed);
Status CheckRankAtLeast(const OpArgs& args, int i, std::string_view label,
                        int rank);
/// Checks that operand `i` has exactly the type `type`. `reason` explains the requirement in the
/// message.
Status CheckType(const OpArgs& args, int i, std::string_view label,
                 const TensorType& type, std::string_view reason);
/// CheckSameDType checks that operands `i` and `j` have the same element type. CheckSameType checks
/// that they have the same element type and shape. `label` and `other` are the names of the
/// operands.
Status CheckSameDType(const OpArgs& args, int i, std::string_view label, int j,
                      std::string_view other);
Status CheckSameType(const OpArgs& args, int i, std::string_view label, int j,
                     std::string_view other);
/// Checks that the integer attribute "axis" is an axis of operand `i`.
Status CheckAxis(const OpArgs& args, int i, std::string_view label);

/// Returns the decoded shape of operand `i`, after checking that it is a quantized matrix. The
/// integer attribute "blocks" must be a WeightType (ir/weight_type.h), and rows must consist of
/// whole blocks of this format. Requires that the attribute exists (CheckAttrs).
Result<Shape> CheckBlocks(const OpArgs& args, int i, std::string_view label);

/// Returns the attribute "shape", after checking that its rank is at most kMaxRank, its dimensions
/// are at least 1, and its number of elements fits 63 bits. Requires that the attribute exists
/// (CheckAttrs).
Result<Shape> ShapeAttr(const OpArgs& args);

/// Returns `types` as the result of `infer`, after checking that each rank is at most kMaxRank,
/// that dimensions are at least 1, and that each size in bytes fits 63 bits.
TypesResult Typed(const OpArgs& args, std::vector<TensorType> types);

/// Returns the type in which sums and statistics of an operand of type `dtype` are computed: f64
/// for f64, and f32 for all other types.
DType StatisticsType(DType dtype);

/// Checks that the gradient op of a norm has no attribute except an optional integer "parts"
/// (ir/element_groups.h).
Status CheckPartsAttr(const OpArgs& args);
/// Returns the type of the gradient of a norm's param, a result of the gradient op of the norm. The
/// param has one element for each element of the last axis of operand 0, x, whose rank must be at
/// least 1. The result is the sum over the rows of x, or, with the attribute "parts", that number
/// of partial sums. Returns kInvalidArgument if "parts" is not in [1, rows]. Requires that
/// CheckPartsAttr has succeeded.
Result<TensorType> ParamSumsType(const OpArgs& args);

/// Returns all dimensions except the last. Requires `shape.rank() >= 1`.
Shape LeadingDims(const Shape& shape);

/// Returns the number of elements as a double, for operation counts.
double Elements(const TensorType& type);

/// Functions for OpDef::flops. FlopsPerResultElement counts `kCount` operations for each element of
/// result 0, and FlopsPerOperandElement for each element of operand 0.
template <int kCount>
double FlopsPerResultElement(const OpArgs&,
                             std::span<const TensorType> results) {
  return kCount * Elements(results[0]);
}
template <int kCount>
double FlopsPerOperandElement(const OpArgs& args, std::span<const TensorType>) {
  return kCount * Elements(args.type(0));
}

/// The operation count of an exponential, a logarithm or a trigonometric function.
inline constexpr int kTranscendentalFlops = 8;

}  // namespace stowage::op_defs

#endif  // STOWAGE_IR_OPS_SHAPE_RULES_H_

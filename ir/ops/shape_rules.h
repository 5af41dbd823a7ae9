#ifndef STOWAGE_IR_OPS_SHAPE_RULES_H_
#define STOWAGE_IR_OPS_SHAPE_RULES_H_

// Provides checks of attributes, element types and shapes for the `infer` functions of ops. Error
// messages state the operand and its actual type.
//
// A graph may be parsed from text. An `infer` function therefore first checks that its attributes
// exist and have the right kinds. It then checks the operands, and finally that the sizes of the
// results in bytes fit 64 bits.
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

// All checks return kInvalidArgument if the stated condition does not hold.

/// Checks that exactly these attributes exist, each once and of the given kind.
Status CheckAttrs(const OpArgs& args, std::initializer_list<AttrSpec> specs);
/// Checks the same, except that a real attribute "softcap" above 0 may exist as well.
Status CheckAttrsAndSoftcap(const OpArgs& args, std::vector<AttrSpec> specs);

/// Checks that `holds` is true. It is a condition on the real attribute `name`, which `expected`
/// describes in the message.
Status CheckReal(const OpArgs& args, std::string_view name, bool holds,
                 std::string_view expected);
/// Checks that the real attribute `name` is finite and above 0 (CheckPositive), finite and at least
/// 0 (CheckNotNegative), or in [0, 1) (CheckFraction).
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
/// Checks that operands `i` and `j` have the same element type (CheckSameDType), or the same
/// element type and shape (CheckSameType).
Status CheckSameDType(const OpArgs& args, int i, std::string_view label, int j,
                      std::string_view other);
Status CheckSameType(const OpArgs& args, int i, std::string_view label, int j,
                     std::string_view other);
/// Checks that the integer attribute "axis" is an axis of operand `i`.
Status CheckAxis(const OpArgs& args, int i, std::string_view label);

/// Checks that operand `i` is a quantized matrix whose rows consist of blocks of the format in the
/// integer attribute "blocks" (ir/weight_type.h). Returns the shape of the decoded matrix.
/// CheckAttrs must have succeeded.
Result<Shape> CheckBlocks(const OpArgs& args, int i, std::string_view label);

/// Returns the attribute "shape". Its rank must be at most kMaxRank, its dimensions at least 1, and
/// its number of elements must fit 63 bits. CheckAttrs must have succeeded.
Result<Shape> ShapeAttr(const OpArgs& args);

/// Returns `types` as the result of `infer`, after checking that each rank is at most kMaxRank and
/// that each size in bytes fits 64 bits.
TypesResult Typed(const OpArgs& args, std::vector<TensorType> types);

/// Returns the type in which sums and statistics of an operand are computed: f64 for f64, and f32
/// otherwise.
DType StatisticsType(DType dtype);

/// Checks, for the gradient op of a norm, that no attribute exists except an optional "parts"
/// (ir/element_groups.h).
Status CheckPartsAttr(const OpArgs& args);
/// Returns the type of a param's gradient in the gradient op of a norm. The param extends along the
/// last axis of operand 0, x, whose rank must be at least 1. The gradient is the sum over the rows
/// of x, or "parts" partial sums, at most one per row. CheckPartsAttr must have succeeded.
Result<TensorType> ParamSumsType(const OpArgs& args);

/// Returns all dimensions except the last. Requires `shape.rank() >= 1`.
Shape LeadingDims(const Shape& shape);

/// Returns the number of elements as a double, for operation counts.
double Elements(const TensorType& type);

/// Functions for OpDef::flops that count `kCount` operations for each element of result 0, or of
/// operand 0.
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

#ifndef STOWAGE_IR_OPS_SHAPE_RULES_H_
#define STOWAGE_IR_OPS_SHAPE_RULES_H_

// Checks that ops' `infer` functions share: of attributes, element types and shapes, each with
// an error that names the operand and its actual type.
//
// A graph may come from text, so an `infer` first checks that its attributes exist and have
// the right kinds, then the operands, then that the results' bytes fit 64 bits.
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

/// The return type of `infer`.
using TypesResult = Result<std::vector<TensorType>>;

/// Kinds of attributes; a flag is an integer 0 or 1.
enum class AttrKind { kInt, kFlag, kReal, kDType, kInts, kData, kGraphs };
struct AttrSpec {
  std::string_view name;
  AttrKind kind;
};

/// Exactly these attributes, of these kinds, each once.
Status CheckAttrs(const OpArgs& args, std::initializer_list<AttrSpec> specs);
/// The same, with a real attribute "softcap" above 0 if there is one.
Status CheckAttrsAndSoftcap(const OpArgs& args, std::vector<AttrSpec> specs);

/// Error unless `holds`, a condition on the real attribute `name` that `expected` states in
/// words.
Status CheckReal(const OpArgs& args, std::string_view name, bool holds,
                 std::string_view expected);
/// The real attribute is finite and above 0; finite and at least 0; in [0, 1).
Status CheckPositive(const OpArgs& args, std::string_view name);
Status CheckNotNegative(const OpArgs& args, std::string_view name);
Status CheckFraction(const OpArgs& args, std::string_view name);

/// The real attributes "min" and "max" are numbers in that order.
Status CheckBounds(const OpArgs& args);

/// Sets of element types that ops take.
enum class DTypes { kFloat, kNumeric, kIndex, kBool, kAny };

// `label` is the operand's word in the op's signature (ir/ops.def): `a "h" is
// f32(32, 128)`.
std::string Operand(const OpArgs& args, int i, std::string_view label);
Status CheckDType(const OpArgs& args, int i, std::string_view label,
                  DTypes allowed);
Status CheckRankAtLeast(const OpArgs& args, int i, std::string_view label,
                        int rank);
/// Operand i is exactly of `type`; `reason` says why.
Status CheckType(const OpArgs& args, int i, std::string_view label,
                 const TensorType& type, std::string_view reason);
/// The two operands agree in element type, and in shape.
Status CheckSameDType(const OpArgs& args, int i, std::string_view label, int j,
                      std::string_view other);
Status CheckSameType(const OpArgs& args, int i, std::string_view label, int j,
                     std::string_view other);
/// The integer attribute "axis" is an axis of operand i.
Status CheckAxis(const OpArgs& args, int i, std::string_view label);

/// Operand i is a matrix in rows of blocks of the type that the integer attribute
/// "blocks" says (ir/weight_type.h): the shape of its numbers. CheckAttrs must have
/// passed.
Result<Shape> CheckBlocks(const OpArgs& args, int i, std::string_view label);

/// The attribute "shape": rank at most kMaxRank, dimensions at least 1, element
/// count within 63 bits. CheckAttrs must have passed.
Result<Shape> ShapeAttr(const OpArgs& args);

/// `types` as the result of `infer`, if their ranks and bytes are in bounds.
TypesResult Typed(const OpArgs& args, std::vector<TensorType> types);

/// The type of sums and statistics of an operand: f64 for f64, else f32.
DType StatisticsType(DType dtype);

/// For the gradient of a norm: no attribute except an optional "parts" (ir/element_groups.h).
Status CheckPartsAttr(const OpArgs& args);
/// The type of its gradient of a param along the last axis of operand 0, x, of rank at least 1:
/// the sum over rows, or partial sums, at most one a row. Precondition: CheckPartsAttr.
Result<TensorType> ParamSumsType(const OpArgs& args);

/// All dimensions but the last. Precondition: rank >= 1.
Shape LeadingDims(const Shape& shape);

/// Elements as a double, for operation counts.
double Elements(const TensorType& type);

/// Operation counts: `kCount` for each element of result 0, or of operand 0.
template <int kCount>
double FlopsPerResultElement(const OpArgs&,
                             std::span<const TensorType> results) {
  return kCount * Elements(results[0]);
}
template <int kCount>
double FlopsPerOperandElement(const OpArgs& args, std::span<const TensorType>) {
  return kCount * Elements(args.type(0));
}

/// The count of an exponential, a logarithm or a trigonometric function.
inline constexpr int kTranscendentalFlops = 8;

}  // namespace stowage::op_defs

#endif  // STOWAGE_IR_OPS_SHAPE_RULES_H_

// top_k: the largest or smallest elements of the last axis, in order.

#include <cmath>
#include <limits>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

TypesResult InferTopK(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(
      args, {{"k", AttrKind::kInt}, {"descending", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kNumeric));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 1));
  const Shape& shape = args.shape(0);
  if (shape.back() > std::numeric_limits<int32_t>::max()) {
    return args.Fail(StrCat(Operand(args, 0, "x"),
                            "; an i32 index cannot count its last dimension"));
  }
  const int64_t k = args.attrs.Int("k");
  if (k < 1 || k > shape.back()) {
    return args.Fail(StrCat("k is ", k, ": ", Operand(args, 0, "x"),
                            "; expected 1 to ", shape.back()));
  }
  Shape kept = LeadingDims(shape);
  kept.push_back(k);
  return Typed(args, {TensorType{args.type(0).dtype, kept},
                      TensorType{DType::kI32, kept}});
}

// Comparisons, as a heap of k makes them.
double TopKFlops(const OpArgs& args, std::span<const TensorType>) {
  return Elements(args.type(0)) *
         std::log2(static_cast<double>(args.attrs.Int("k")) + 1);
}

}  // namespace

constinit const OpDef TopK = {.infer = InferTopK, .flops = TopKFlops};

}  // namespace stowage::op_defs

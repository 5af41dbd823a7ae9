// quantized_matmul, quantized_gather: what reads a frozen matrix in the bytes of its
// file.

#include <optional>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"
#include "ir/weight_type.h"

namespace stowage::op_defs {
namespace {

TypesResult InferQuantizedMatMul(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(
      args, {{"blocks", AttrKind::kInt}, {"transpose_w", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 1));
  STOWAGE_ASSIGN_OR_RETURN(const Shape w, CheckBlocks(args, 1, "w"));
  const bool transposed = args.attrs.Int("transpose_w") == 1;
  const int64_t depth = w[transposed ? 1 : 0];
  if (args.shape(0).back() != depth) {
    return args.Fail(StrCat("inner sizes differ: ", Operand(args, 0, "x"), ", ",
                            Operand(args, 1, "w"), ", that is ", w.ToString(),
                            " numbers", transposed ? ", transposed" : ""));
  }
  Shape y = LeadingDims(args.shape(0));
  y.push_back(w[transposed ? 0 : 1]);
  return Typed(args, {TensorType{args.type(0).dtype, y}});
}

TypesResult InferQuantizedGather(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"blocks", AttrKind::kInt}}));
  STOWAGE_ASSIGN_OR_RETURN(const Shape table, CheckBlocks(args, 0, "table"));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 1, "indices", DTypes::kIndex));
  Shape y = args.shape(1);
  y.push_back(table[1]);
  return Typed(args, {TensorType{DType::kF32, y}});
}

// Of the product; that of reading a block is not counted.
double MatMulFlops(const OpArgs& args, std::span<const TensorType> results) {
  return 2 * Elements(results[0]) * static_cast<double>(args.shape(0).back());
}

}  // namespace

constinit const OpDef QuantizedMatMul = {
    .num_inputs = 2, .infer = InferQuantizedMatMul, .flops = MatMulFlops};
constinit const OpDef QuantizedGather = {.num_inputs = 2,
                                         .infer = InferQuantizedGather};

}  // namespace stowage::op_defs

// Matmuls, with quantized weights too, and joining and splitting a master weight.

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/fused.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"
#include "ir/tensor_type.h"

namespace stowage::op_defs {

// matmul: (..., M, K) times (..., K, N), or times one (K, N) for all; and the same
// with an epilogue on its sums.

namespace {

bool Transposed(const OpArgs& args, int i) {
  return args.attrs.Int(i == 0 ? "transpose_a" : "transpose_b") == 1;
}

// Rows and columns of operand i, after transposition.
int64_t Rows(const OpArgs& args, int i) {
  const Shape& shape = args.shape(i);
  return shape[shape.rank() - (Transposed(args, i) ? 1 : 2)];
}
int64_t Columns(const OpArgs& args, int i) {
  const Shape& shape = args.shape(i);
  return shape[shape.rank() - (Transposed(args, i) ? 2 : 1)];
}

Shape Batch(const Shape& shape) {
  return Shape(shape.span().first(static_cast<size_t>(shape.rank() - 2)));
}

// The type of the matmul of the first two operands.
TypesResult InferProduct(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "a", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "a", 1, "b"));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "a", 2));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 1, "b", 2));
  const auto both = [&args] {
    return StrCat(Operand(args, 0, "a"), ", ", Operand(args, 1, "b"));
  };
  if (Columns(args, 0) != Rows(args, 1)) {
    const char* of_a = Transposed(args, 0) ? "last but one" : "last";
    const char* of_b = Transposed(args, 1)         ? "last"
                       : args.shape(1).rank() == 2 ? "first"
                                                   : "last but one";
    return args.Fail(StrCat("inner sizes differ: ", both(), "; a's ", of_a,
                            " must equal b's ", of_b));
  }
  TensorType result = {args.type(0).dtype, Batch(args.shape(0))};
  if (args.shape(1).rank() > 2 && Batch(args.shape(1)) != result.shape) {
    return args.Fail(StrCat("leading dimensions differ: ", both(),
                            "; they must be equal, or b a single matrix"));
  }
  result.shape.push_back(Rows(args, 0));
  result.shape.push_back(Columns(args, 1));
  return Typed(args, {result});
}

TypesResult InferMatMul(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"transpose_a", AttrKind::kFlag},
                                            {"transpose_b", AttrKind::kFlag}}));
  return InferProduct(args);
}

double MatMulFlops(const OpArgs& args, std::span<const TensorType> results) {
  return 2 * Elements(results[0]) * static_cast<double>(Columns(args, 0));
}

// A matrix whose rows, or whose columns, are contiguous and do not overlap.
bool AcceptsMatMul(const OpArgs& args, int i, const Strides& strides) {
  const Shape& shape = args.shape(i);
  const int row = shape.rank() - 2;
  const int column = shape.rank() - 1;
  const bool row_major = strides[column] == 1 &&
                         (shape[row] == 1 || strides[row] >= shape[column]);
  const bool column_major =
      strides[row] == 1 &&
      (shape[column] == 1 || strides[column] >= shape[row]);
  return row_major || column_major;
}

// --- epilogue_matmul ---

// Sums of an operand exclude an epilogue and need two matrices.
Status CheckSumsAlone(const OpArgs& args) {
  std::string flags;
  for (const char* flag : {"bias", "addend", "gelu_grad", "a_sums", "b_sums"}) {
    if (args.attrs.Int(flag) == 0) continue;
    flags += StrCat(flags.empty() ? "" : ", ", flag);
  }
  if (flags != "a_sums" && flags != "b_sums") {
    return args.Fail(
        StrCat("has ", flags, "; expected a_sums or b_sums by themselves"));
  }
  for (const auto& [i, label] : {std::pair(0, "a"), std::pair(1, "b")}) {
    if (i >= args.count() || args.shape(i).rank() == 2) continue;
    return args.Fail(
        StrCat(Operand(args, i, label), "; ", flags, " wants two matrices"));
  }
  return {};
}

TypesResult InferEpilogueMatMul(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"transpose_a", AttrKind::kFlag},
                                            {"transpose_b", AttrKind::kFlag},
                                            {"bias", AttrKind::kFlag},
                                            {"addend", AttrKind::kFlag},
                                            {"gelu_grad", AttrKind::kFlag},
                                            {"a_sums", AttrKind::kFlag},
                                            {"b_sums", AttrKind::kFlag}}));
  const EpilogueOperands at = EpilogueOperandsOf(args.attrs);
  const std::optional<SummedOperand> summed = SummedOperandOf(args.attrs);
  if (at.count == kProductOperands && !summed) {
    return args.Fail(
        "does nothing beside its product; expected bias, addend, gelu_grad, "
        "a_sums or b_sums to be 1, or a matmul");
  }
  if (summed) STOWAGE_RETURN_IF_ERROR(CheckSumsAlone(args));
  if (args.types.size() != at.count) {
    return args.Fail(StrCat("has ", args.count(), " operands; expected ",
                            at.count, ", as bias, addend and gelu_grad say"));
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<TensorType> product,
                           InferProduct(args));
  if (at.bias != 0) {
    STOWAGE_RETURN_IF_ERROR(
        CheckType(args, static_cast<int>(at.bias), "bias",
                  {product[0].dtype, Shape{product[0].shape.back()}},
                  "since that is the type of the product's rows"));
  }
  for (const auto& [place, label] :
       {std::pair(at.addend, "addend"), std::pair(at.x, "x")}) {
    if (place == 0) continue;
    STOWAGE_RETURN_IF_ERROR(CheckType(args, static_cast<int>(place), label,
                                      product[0],
                                      "since that is the product's type"));
  }
  if (!summed) return product;
  const Shape& shape = args.shape(static_cast<int>(summed->place));
  return Typed(
      args, {product[0], {product[0].dtype, Shape{shape[1 - summed->axis]}}});
}

double EpilogueMatMulFlops(const OpArgs& args,
                           std::span<const TensorType> results) {
  const int64_t sums = args.attrs.Int("bias") + args.attrs.Int("addend");
  double flops = MatMulFlops(args, results) +
                 static_cast<double>(sums) * Elements(results[0]);
  if (args.attrs.Int("gelu_grad") == 1) {
    flops += GetOpDef(OpKind::kGeluTanhGrad).flops(args, results);
  }
  if (const auto summed = SummedOperandOf(args.attrs)) {
    flops += Elements(args.type(static_cast<int>(summed->place)));
  }
  return flops;
}

// An operand that is summed is contiguous, as it is where a reduce_sum reads it.
bool AcceptsEpilogueMatMul(const OpArgs& args, int i, const Strides& strides) {
  const auto place = static_cast<size_t>(i);
  const std::optional<SummedOperand> summed = SummedOperandOf(args.attrs);
  const bool is_summed = summed && summed->place == place;
  return place < kProductOperands && !is_summed
             ? AcceptsMatMul(args, i, strides)
             : IsContiguous(args.shape(i), strides);
}

}  // namespace

constinit const OpDef EpilogueMatMul = {.num_inputs = kAnyNumber,
                                        .infer = InferEpilogueMatMul,
                                        .flops = EpilogueMatMulFlops,
                                        .accepts = AcceptsEpilogueMatMul};
constinit const OpDef MatMul = {.num_inputs = 2,
                                .infer = InferMatMul,
                                .flops = MatMulFlops,
                                .accepts = AcceptsMatMul};

// grouped_matmul: rows of x (S, K) in groups, each by a matrix of its own; and the gradient
// of the matrices.

namespace {

Status CheckEnds(const OpArgs& args, int64_t groups) {
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 2, "ends", DTypes::kIndex));
  if (args.shape(2) == Shape{groups}) return {};
  return args.Fail(StrCat(Operand(args, 2, "ends"), "; expected one for each ",
                          "of the ", groups, " matrices"));
}

Status CheckRank(const OpArgs& args, int i, std::string_view label, int rank) {
  if (args.shape(i).rank() == rank) return {};
  return args.Fail(
      StrCat(Operand(args, i, label), "; expected ", rank, " dimensions"));
}

TypesResult InferGroupedMatMul(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"transpose_w", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "x", 1, "w"));
  STOWAGE_RETURN_IF_ERROR(CheckRank(args, 0, "x", 2));
  STOWAGE_RETURN_IF_ERROR(CheckRank(args, 1, "w", 3));
  STOWAGE_RETURN_IF_ERROR(CheckEnds(args, args.shape(1)[0]));
  const bool transposed = args.attrs.Int("transpose_w") == 1;
  const int64_t depth = args.shape(1)[transposed ? 2 : 1];
  if (args.shape(0)[1] != depth) {
    return args.Fail(StrCat("inner sizes differ: ", Operand(args, 0, "x"), ", ",
                            Operand(args, 1, "w"), "; x's last must equal w's ",
                            transposed ? "last" : "last but one"));
  }
  return Typed(
      args,
      {TensorType{args.type(0).dtype,
                  {args.shape(0)[0], args.shape(1)[transposed ? 1 : 2]}}});
}

TypesResult InferGroupedMatMulWeightGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "x", 1, "dy"));
  STOWAGE_RETURN_IF_ERROR(CheckRank(args, 0, "x", 2));
  STOWAGE_RETURN_IF_ERROR(CheckRank(args, 1, "dy", 2));
  STOWAGE_RETURN_IF_ERROR(CheckRank(args, 2, "ends", 1));
  STOWAGE_RETURN_IF_ERROR(CheckEnds(args, args.shape(2)[0]));
  if (args.shape(0)[0] != args.shape(1)[0]) {
    return args.Fail(StrCat("rows differ: ", Operand(args, 0, "x"), ", ",
                            Operand(args, 1, "dy"), "; expected as many"));
  }
  return Typed(
      args,
      {TensorType{args.type(0).dtype,
                  {args.shape(2)[0], args.shape(0)[1], args.shape(1)[1]}}});
}

// As if all rows were in groups, the maximum.
double GroupedMatMulFlops(const OpArgs& args, std::span<const TensorType>) {
  return 2 * Elements(args.type(0)) *
         static_cast<double>(args.shape(1).num_elements() /
                             (args.shape(1)[0] * args.shape(0)[1]));
}
double GroupedMatMulWeightGradFlops(const OpArgs& args,
                                    std::span<const TensorType>) {
  return 2 * Elements(args.type(0)) * static_cast<double>(args.shape(1)[1]);
}

}  // namespace

constinit const OpDef GroupedMatMul = {
    .num_inputs = 3, .infer = InferGroupedMatMul, .flops = GroupedMatMulFlops};
constinit const OpDef GroupedMatMulWeightGrad = {
    .num_inputs = 3,
    .infer = InferGroupedMatMulWeightGrad,
    .flops = GroupedMatMulWeightGradFlops};

// quantized_matmul, quantized_gather: ops on a frozen matrix in quantized blocks.

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

// The matmul's; decoding blocks is not counted.
double QuantizedMatMulFlops(const OpArgs& args,
                            std::span<const TensorType> results) {
  return 2 * Elements(results[0]) * static_cast<double>(args.shape(0).back());
}

}  // namespace

constinit const OpDef QuantizedMatMul = {.num_inputs = 2,
                                         .infer = InferQuantizedMatMul,
                                         .flops = QuantizedMatMulFlops};
constinit const OpDef QuantizedGather = {.num_inputs = 2,
                                         .infer = InferQuantizedGather};

// join_weight, split_update: an f32 master weight, held as its bf16 upper half and its 16
// lower bits (math/optimizer.h).

namespace {

// Error: the first two operands are not the parts of a master weight.
Status CheckParts(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 0, "w", {DType::kBF16, args.shape(0)},
                                    "the upper part of an f32"));
  return CheckType(args, 1, "delta", {DType::kI16, args.shape(0)},
                   "since " + Operand(args, 0, "w"));
}

TypesResult InferJoinWeight(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckParts(args));
  return Typed(args, {{DType::kF32, args.shape(0)}});
}

TypesResult InferSplitUpdate(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckParts(args));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 2, "x", {DType::kF32, args.shape(0)},
                                    "since " + Operand(args, 0, "w")));
  return Typed(args, {args.type(0), args.type(1)});
}

}  // namespace

constinit const OpDef JoinWeight = {.num_inputs = 2, .infer = InferJoinWeight};
constinit const OpDef SplitUpdate = {
    .num_inputs = 3, .infer = InferSplitUpdate, .updates = 2};

}  // namespace stowage::op_defs

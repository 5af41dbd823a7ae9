// Ops that sum, order or accumulate along axes.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {

// reduce_sum, reduce_mean, reduce_max, sum_squares, arg_max.

namespace {

// Distinct axes of operand 0, in increasing order; none only for a scalar.
Status CheckAxes(const OpArgs& args) {
  const int rank = args.shape(0).rank();
  const std::vector<int64_t>& axes = args.attrs.Ints("axes");
  bool good = axes.empty() == (rank == 0);
  std::string text;
  int64_t last = -1;
  for (const int64_t axis : axes) {
    good &= axis > last && axis < rank;
    last = axis;
    text += StrCat(text.empty() ? "" : ", ", axis);
  }
  if (good) return {};
  return args.Fail(
      StrCat("axes (", text, ") are wrong: ", Operand(args, 0, "x"),
             rank == 0 ? std::string("; expected none")
                       : StrCat("; expected distinct axes from 0 to ", rank - 1,
                                " in increasing order")));
}

template <DTypes kTypes>
TypesResult InferReduce(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"axes", AttrKind::kInts}, {"keep", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", kTypes));
  STOWAGE_RETURN_IF_ERROR(CheckAxes(args));
  const bool keep = args.attrs.Int("keep") == 1;
  TensorType result = {args.type(0).dtype, {}};
  const std::vector<int64_t>& axes = args.attrs.Ints("axes");
  auto next = axes.begin();
  for (int i = 0; i < args.shape(0).rank(); ++i) {
    if (next == axes.end() || *next != i) {
      result.shape.push_back(args.shape(0)[i]);
      continue;
    }
    ++next;
    if (keep) result.shape.push_back(1);
  }
  return Typed(args, {result});
}

TypesResult InferSumSquares(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  return Typed(args, {TensorType{StatisticsType(args.type(0).dtype), {}}});
}

TypesResult InferArgMax(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kNumeric));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 1));
  const Shape& shape = args.shape(0);
  if (shape.back() > std::numeric_limits<int32_t>::max()) {
    return args.Fail(StrCat(Operand(args, 0, "x"),
                            "; an i32 index cannot count its last dimension"));
  }
  return Typed(args, {TensorType{DType::kI32, LeadingDims(shape)}});
}

constexpr OpDef ReduceDef(OpDef::InferFn infer) {
  return {.infer = infer, .flops = FlopsPerOperandElement<1>};
}

}  // namespace

constinit const OpDef ReduceSum = ReduceDef(InferReduce<DTypes::kNumeric>);
constinit const OpDef ReduceMean = ReduceDef(InferReduce<DTypes::kFloat>);
constinit const OpDef ReduceMax = ReduceDef(InferReduce<DTypes::kNumeric>);
constinit const OpDef SumSquares = {.infer = InferSumSquares,
                                    .flops = FlopsPerOperandElement<2>};
constinit const OpDef ArgMax = ReduceDef(InferArgMax);

// sum_partials: the sum over the rows of each operand, in another element type.

namespace {

TypesResult InferSumPartials(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"dtype", AttrKind::kDType}}));
  if (args.count() == 0) {
    return args.Fail("has no partials; expected at least 1");
  }
  const DType dtype = args.attrs.Type("dtype");
  if (!IsFloat(dtype)) {
    return args.Fail(
        StrCat("dtype is ", DTypeName(dtype), "; expected a float type"));
  }
  std::vector<TensorType> sums;
  for (int i = 0; i < args.count(); ++i) {
    const TensorType& partial = args.type(i);
    if (partial.dtype != StatisticsType(dtype) || partial.shape.rank() != 2) {
      return args.Fail(StrCat(Operand(args, i, StrCat("partial ", i)),
                              "; expected ", DTypeName(StatisticsType(dtype)),
                              " of rank 2, whose sums are ", DTypeName(dtype)));
    }
    sums.push_back({dtype, {partial.shape[1]}});
  }
  return Typed(args, std::move(sums));
}

double SumPartialsFlops(const OpArgs& args, std::span<const TensorType>) {
  double flops = 0;
  for (const TensorType& partial : args.types) flops += Elements(partial);
  return flops;
}

}  // namespace

constinit const OpDef SumPartials = {.num_inputs = kAnyNumber,
                                     .infer = InferSumPartials,
                                     .flops = SumPartialsFlops};

// top_k: the largest or smallest elements of the last axis, in order.

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

// The comparisons of a heap of k.
double TopKFlops(const OpArgs& args, std::span<const TensorType>) {
  return Elements(args.type(0)) *
         std::log2(static_cast<double>(args.attrs.Int("k")) + 1);
}

}  // namespace

constinit const OpDef TopK = {.infer = InferTopK, .flops = TopKFlops};

// cumsum: sums along an axis up to each element.

namespace {

TypesResult InferCumSum(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"axis", AttrKind::kInt},
                                            {"exclusive", AttrKind::kFlag},
                                            {"reverse", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kNumeric));
  STOWAGE_RETURN_IF_ERROR(CheckAxis(args, 0, "x"));
  return Typed(args, {args.type(0)});
}

}  // namespace

constinit const OpDef CumSum = {.infer = InferCumSum,
                                .flops = FlopsPerResultElement<1>,
                                .may_overwrite = 0b1};

}  // namespace stowage::op_defs

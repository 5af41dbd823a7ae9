// sum_partials: of each operand the sum over its rows, of another element type.

#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
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

}  // namespace stowage::op_defs

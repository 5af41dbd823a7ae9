// random_uniform, random_normal: numbers that are a function of seed, op, step and
// element (Philox).

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
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

}  // namespace stowage::op_defs

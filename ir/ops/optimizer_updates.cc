// sgd_update, momentum_update, nesterov_update, rmsprop_update, adagrad_update,
// adam_update, adamw_update, adamw_split_update: results are the
// new contents of the first operands. Learning rate, step and clip factor are
// operands, so that changing them changes no graph.

#include <initializer_list>
#include <optional>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

constexpr TensorType kF32Scalar = {DType::kF32, {}};
constexpr TensorType kI64Scalar = {DType::kI64, {}};

// An operand that an update overwrites.
struct Updated {
  const char* label;
  std::optional<DType> dtype = {};  // w's where absent
};

// Operands are w, the other updated ones, g, lr, then step for AdamW, and
// perhaps scale. `updated` names the first ones.
Status CheckUpdate(const OpArgs& args, std::initializer_list<Updated> updated,
                   bool has_step) {
  const int g = static_cast<int>(updated.size());
  const int lr = g + 1;
  const int step = lr + 1;
  const int scale = has_step ? step + 1 : step;
  if (args.count() != scale && args.count() != scale + 1) {
    return args.Fail(StrCat("takes ", scale, " operands, or ", scale + 1,
                            " with scale; was given ", args.count()));
  }
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "w", DTypes::kFloat));
  const std::string same = "since " + Operand(args, 0, "w");
  for (int i = 1; i < g; ++i) {
    const Updated& state = updated.begin()[i];
    const DType dtype = state.dtype.value_or(args.type(0).dtype);
    STOWAGE_RETURN_IF_ERROR(
        CheckType(args, i, state.label, {dtype, args.shape(0)}, same));
  }
  STOWAGE_RETURN_IF_ERROR(CheckType(args, g, "g", args.type(0), same));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, lr, "lr", kF32Scalar, "a scalar"));
  if (has_step) {
    STOWAGE_RETURN_IF_ERROR(
        CheckType(args, step, "step", kI64Scalar, "a scalar"));
  }
  if (args.count() > scale) {
    STOWAGE_RETURN_IF_ERROR(
        CheckType(args, scale, "scale", kF32Scalar, "a scalar"));
  }
  return {};
}

TypesResult InferSgd(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"decay", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckUpdate(args, {{"w"}}, /*has_step=*/false));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "decay"));
  return Typed(args, {args.type(0)});
}

TypesResult InferMomentum(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(
      args, {{"momentum", AttrKind::kReal}, {"decay", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(
      CheckUpdate(args, {{"w"}, {"velocity"}}, /*has_step=*/false));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "momentum"));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "decay"));
  return Typed(args, {args.type(0), args.type(1)});
}

TypesResult InferRmsProp(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"alpha", AttrKind::kReal},
                                            {"eps", AttrKind::kReal},
                                            {"decay", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(
      CheckUpdate(args, {{"w"}, {"v"}}, /*has_step=*/false));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "alpha"));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "decay"));
  return Typed(args, {args.type(0), args.type(1)});
}

TypesResult InferAdagrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"eps", AttrKind::kReal}, {"decay", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(
      CheckUpdate(args, {{"w"}, {"v"}}, /*has_step=*/false));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "decay"));
  return Typed(args, {args.type(0), args.type(1)});
}

Status CheckAdamW(const OpArgs& args, std::initializer_list<Updated> updated) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"beta1", AttrKind::kReal},
                                            {"beta2", AttrKind::kReal},
                                            {"eps", AttrKind::kReal},
                                            {"decay", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckUpdate(args, updated, /*has_step=*/true));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "beta1"));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "beta2"));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  return CheckNotNegative(args, "decay");
}

TypesResult InferAdamW(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAdamW(args, {{"w"}, {"m"}, {"v"}}));
  return Typed(args, {args.type(0), args.type(1), args.type(2)});
}

// The master weight is w and delta together, math/split_master.h.
TypesResult InferAdamWSplit(const OpArgs& args) {
  if (args.count() > 0 && args.type(0).dtype != DType::kBF16) {
    return args.Fail(StrCat(Operand(args, 0, "w"), "; expected bf16"));
  }
  STOWAGE_RETURN_IF_ERROR(CheckAdamW(
      args,
      {{"w"}, {"delta", DType::kI16}, {"m", DType::kF32}, {"v", DType::kF32}}));
  return Typed(args, {args.type(0), args.type(1), args.type(2), args.type(3)});
}

}  // namespace

constinit const OpDef SgdUpdate = {.num_inputs = kAnyNumber,
                                   .infer = InferSgd,
                                   .flops = FlopsPerResultElement<5>,
                                   .updates = 1};
constinit const OpDef MomentumUpdate = {.num_inputs = kAnyNumber,
                                        .infer = InferMomentum,
                                        .flops = FlopsPerResultElement<7>,
                                        .updates = 2};
constinit const OpDef NesterovUpdate = {.num_inputs = kAnyNumber,
                                        .infer = InferMomentum,
                                        .flops = FlopsPerResultElement<9>,
                                        .updates = 2};
constinit const OpDef RmsPropUpdate = {.num_inputs = kAnyNumber,
                                       .infer = InferRmsProp,
                                       .flops = FlopsPerResultElement<11>,
                                       .updates = 2};
constinit const OpDef AdagradUpdate = {.num_inputs = kAnyNumber,
                                       .infer = InferAdagrad,
                                       .flops = FlopsPerResultElement<9>,
                                       .updates = 2};
constinit const OpDef AdamUpdate = {.num_inputs = kAnyNumber,
                                    .infer = InferAdamW,
                                    .flops = FlopsPerResultElement<16>,
                                    .updates = 3};
constinit const OpDef AdamWUpdate = {.num_inputs = kAnyNumber,
                                     .infer = InferAdamW,
                                     .flops = FlopsPerResultElement<16>,
                                     .updates = 3};
constinit const OpDef AdamWSplitUpdate = {.num_inputs = kAnyNumber,
                                          .infer = InferAdamWSplit,
                                          .flops = FlopsPerResultElement<16>,
                                          .updates = 4};

}  // namespace stowage::op_defs

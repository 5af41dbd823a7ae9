// sgd_update, momentum_update, nesterov_update, rmsprop_update, adagrad_update,
// adam_update, adamw_update, adamw_split_update, and those with states of fewer bits,
// adamw_bf16_update, adamw_bf16_split_update, adamw_8bit_update,
// adamw_8bit_split_update, momentum_bf16_update, momentum_bf16_split_update: results
// are the new contents of the first operands. Learning rate, step, seed and clip factor
// are operands, so that changing them changes no graph.

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/element_groups.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"
#include "ir/tensor_type.h"

namespace stowage::op_defs {
namespace {

constexpr TensorType kF32Scalar = {DType::kF32, {}};
constexpr TensorType kI64Scalar = {DType::kI64, {}};

// An operand that an update overwrites.
struct Updated {
  const char* label;
  std::optional<DType> dtype = {};  // w's where absent
  bool by_block = false;            // a scale for each block of w's elements
};

// Which scalars an update reads after the gradient: lr, lr and step, or these and
// seed.
enum class Scalars { kLr = 1, kStep = 2, kSeed = 3 };

// Operands are w, the other updated ones, g, the scalars, and perhaps scale.
// `updated` names the first ones.
Status CheckUpdate(const OpArgs& args, std::initializer_list<Updated> updated,
                   Scalars scalars) {
  const int g = static_cast<int>(updated.size());
  const int lr = g + 1;
  const int scale = lr + static_cast<int>(scalars);
  if (args.count() != scale && args.count() != scale + 1) {
    return args.Fail(StrCat("takes ", scale, " operands, or ", scale + 1,
                            " with scale; was given ", args.count()));
  }
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "w", DTypes::kFloat));
  const std::string same = "since " + Operand(args, 0, "w");
  for (int i = 1; i < g; ++i) {
    const Updated& state = updated.begin()[i];
    const DType dtype = state.dtype.value_or(args.type(0).dtype);
    const Shape shape =
        state.by_block ? MomentScales(args.shape(0)) : args.shape(0);
    STOWAGE_RETURN_IF_ERROR(
        CheckType(args, i, state.label, {dtype, shape}, same));
  }
  STOWAGE_RETURN_IF_ERROR(CheckType(args, g, "g", args.type(0), same));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, lr, "lr", kF32Scalar, "a scalar"));
  constexpr const char* kCounts[] = {"step", "seed"};
  for (int i = lr + 1; i < scale; ++i) {
    STOWAGE_RETURN_IF_ERROR(
        CheckType(args, i, kCounts[i - lr - 1], kI64Scalar, "a scalar"));
  }
  if (args.count() > scale) {
    STOWAGE_RETURN_IF_ERROR(
        CheckType(args, scale, "scale", kF32Scalar, "a scalar"));
  }
  return {};
}

// The types of the first `n` operands, which are updated.
TypesResult TypedAsFirst(const OpArgs& args, int n) {
  std::vector<TensorType> types;
  for (int i = 0; i < n; ++i) types.push_back(args.type(i));
  return Typed(args, std::move(types));
}

TypesResult InferSgd(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"decay", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckUpdate(args, {{"w"}}, Scalars::kLr));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "decay"));
  return TypedAsFirst(args, 1);
}

TypesResult InferMomentum(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(
      args, {{"momentum", AttrKind::kReal}, {"decay", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(
      CheckUpdate(args, {{"w"}, {"velocity"}}, Scalars::kLr));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "momentum"));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "decay"));
  return TypedAsFirst(args, 2);
}

TypesResult InferRmsProp(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"alpha", AttrKind::kReal},
                                            {"eps", AttrKind::kReal},
                                            {"decay", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckUpdate(args, {{"w"}, {"v"}}, Scalars::kLr));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "alpha"));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "decay"));
  return TypedAsFirst(args, 2);
}

TypesResult InferAdagrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"eps", AttrKind::kReal}, {"decay", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckUpdate(args, {{"w"}, {"v"}}, Scalars::kLr));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "decay"));
  return TypedAsFirst(args, 2);
}

// The attributes of AdamW, and one more.
Status CheckAdamW(const OpArgs& args, std::initializer_list<Updated> updated,
                  Scalars scalars = Scalars::kStep,
                  std::initializer_list<AttrSpec> specs = {
                      {"beta1", AttrKind::kReal},
                      {"beta2", AttrKind::kReal},
                      {"eps", AttrKind::kReal},
                      {"decay", AttrKind::kReal}}) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, specs));
  STOWAGE_RETURN_IF_ERROR(CheckUpdate(args, updated, scalars));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "beta1"));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "beta2"));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  return CheckNotNegative(args, "decay");
}

// Random words are drawn for four elements at once.
Status CheckFirst(const OpArgs& args) {
  const int64_t first = args.attrs.Int("first");
  if (first >= 0 && first % 4 == 0) return {};
  return args.Fail(StrCat("first is ", first,
                          "; expected a multiple of 4 that is not negative"));
}

Status CheckRoundedAdamW(const OpArgs& args,
                         std::initializer_list<Updated> updated) {
  STOWAGE_RETURN_IF_ERROR(CheckAdamW(args, updated, Scalars::kSeed,
                                     {{"beta1", AttrKind::kReal},
                                      {"beta2", AttrKind::kReal},
                                      {"eps", AttrKind::kReal},
                                      {"decay", AttrKind::kReal},
                                      {"id", AttrKind::kInt},
                                      {"first", AttrKind::kInt}}));
  return CheckFirst(args);
}

Status CheckCodedAdamW(const OpArgs& args,
                       std::initializer_list<Updated> updated) {
  return CheckAdamW(args, updated, Scalars::kStep,
                    {{"beta1", AttrKind::kReal},
                     {"beta2", AttrKind::kReal},
                     {"eps", AttrKind::kReal},
                     {"decay", AttrKind::kReal},
                     {"companded", AttrKind::kFlag}});
}

Status CheckRoundedMomentum(const OpArgs& args,
                            std::initializer_list<Updated> updated) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"momentum", AttrKind::kReal},
                                            {"decay", AttrKind::kReal},
                                            {"id", AttrKind::kInt},
                                            {"first", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckUpdate(args, updated, Scalars::kSeed));
  STOWAGE_RETURN_IF_ERROR(CheckFirst(args));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "momentum"));
  return CheckNotNegative(args, "decay");
}

TypesResult InferAdamW(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAdamW(args, {{"w"}, {"m"}, {"v"}}));
  return TypedAsFirst(args, 3);
}

Status CheckWeightType(const OpArgs& args, DType dtype) {
  if (args.count() == 0 || args.type(0).dtype == dtype) return {};
  return args.Fail(
      StrCat(Operand(args, 0, "w"), "; expected ", DTypeName(dtype)));
}

// The weight is w and delta together, math/optimizer.h: all of an f32, or its
// upper 24 bits.
Result<Updated> CheckSplit(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckWeightType(args, DType::kBF16));
  const bool is_short = args.count() > 1 && args.type(1).dtype == DType::kU8;
  return Updated{"delta", is_short ? DType::kU8 : DType::kI16};
}

TypesResult InferAdamWSplit(const OpArgs& args) {
  STOWAGE_ASSIGN_OR_RETURN(const Updated delta, CheckSplit(args));
  STOWAGE_RETURN_IF_ERROR(
      CheckAdamW(args, {{"w"}, delta, {"m", DType::kF32}, {"v", DType::kF32}}));
  return TypedAsFirst(args, 4);
}

TypesResult InferAdamWBf16(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckWeightType(args, DType::kF32));
  STOWAGE_RETURN_IF_ERROR(CheckRoundedAdamW(
      args, {{"w"}, {"m", DType::kBF16}, {"v", DType::kBF16}}));
  return TypedAsFirst(args, 3);
}

TypesResult InferAdamWBf16Split(const OpArgs& args) {
  STOWAGE_ASSIGN_OR_RETURN(const Updated delta, CheckSplit(args));
  STOWAGE_RETURN_IF_ERROR(CheckRoundedAdamW(
      args, {{"w"}, delta, {"m", DType::kBF16}, {"v", DType::kBF16}}));
  return TypedAsFirst(args, 4);
}

TypesResult InferAdamW8Bit(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckWeightType(args, DType::kF32));
  STOWAGE_RETURN_IF_ERROR(
      CheckCodedAdamW(args, {{"w"},
                             {"m", DType::kU8},
                             {"v", DType::kU8},
                             {"m_scale", DType::kF32, /*by_block=*/true},
                             {"v_scale", DType::kF32, /*by_block=*/true}}));
  return TypedAsFirst(args, 5);
}

TypesResult InferAdamW8BitSplit(const OpArgs& args) {
  STOWAGE_ASSIGN_OR_RETURN(const Updated delta, CheckSplit(args));
  STOWAGE_RETURN_IF_ERROR(
      CheckCodedAdamW(args, {{"w"},
                             delta,
                             {"m", DType::kU8},
                             {"v", DType::kU8},
                             {"m_scale", DType::kF32, /*by_block=*/true},
                             {"v_scale", DType::kF32, /*by_block=*/true}}));
  return TypedAsFirst(args, 6);
}

TypesResult InferMomentumBf16(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckWeightType(args, DType::kF32));
  STOWAGE_RETURN_IF_ERROR(
      CheckRoundedMomentum(args, {{"w"}, {"velocity", DType::kBF16}}));
  return TypedAsFirst(args, 2);
}

TypesResult InferMomentumBf16Split(const OpArgs& args) {
  STOWAGE_ASSIGN_OR_RETURN(const Updated delta, CheckSplit(args));
  STOWAGE_RETURN_IF_ERROR(
      CheckRoundedMomentum(args, {{"w"}, delta, {"velocity", DType::kBF16}}));
  return TypedAsFirst(args, 3);
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
constinit const OpDef AdamWBf16Update = {.num_inputs = kAnyNumber,
                                         .infer = InferAdamWBf16,
                                         .flops = FlopsPerResultElement<16>,
                                         .updates = 3};
constinit const OpDef AdamWBf16SplitUpdate = {
    .num_inputs = kAnyNumber,
    .infer = InferAdamWBf16Split,
    .flops = FlopsPerResultElement<16>,
    .updates = 4};
constinit const OpDef AdamW8BitUpdate = {.num_inputs = kAnyNumber,
                                         .infer = InferAdamW8Bit,
                                         .flops = FlopsPerResultElement<40>,
                                         .updates = 5};
constinit const OpDef AdamW8BitSplitUpdate = {
    .num_inputs = kAnyNumber,
    .infer = InferAdamW8BitSplit,
    .flops = FlopsPerResultElement<40>,
    .updates = 6};
constinit const OpDef MomentumBf16Update = {.num_inputs = kAnyNumber,
                                            .infer = InferMomentumBf16,
                                            .flops = FlopsPerResultElement<7>,
                                            .updates = 2};
constinit const OpDef MomentumBf16SplitUpdate = {
    .num_inputs = kAnyNumber,
    .infer = InferMomentumBf16Split,
    .flops = FlopsPerResultElement<7>,
    .updates = 3};

}  // namespace stowage::op_defs

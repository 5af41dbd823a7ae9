#include "autodiff/train_options.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/errors.h"
#include "base/strings.h"

namespace stowage {

namespace {

constexpr double kMin = std::numeric_limits<float>::min();

template <typename T>
Status Check(std::string_view name, T value, bool holds,
             std::string_view expected) {
  if (holds) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[loss scale] ", name, " is ", value, "; expected ", expected)};
}

}  // namespace

Status CheckLossScaling(const LossScaling& scaling) {
  const auto& [init, is_dynamic, growth, backoff, interval] = scaling;
  STOWAGE_RETURN_IF_ERROR(Check("init_scale", init,
                                init >= kMin && init <= 1 / kMin,
                                "a number from 2^-126 to 2^126"));
  if (!is_dynamic) return {};
  STOWAGE_RETURN_IF_ERROR(Check("growth_factor", growth,
                                growth > 1 && std::isfinite(growth),
                                "a finite number above 1"));
  STOWAGE_RETURN_IF_ERROR(Check("backoff_factor", backoff,
                                backoff > 0 && backoff < 1,
                                "a number between 0 and 1"));
  return Check("growth_interval", interval, interval >= 1, "at least 1");
}

namespace {

// That `name`, if the model has it, can be the step's input, too.
Status CheckScalarInput(const Graph& forward, std::string_view name) {
  const std::optional<ValueId> id = forward.Find(name);
  if (!id) return {};
  const ValueInfo& info = forward.value(*id);
  if (info.role != Role::kInput || info.type != TensorType{DType::kI64, {}}) {
    return InvalidArgumentError(
        "[autodiff] ", Quoted(name), " in graph ", Quoted(forward.name()),
        " is ", RoleName(info.role), " ", info.type.ToString(),
        "; the step needs this name for an input i64()");
  }
  return {};
}

// That the step can have this name for what it declares.
Status CheckFree(const Graph& forward, std::string_view name,
                 std::string_view what) {
  if (!forward.Find(name)) return {};
  return InvalidArgumentError("[autodiff] graph ", Quoted(forward.name()),
                              " has a value ", Quoted(name),
                              "; the step needs this name for its ", what);
}

}  // namespace

std::string AverageName(std::string_view param) {
  return StrCat(param, ".ema");
}

bool UpdatesWait(const TrainOptions& options) {
  return options.clip_norm || options.loss_scaling;
}

Status CheckTrainOptions(const Graph& forward, const TrainOptions& options) {
  for (const ValueId id : forward.Leaves(Role::kCache)) {
    return InvalidArgumentError(
        "[autodiff] graph ", Quoted(forward.name()), " has the cache ",
        Quoted(forward.value(id).name),
        "; a step of training keeps nothing for the next one but "
        "params and states");
  }
  STOWAGE_RETURN_IF_ERROR(CheckOptimizer(options.optimizer));
  if (options.clip_norm &&
      !(*options.clip_norm > 0 && std::isfinite(*options.clip_norm))) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[optimizer] clip_norm is ", *options.clip_norm,
                        "; expected a finite number above 0")};
  }
  if (options.ema) {
    if (!(*options.ema > 0 && *options.ema < 1)) {
      return InvalidArgumentError("[optimizer] ema is ", *options.ema,
                                  "; expected a decay above 0 and below 1");
    }
    STOWAGE_RETURN_IF_ERROR(CheckFree(forward, kAverageUpdates, "averages"));
  }
  STOWAGE_RETURN_IF_ERROR(CheckParamGroups(forward, options.groups));
  for (const std::string& name : options.wrt) {
    const std::optional<ValueId> id = forward.Find(name);
    if (!id || forward.value(*id).role == Role::kParam) continue;
    return InvalidArgumentError(
        "[autodiff] cannot train ", Quoted(name), ", whose role is ",
        RoleName(forward.value(*id).role), "; expected a param");
  }
  STOWAGE_RETURN_IF_ERROR(CheckFree(forward, "lr", "learning rate"));
  if (options.loss_scaling) {
    STOWAGE_RETURN_IF_ERROR(CheckLossScaling(*options.loss_scaling));
    for (const std::string_view name :
         {"loss_scale", "loss_scale.good_steps", "loss_scale.skipped",
          "new:loss_scale", "update_skipped"}) {
      STOWAGE_RETURN_IF_ERROR(CheckFree(forward, name, "loss scaling"));
    }
  }
  STOWAGE_RETURN_IF_ERROR(CheckScalarInput(forward, "step"));
  if (!ReadsSeed(options.optimizer)) return {};
  return CheckScalarInput(forward, "seed");
}

}  // namespace stowage

#include "train/optimizer_choice.h"

#include <charconv>
#include <cmath>
#include <system_error>
#include <variant>

#include "base/strings.h"

namespace stowage {

bool IsOfModel(const Optimizer& optimizer, const TrainingDefaults& defaults) {
  const Result<Optimizer> own = ParseOptimizer(defaults.optimizer);
  return own.ok() && own->index() == optimizer.index();
}

Result<Optimizer> ChooseOptimizer(std::string_view name,
                                  const TrainingDefaults& defaults) {
  const std::string_view chosen = name.empty() ? defaults.optimizer : name;
  STOWAGE_ASSIGN_OR_RETURN(Optimizer optimizer, ParseOptimizer(chosen));
  if (!IsOfModel(optimizer, defaults)) return optimizer;
  if (AdamW* adamw = std::get_if<AdamW>(&optimizer)) {
    adamw->beta1 = defaults.beta1;
    adamw->beta2 = defaults.beta2;
  }
  std::visit([&](auto& kind) { kind.decay = defaults.decay; }, optimizer);
  return optimizer;
}

Result<Optimizer> WithMomentum(Optimizer optimizer, double momentum) {
  if (!(momentum >= 0 && momentum < 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[momentum] ", momentum,
                        " is out of range; expected at least 0 and below 1")};
  }
  if (const Sgd* const sgd = std::get_if<Sgd>(&optimizer)) {
    if (momentum == 0) return optimizer;
    return Optimizer(Momentum{.momentum = momentum, .decay = sgd->decay});
  }
  if (!MomentumOf(optimizer)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[momentum] ", OptimizerName(optimizer),
                        " has no momentum to set to ", momentum,
                        "; sgd, momentum, momentum-bf16, nesterov, rmsprop "
                        "and muon have one")};
  }
  std::visit(
      [&](auto& kind) {
        if constexpr (requires { kind.momentum; }) kind.momentum = momentum;
      },
      optimizer);
  return optimizer;
}

Result<Optimizer> WithDecay(Optimizer optimizer, double decay) {
  if (!(decay >= 0 && std::isfinite(decay))) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[weight-decay] ", decay,
                        " is out of range; expected a finite number of at "
                        "least 0")};
  }
  std::visit([&](auto& kind) { kind.decay = decay; }, optimizer);
  return optimizer;
}

double DecayOf(const Optimizer& optimizer) {
  return std::visit([](const auto& kind) { return kind.decay; }, optimizer);
}

std::optional<double> MomentumOf(const Optimizer& optimizer) {
  return std::visit(
      [](const auto& kind) -> std::optional<double> {
        if constexpr (requires { kind.momentum; }) return kind.momentum;
        return std::nullopt;
      },
      optimizer);
}

Result<std::optional<LossScaling>> ChooseLossScaling(std::string_view text,
                                                     DType dtype) {
  using Scaling = std::optional<LossScaling>;
  const bool is_by_type = text.empty() && dtype == DType::kF16;
  if (text == "dynamic" || is_by_type) return Scaling(LossScaling{});
  if (text == "none" || text.empty()) return Scaling();
  LossScaling fixed = {.is_dynamic = false};
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, fixed.init_scale);
  if (parsed.ec != std::errc() || parsed.ptr != end ||
      !CheckLossScaling(fixed).ok()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[loss-scale] ", Quoted(text),
                        " is neither dynamic, none, nor a number above 0 "
                        "that f32 has, and the inverse of")};
  }
  return Scaling(fixed);
}

}  // namespace stowage

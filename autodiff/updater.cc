#include "autodiff/updater.h"

#include <optional>

#include "autodiff/param_groups.h"
#include "autodiff/update_rule.h"
#include "base/strings.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/ops.h"

namespace stowage {

void Updater::DeclareInputs() {
  inputs_.lr = g_.Input("lr", DType::kF32, {});
  const std::optional<Value> step = g_.Find("step");
  inputs_.step = step ? *step : g_.Input("step", DType::kI64, {});
  if (!ReadsSeed(options_.optimizer)) return;
  const std::optional<Value> seed = g_.Find("seed");
  inputs_.seed = seed ? *seed : g_.Input("seed", DType::kI64, {});
}

void Updater::Update(Value param, Value gradient) {
  if (!param.ok()) return;
  Update(
      {.param = g_.info(param).name, .elements = param.shape().num_elements()},
      param, gradient);
}

void Updater::Update(const ParamBlock& which, Value block, Value gradient) {
  if (!block.ok()) return;
  const ParamGroup* const group = FindParamGroup(options_.groups, which.param);
  UpdateInputs inputs = inputs_;
  if (group != nullptr) inputs.lr = ScaledRate(group->lr_scale);
  g_.SetOrigin(Phase::kUpdate, which.param, g_.info(block).source);
  EmitUpdate(OptimizerOfGroup(options_.optimizer, group), which, block,
             gradient, inputs);
}

void Updater::Clip(const std::vector<Value>& gradients) {
  g_.SetOrigin(Phase::kUpdate, "grad_norm");
  SetClip(EmitClipScale(g_, gradients, *options_.clip_norm));
}

void Updater::ClipBySquares(const std::vector<Value>& squares) {
  g_.SetOrigin(Phase::kUpdate, "grad_norm");
  SetClip(EmitClipScaleOfSquares(g_, squares, *options_.clip_norm));
}

void Updater::SetClip(const ClipScale& clip) {
  inputs_.clip_scale = clip.scale;
  g_.Output("grad_norm", g_.Name("grad_norm", clip.norm));
}

// The learning rate times `scale`, made by the first update that reads it,
// for all of them.
Value Updater::ScaledRate(double scale) {
  if (scale == 1) return inputs_.lr;
  const auto [rate, is_new] = scaled_rates_.emplace(scale, Value());
  if (!is_new) return rate->second;
  g_.SetOrigin(Phase::kUpdate, "lr");
  rate->second = MulScalar(inputs_.lr, scale);
  const std::string name = StrCat("lr*", scale);
  if (!g_.Find(name)) g_.Name(name, rate->second);
  return rate->second;
}

}  // namespace stowage

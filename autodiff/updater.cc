#include "autodiff/updater.h"

#include <algorithm>
#include <limits>

#include "autodiff/backward.h"
#include "autodiff/param_groups.h"
#include "base/glob.h"
#include "base/strings.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/ops.h"

namespace stowage {

void Updater::DeclareInputs() {
  inputs_.lr = g_.Input("lr", DType::kF32, {});
  const std::optional<Value> step = g_.Find("step");
  inputs_.step = step ? *step : g_.Input("step", DType::kI64, {});
  if (options_.loss_scaling) scaler_.emplace(*options_.loss_scaling, &g_);
  if (!ReadsSeed(options_.optimizer)) return;
  const std::optional<Value> seed = g_.Find("seed");
  inputs_.seed = seed ? *seed : g_.Input("seed", DType::kI64, {});
}

LossGradient Updater::Seed(double weight) const {
  return scaler_ ? scaler_->Seed(weight) : LossGradient{.value = weight};
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

void Updater::Await(const std::vector<Value>& gradients) {
  g_.SetOrigin(Phase::kUpdate, "grad_norm");
  std::vector<Value> squares;
  for (const Value& gradient : gradients) {
    squares.push_back(Cast(SumSquares(gradient), DType::kF32));
  }
  AwaitSquares(squares);
}

// A sum of squares is finite if all of them are and none is beyond 2^64, the root of
// f32's range: in f16 that is every number.
void Updater::AwaitSquares(const std::vector<Value>& squares) {
  g_.SetOrigin(Phase::kUpdate, "grad_norm");
  Value total;
  for (const Value& each : squares) {
    total = total.ok() ? Add(total, each) : each;
  }
  if (options_.clip_norm) {
    Value norm = Sqrt(total);
    if (scaler_) norm = Mul(norm, scaler_->Inverse());
    g_.SetOrigin(Phase::kUpdate, "grad_norm");
    g_.Output("grad_norm", g_.Name("grad_norm", norm));
    inputs_.scale = EmitClipScale(norm, *options_.clip_norm);
  }
  if (!scaler_) return;
  const Value inverse = scaler_->Inverse();
  g_.SetOrigin(Phase::kUpdate, "loss_scale");
  const Value scale =
      options_.clip_norm ? Mul(inputs_.scale, inverse) : inverse;
  const Value most =
      Fill(g_, std::numeric_limits<float>::max(), DType::kF32, {});
  const Value never =
      Fill(g_, std::numeric_limits<float>::infinity(), DType::kF32, {});
  inputs_.good = LessEqual(total, most);
  inputs_.scale = Where(inputs_.good, scale, never);
  inputs_.step = scaler_->UpdatesUpTo(inputs_.step);
  scaler_->Settle(inputs_.good);
}

void Updater::GiveOut(const std::map<std::string, Value>& gradients) {
  for (const auto& [param, gradient] : gradients) {
    const auto matches = [&param = param](const std::string& pattern) {
      return GlobMatches(pattern, param);
    };
    if (std::ranges::none_of(options_.gradients, matches)) continue;
    const std::string name = GradientName(param);
    if (!scaler_) {
      g_.Output(name, gradient);
      continue;
    }
    const Value inverse = scaler_->Inverse();
    g_.SetOrigin(Phase::kUpdate, param);
    g_.Name(StrCat("scaled:", name), gradient);
    g_.Output(name, g_.Name(name, EmitScaled(gradient, inverse)));
  }
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

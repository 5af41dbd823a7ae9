#include "autodiff/updater.h"

#include <algorithm>
#include <limits>

#include "autodiff/backward.h"
#include "autodiff/optimizer.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage {

LossScaler::LossScaler(const LossScaling& scaling, GraphBuilder* g)
    : scaling_(scaling), g_(*g) {
  if (scaling_.is_dynamic) {
    scale_ = g_.State("loss_scale", DType::kF32, {},
                      Init::Constant(scaling_.init_scale));
    good_steps_ = g_.State("loss_scale.good_steps", DType::kI64, {});
  }
  skipped_ = g_.State("loss_scale.skipped", DType::kI64, {});
}

LossGradient LossScaler::Seed(double weight) const {
  if (scaling_.is_dynamic) return {weight, scale_};
  return {weight * scaling_.init_scale, Value()};
}

Value LossScaler::Inverse() {
  if (inverse_.builder() != nullptr) return inverse_;
  g_.SetOrigin(Phase::kUpdate, "loss_scale");
  inverse_ = scaling_.is_dynamic
                 ? Reciprocal(scale_)
                 : Fill(g_, 1 / scaling_.init_scale, DType::kF32, {});
  return inverse_;
}

Value LossScaler::UpdatesUpTo(Value step) {
  g_.SetOrigin(Phase::kUpdate, "loss_scale");
  return Sub(step, skipped_);
}

void LossScaler::Settle(Value good) {
  g_.SetOrigin(Phase::kUpdate, "loss_scale");
  const Value is_skipped = LogicalNot(good);
  Assign(skipped_, Add(skipped_, Cast(is_skipped, DType::kI64)));
  g_.Output("update_skipped",
            g_.Name("update_skipped", Cast(is_skipped, DType::kF32)));
  if (scaling_.is_dynamic) MoveScale(good);
}

// Where a scale would not be a number of f32 any more, or have no inverse, it stays.
void LossScaler::MoveScale(Value good) {
  const Value count = AddScalar(good_steps_, 1);
  const Value is_due = Equal(
      count,
      Fill(g_, static_cast<double>(scaling_.growth_interval), DType::kI64, {}));
  const Value larger = MulScalar(scale_, scaling_.growth_factor);
  const Value smaller = MulScalar(scale_, scaling_.backoff_factor);
  const Value grows = LogicalAnd(
      is_due, LessEqual(larger, Fill(g_, std::numeric_limits<float>::max(),
                                     DType::kF32, {})));
  const Value after_good = Where(grows, larger, scale_);
  const Value after_bad = Maximum(
      smaller, Fill(g_, std::numeric_limits<float>::min(), DType::kF32, {}));
  const Value counts_on = LogicalAnd(good, LogicalNot(is_due));
  Assign(good_steps_, Where(counts_on, count, Fill(g_, 0, DType::kI64, {})));
  const Value moved = Assign(scale_, Where(good, after_good, after_bad));
  g_.Output("new:loss_scale", g_.Name("new:loss_scale", moved));
}

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
  if (options_.ema) Average(block);
}

void Updater::Average(Value block) {
  const std::string name = g_.info(block).name;  // a copy: the graph grows
  const std::optional<Value> updated = g_.Find(StrCat("new:", name));
  if (!updated) {
    g_.Fail(Error{ErrorCode::kUnsupported,
                  StrCat("[optimizer] the update of ", Quoted(name), " by ",
                         OptimizerName(options_.optimizer),
                         " does not name the new content, which an average is "
                         "of; expected one that writes by Set, or no ema")});
    return;
  }
  const DType dtype = block.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const std::string average = AverageName(name);
  const Value moved = LerpUpdate(g_.State(average, dtype, block.shape()),
                                 Cast(*updated, dtype), AverageWeight(dtype));
  if (moved.ok()) g_.Name(StrCat("new:", average), moved);
}

// A weight of infinity moves nothing (LerpUpdate).
Value Updater::AverageWeight(DType dtype) {
  if (is_first_average_.builder() == nullptr) {
    const Value updates =
        g_.State(std::string(kAverageUpdates), DType::kI64, {});
    is_first_average_ = Equal(updates, Fill(g_, 0, DType::kI64, {}));
    const bool may_skip = inputs_.good.builder() != nullptr;
    const Value more = may_skip ? Cast(inputs_.good, DType::kI64)
                                : Fill(g_, 1, DType::kI64, {});
    Assign(updates, Add(updates, more));
  }
  const auto [weight, is_new] = average_weights_.emplace(dtype, Value());
  if (!is_new) return weight->second;
  weight->second = Where(is_first_average_, Fill(g_, 1, dtype, {}),
                         Fill(g_, 1 - *options_.ema, dtype, {}));
  if (inputs_.good.builder() != nullptr) {
    const double never = std::numeric_limits<double>::infinity();
    weight->second =
        Where(inputs_.good, weight->second, Fill(g_, never, dtype, {}));
  }
  return weight->second;
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

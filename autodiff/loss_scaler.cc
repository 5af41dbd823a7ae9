#include "autodiff/loss_scaler.h"

#include <limits>

#include "ir/dtype.h"
#include "ir/ops.h"

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

}  // namespace stowage

#include "autodiff/step_scalars.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/ops.h"

namespace stowage {

StepScalar StepScalar::Emit(OpKind op, StepScalar a, StepScalar b) {
  StepScalars* const scalars = a.is_number() ? b.scalars_ : a.scalars_;
  return {scalars, scalars->Emit(op, {scalars->As(a), scalars->As(b)})};
}

StepScalar StepScalar::Emit(OpKind op, StepScalar a) {
  return {a.scalars_, a.scalars_->Emit(op, {a.value_})};
}

StepScalar operator+(StepScalar a, StepScalar b) {
  if (a.Is(0)) return b;
  if (b.Is(0)) return a;
  if (a.is_number() && b.is_number()) return a.number_ + b.number_;
  return StepScalar::Emit(OpKind::kAdd, a, b);
}

StepScalar operator-(StepScalar a, StepScalar b) {
  if (b.Is(0)) return a;
  if (a.is_number() && b.is_number()) return a.number_ - b.number_;
  return StepScalar::Emit(OpKind::kSub, a, b);
}

StepScalar operator*(StepScalar a, StepScalar b) {
  if (a.Is(1)) return b;
  if (b.Is(1)) return a;
  if (a.is_number() && b.is_number()) return a.number_ * b.number_;
  return StepScalar::Emit(OpKind::kMul, a, b);
}

StepScalar operator/(StepScalar a, StepScalar b) {
  if (b.Is(1)) return a;
  if (a.is_number() && b.is_number()) return a.number_ / b.number_;
  return StepScalar::Emit(OpKind::kDiv, a, b);
}

StepScalar Sqrt(StepScalar x) {
  if (x.is_number()) return std::sqrt(x.number_);
  return StepScalar::Emit(OpKind::kSqrt, x);
}

StepScalar Max(StepScalar a, StepScalar b) {
  if (a.is_number() && b.is_number()) return std::max(a.number_, b.number_);
  return StepScalar::Emit(OpKind::kMaximum, a, b);
}

// The logarithm of 0 is -infinity, and e to it 0.
StepScalar Log(StepScalar x) {
  if (x.is_number()) return std::log(x.number_);
  return StepScalar::Emit(OpKind::kLog, x);
}

StepScalar Power(StepScalar base, StepScalar exponent) {
  if (exponent.Is(1)) return base;
  if (base.is_number() && exponent.is_number()) {
    return std::pow(base.number_, exponent.number_);
  }
  return StepScalar::Emit(OpKind::kExp, exponent * Log(base));
}

StepScalar OneMinusPower(StepScalar base, StepScalar exponent) {
  const StepScalar x = exponent * Log(base);
  if (x.is_number()) return -std::expm1(x.number_);
  return 0 - StepScalar::Emit(OpKind::kExpm1, x);
}

Value StepScalars::Emit(OpKind op, std::initializer_list<Value> operands) {
  std::vector<int64_t> ids;
  for (const Value& operand : operands) {
    if (!operand.ok()) return Value();  // after an error of the builder
    ids.push_back(operand.id());
  }
  Value& emitted = emitted_[{op, std::move(ids), dtype_}];
  if (!emitted.ok()) emitted = Apply(op, operands);
  return emitted;
}

Value StepScalars::Converted(Value value, DType dtype) {
  if (!value.ok() || value.dtype() == dtype) return value;
  Value& cast = emitted_[{OpKind::kCast, {value.id()}, dtype}];
  if (!cast.ok()) cast = Cast(value, dtype);
  return cast;
}

StepScalar StepScalars::Of(Value value) {
  return {this, Converted(value, dtype_)};
}

Value StepScalars::As(StepScalar x, DType dtype) {
  if (!x.is_number()) return Converted(x.value_, dtype);
  Value& fill =
      emitted_[{OpKind::kFill, {std::bit_cast<int64_t>(x.number_)}, dtype}];
  if (!fill.ok()) fill = Fill(g_, x.number_, dtype, {});
  return fill;
}

Value StepScalars::IsLess(StepScalar a, StepScalar b) {
  return Emit(OpKind::kLess, {As(a), As(b)});
}

Value StepScalars::IsEqual(StepScalar a, StepScalar b) {
  return Emit(OpKind::kEqual, {As(a), As(b)});
}

StepScalar StepScalars::Choose(Value condition, StepScalar a, StepScalar b) {
  return {this, Emit(OpKind::kWhere, {condition, As(a), As(b)})};
}

}  // namespace stowage

#ifndef STOWAGE_AUTODIFF_STEP_SCALARS_H_
#define STOWAGE_AUTODIFF_STEP_SCALARS_H_

// Scalar arithmetic of optimizer updates: learning rates, bias corrections and other
// coefficients. Numbers that are known when the step is built are folded in double, and equal
// expressions of the step's inputs become one node for all params.
//
//   StepScalars scalars(&g, DType::kF32);
//   const StepScalar step = scalars.Of(inputs.step), lr = scalars.Of(inputs.lr);
//   const StepScalar rate = lr / OneMinusPower(0.9, step);  // Adam's
//   w = Sub(w, Mul(m, rate.As(DType::kF32)));

#include <cstdint>
#include <initializer_list>
#include <map>
#include <tuple>
#include <vector>

#include "ir/builder.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"

namespace stowage {

class StepScalars;

/// A number, or a scalar of the step.
class StepScalar {
 public:
  StepScalar(double number) : number_(number) {}  // NOLINT: as in 2 * x

  bool is_number() const { return scalars_ == nullptr; }
  bool Is(double number) const { return is_number() && number_ == number; }

  friend StepScalar operator+(StepScalar a, StepScalar b);
  friend StepScalar operator-(StepScalar a, StepScalar b);
  friend StepScalar operator*(StepScalar a, StepScalar b);
  friend StepScalar operator/(StepScalar a, StepScalar b);
  friend StepScalar Sqrt(StepScalar x);
  friend StepScalar Max(StepScalar a, StepScalar b);
  friend StepScalar Log(StepScalar x);
  /// base^exponent for a base of at least 0.
  friend StepScalar Power(StepScalar base, StepScalar exponent);
  /// 1 - base^exponent without cancellation, for a base in [0, 1) and an exponent above 0.
  friend StepScalar OneMinusPower(StepScalar base, StepScalar exponent);

 private:
  friend class StepScalars;
  StepScalar(StepScalars* scalars, Value value)
      : scalars_(scalars), value_(value) {}
  /// `op` of operands that are not both numbers.
  static StepScalar Emit(OpKind op, StepScalar a, StepScalar b);
  static StepScalar Emit(OpKind op, StepScalar a);

  StepScalars* scalars_ = nullptr;  // null for a number
  Value value_ = {};
  double number_ = 0;
};

/// The scalars of one step.
class StepScalars {
 public:
  /// For scalars of that type, f32, or f64 where a param is f64. The builder must outlive this.
  StepScalars(GraphBuilder* g, DType dtype) : g_(*g), dtype_(dtype) {}
  StepScalars(const StepScalars&) = delete;
  StepScalars& operator=(const StepScalars&) = delete;

  DType dtype() const { return dtype_; }
  /// The scalar `value` of any number type, converted.
  StepScalar Of(Value value);
  /// As an operand of that type.
  Value As(StepScalar x, DType dtype);

  /// A bool scalar: whether a < b, a = b.
  Value IsLess(StepScalar a, StepScalar b);
  Value IsEqual(StepScalar a, StepScalar b);
  /// a where `condition`, a bool scalar, holds, else b.
  StepScalar Choose(Value condition, StepScalar a, StepScalar b);

 private:
  friend class StepScalar;
  // A node by its op, its operands, and the type of its result; a number by its bits.
  using Key = std::tuple<OpKind, std::vector<int64_t>, DType>;

  Value As(StepScalar x) { return As(x, dtype_); }
  Value Emit(OpKind op, std::initializer_list<Value> operands);
  Value Converted(Value value, DType dtype);

  GraphBuilder& g_;
  const DType dtype_;
  std::map<Key, Value> emitted_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_STEP_SCALARS_H_

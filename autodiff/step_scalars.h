#ifndef STOWAGE_AUTODIFF_STEP_SCALARS_H_
#define STOWAGE_AUTODIFF_STEP_SCALARS_H_

// Provides scalar arithmetic for optimizer updates: learning rates, bias corrections and other
// coefficients. Expressions of constants are computed in double precision when the step is built.
// Equal expressions of the step's inputs become a single node, which the updates of all params
// share.
//
//   StepScalars scalars(&g, DType::kF32);
//   const StepScalar step = scalars.Of(inputs.step), lr = scalars.Of(inputs.lr);
//   const StepScalar rate = lr / OneMinusPower(0.9, step);  // Adam's
//   w = Sub(w, Mul(m, scalars.As(rate, DType::kF32)));

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

/// A constant number, or a scalar that is computed in every step.
class StepScalar {
 public:
  StepScalar(double number) : number_(number) {}  // NOLINT: as in 2 * x

  /// Returns whether this is a constant.
  bool is_number() const { return scalars_ == nullptr; }
  /// Returns whether this is the constant `number`.
  bool Is(double number) const { return is_number() && number_ == number; }

  friend StepScalar operator+(StepScalar a, StepScalar b);
  friend StepScalar operator-(StepScalar a, StepScalar b);
  friend StepScalar operator*(StepScalar a, StepScalar b);
  friend StepScalar operator/(StepScalar a, StepScalar b);
  friend StepScalar Sqrt(StepScalar x);
  friend StepScalar Max(StepScalar a, StepScalar b);
  friend StepScalar Log(StepScalar x);
  /// Returns base^exponent. `base` must not be negative.
  friend StepScalar Power(StepScalar base, StepScalar exponent);
  /// Returns 1 - base^exponent, computed without cancellation. `base` must be in [0, 1), and
  /// `exponent` must be above 0.
  friend StepScalar OneMinusPower(StepScalar base, StepScalar exponent);

 private:
  friend class StepScalars;
  StepScalar(StepScalars* scalars, Value value)
      : scalars_(scalars), value_(value) {}
  /// Emits `op`. At least one operand must not be a constant.
  static StepScalar Emit(OpKind op, StepScalar a, StepScalar b);
  static StepScalar Emit(OpKind op, StepScalar a);

  StepScalars* scalars_ = nullptr;  // null for a constant
  Value value_ = {};
  double number_ = 0;
};

/// The scalars of one step.
class StepScalars {
 public:
  /// Prepares to compute scalars in `dtype`: f32, or f64 if a param of the step is f64. The builder
  /// must outlive this object.
  StepScalars(GraphBuilder* g, DType dtype) : g_(*g), dtype_(dtype) {}
  StepScalars(const StepScalars&) = delete;
  StepScalars& operator=(const StepScalars&) = delete;

  DType dtype() const { return dtype_; }
  /// Returns the scalar value `value`, which may have any numeric type, converted to dtype().
  StepScalar Of(Value value);
  /// Returns `x` as a value of type `dtype`.
  Value As(StepScalar x, DType dtype);

  /// IsLess returns a < b, and IsEqual returns a == b, as bool scalars.
  Value IsLess(StepScalar a, StepScalar b);
  Value IsEqual(StepScalar a, StepScalar b);
  /// Returns `a` if the bool scalar `condition` is true, and `b` otherwise.
  StepScalar Choose(Value condition, StepScalar a, StepScalar b);

 private:
  friend class StepScalar;
  // Identifies a node by its op, its operands and the type of its result. The operand of a fill is
  // the bits of its number.
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

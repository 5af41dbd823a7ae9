#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// The larger or smaller operand gets dy; equal ones half of it each.
void ContributeToChosen(VjpContext& v, Value a_is_chosen) {
  const Value dy = v.cotangent();
  const Value is_tie = Equal(v.input(0), v.input(1));
  const Value half = MulScalar(dy, 0.5);
  const Value zero = Zeros(v.builder(), v.output_type());
  if (v.needs(0)) {
    const Value whole = Where(a_is_chosen, dy, zero);
    v.Contribute(0, Where(is_tie, half, whole));
  }
  if (v.needs(1)) {
    const Value whole = Where(a_is_chosen, zero, dy);
    v.Contribute(1, Where(is_tie, half, whole));
  }
}

// y = a - n b for an integer n: dy and -n dy, with n = (a - y) / b.
void ContributeToModulus(VjpContext& v) {
  const Value dy = v.cotangent();
  v.Contribute(0, dy);
  if (!v.needs(1)) return;
  const Value minus_n = Div(Sub(v.output(), v.input(0)), v.input(1));
  v.Contribute(1, Mul(dy, minus_n));
}

}  // namespace

constinit const Vjp AddVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, v.cotangent());
  v.Contribute(1, v.cotangent());
});

constinit const Vjp SubVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, v.cotangent());
  if (v.needs(1)) v.Contribute(1, Neg(v.cotangent()));
});

constinit const Vjp MulVjp = Differentiable([](VjpContext& v) {
  if (v.needs(0)) v.Contribute(0, Mul(v.cotangent(), v.input(1)));
  if (v.needs(1)) v.Contribute(1, Mul(v.cotangent(), v.input(0)));
});

// dy / b and -dy y / b: the output instead of a.
constinit const Vjp DivVjp = Differentiable([](VjpContext& v) {
  const Value scaled = Div(v.cotangent(), v.input(1));
  v.Contribute(0, scaled);
  if (v.needs(1)) v.Contribute(1, Neg(Mul(scaled, v.output())));
});

// b a^(b-1) and y log a
constinit const Vjp PowVjp = Differentiable([](VjpContext& v) {
  const Value dy = v.cotangent();
  if (v.needs(0)) {
    const Value a = v.input(0);
    const Value b = v.input(1);
    v.Contribute(0, Mul(Mul(dy, b), Pow(a, AddScalar(b, -1))));
  }
  if (v.needs(1)) {
    v.Contribute(1, Mul(Mul(dy, v.output()), Log(v.input(0))));
  }
});

constinit const Vjp MaximumVjp = Differentiable([](VjpContext& v) {
  ContributeToChosen(v, Greater(v.input(0), v.input(1)));
});

constinit const Vjp MinimumVjp = Differentiable(
    [](VjpContext& v) { ContributeToChosen(v, Less(v.input(0), v.input(1))); });

constinit const Vjp RemainderVjp = Differentiable(ContributeToModulus);
constinit const Vjp FmodVjp = Differentiable(ContributeToModulus);

STOWAGE_ZERO_DERIVATIVE(Equal);
STOWAGE_ZERO_DERIVATIVE(NotEqual);
STOWAGE_ZERO_DERIVATIVE(Less);
STOWAGE_ZERO_DERIVATIVE(LessEqual);
STOWAGE_ZERO_DERIVATIVE(Greater);
STOWAGE_ZERO_DERIVATIVE(GreaterEqual);
STOWAGE_ZERO_DERIVATIVE(LogicalAnd);
STOWAGE_ZERO_DERIVATIVE(LogicalOr);

#define STOWAGE_SECOND_DERIVATIVE(kind) \
  STOWAGE_NON_DIFFERENTIABLE(kind, "second derivatives are not provided")
STOWAGE_SECOND_DERIVATIVE(ReluGrad);
STOWAGE_SECOND_DERIVATIVE(SigmoidGrad);
STOWAGE_SECOND_DERIVATIVE(TanhGrad);
STOWAGE_SECOND_DERIVATIVE(SiluGrad);
STOWAGE_SECOND_DERIVATIVE(GeluTanhGrad);
STOWAGE_SECOND_DERIVATIVE(GeluErfGrad);
STOWAGE_SECOND_DERIVATIVE(MishGrad);
STOWAGE_SECOND_DERIVATIVE(HardSwishGrad);
STOWAGE_SECOND_DERIVATIVE(LeakyReluGrad);
STOWAGE_SECOND_DERIVATIVE(EluGrad);
STOWAGE_SECOND_DERIVATIVE(ClampGrad);

}  // namespace stowage

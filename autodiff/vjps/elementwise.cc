#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp NegVjp =
    Differentiable([](VjpContext& v) { v.Contribute(0, Neg(v.cotangent())); });

constinit const Vjp AbsVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Mul(v.cotangent(), Sign(v.input(0))));
});

STOWAGE_ZERO_DERIVATIVE(Sign);

constinit const Vjp ExpVjp = Differentiable(
    [](VjpContext& v) { v.Contribute(0, Mul(v.cotangent(), v.output())); });

constinit const Vjp LogVjp = Differentiable(
    [](VjpContext& v) { v.Contribute(0, Div(v.cotangent(), v.input(0))); });

// 1 / (2 y)
constinit const Vjp SqrtVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Div(MulScalar(v.cotangent(), 0.5), v.output()));
});

// -1/2 y^3
constinit const Vjp RsqrtVjp = Differentiable([](VjpContext& v) {
  const Value y = v.output();
  const Value y3 = Mul(Square(y), y);
  v.Contribute(0, Mul(MulScalar(v.cotangent(), -0.5), y3));
});

constinit const Vjp SquareVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Mul(MulScalar(v.cotangent(), 2), v.input(0)));
});

// -y^2
constinit const Vjp ReciprocalVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Neg(Mul(v.cotangent(), Square(v.output()))));
});

constinit const Vjp SinVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Mul(v.cotangent(), Cos(v.input(0))));
});

constinit const Vjp CosVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Neg(Mul(v.cotangent(), Sin(v.input(0)))));
});

// From the output where that suffices.
constinit const Vjp ReluVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, ReluGrad(v.output(), v.cotangent()));
});

constinit const Vjp SigmoidVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, SigmoidGrad(v.output(), v.cotangent()));
});

constinit const Vjp TanhVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, TanhGrad(v.output(), v.cotangent()));
});

// From the input where it is needed.
constinit const Vjp SiluVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, SiluGrad(v.input(0), v.cotangent()));
});

constinit const Vjp GeluTanhVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, GeluTanhGrad(v.input(0), v.cotangent()));
});

constinit const Vjp GeluErfVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, GeluErfGrad(v.input(0), v.cotangent()));
});

constinit const Vjp Expm1Vjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Mul(v.cotangent(), AddScalar(v.output(), 1)));
});

constinit const Vjp Log1pVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Div(v.cotangent(), AddScalar(v.input(0), 1)));
});

// 2 / sqrt(pi) e^(-x^2)
constinit const Vjp ErfVjp = Differentiable([](VjpContext& v) {
  const Value density = Exp(Neg(Square(v.input(0))));
  v.Contribute(0,
               Mul(MulScalar(v.cotangent(), 1.1283791670955125739), density));
});

// sigmoid(x). From the output it would be 1 - exp(-y), which has no digits left
// where y is small.
constinit const Vjp SoftplusVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Mul(v.cotangent(), Sigmoid(v.input(0))));
});

constinit const Vjp MishVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, MishGrad(v.input(0), v.cotangent()));
});

constinit const Vjp HardSwishVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, HardSwishGrad(v.input(0), v.cotangent()));
});

// From the output: slope, alpha and scale are such that its sign is the input's.
constinit const Vjp LeakyReluVjp = Differentiable([](VjpContext& v) {
  v.Contribute(
      0, Apply(OpKind::kLeakyReluGrad, {v.output(), v.cotangent()}, v.attrs()));
});

constinit const Vjp EluVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0,
               Apply(OpKind::kEluGrad, {v.output(), v.cotangent()}, v.attrs()));
});

constinit const Vjp ClampVjp = Differentiable([](VjpContext& v) {
  v.Contribute(
      0, Apply(OpKind::kClampGrad, {v.output(), v.cotangent()}, v.attrs()));
});

STOWAGE_ZERO_DERIVATIVE(LogicalNot);
STOWAGE_ZERO_DERIVATIVE(Floor);
STOWAGE_ZERO_DERIVATIVE(Ceil);
STOWAGE_ZERO_DERIVATIVE(Round);

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
  if (v.needs(0)) v.Contribute(0, Mul(v.cotangent(), v.factor(1)));
  if (v.needs(1)) v.Contribute(1, Mul(v.cotangent(), v.factor(0)));
});

// dy / b and -dy y / b: the output instead of a.
constinit const Vjp DivVjp = Differentiable([](VjpContext& v) {
  const Value scaled = Div(v.cotangent(), v.input(1));
  v.Contribute(0, scaled);
  if (v.needs(1)) v.Contribute(1, Neg(Mul(scaled, v.output())));
});

// b a^(b-1), and 0 where b is 0; y log a, and 0 where a is 0 and b is not below: the limits
// of both, as in PyTorch.
constinit const Vjp PowVjp = Differentiable([](VjpContext& v) {
  const Value dy = v.cotangent();
  const Value a = v.input(0);
  const Value b = v.input(1);
  const Value zero = Zeros(v.builder(), v.output_type());
  if (v.needs(0)) {
    const Value slope = Mul(Mul(dy, b), Pow(a, AddScalar(b, -1)));
    v.Contribute(0, Where(Equal(b, zero), zero, slope));
  }
  if (v.needs(1)) {
    const Value slope = Mul(Mul(dy, v.output()), Log(a));
    const Value is_zero = LogicalAnd(Equal(a, zero), GreaterEqual(b, zero));
    v.Contribute(1, Where(is_zero, zero, slope));
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

constinit const Vjp WhereVjp = Differentiable([](VjpContext& v) {
  const Value zero = Zeros(v.builder(), v.output_type());
  if (v.needs(1)) {
    v.Contribute(1, Where(v.input(0), v.cotangent(), zero));
  }
  if (v.needs(2)) {
    v.Contribute(2, Where(v.input(0), zero, v.cotangent()));
  }
});

constinit const Vjp CastVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Cast(v.cotangent(), v.input_type(0).dtype));
});

constinit const Vjp GluVjp = Differentiable([](VjpContext& v) {
  const auto activation =
      static_cast<GluActivation>(v.attrs().Int("activation"));
  const GluGrads grads =
      GluGrad(v.input(0), v.input(1), v.cotangent(), activation);
  v.Contribute(0, grads.dgate);
  v.Contribute(1, grads.dup);
});

STOWAGE_NON_DIFFERENTIABLE(GluGrad, "second derivatives are not provided");

}  // namespace stowage

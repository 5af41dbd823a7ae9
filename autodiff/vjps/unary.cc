#include "autodiff/vjp.h"
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

}  // namespace stowage

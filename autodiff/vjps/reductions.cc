#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp ReduceSumVjp = Differentiable([](VjpContext& v) {
  v.Contribute(
      0, Unreduce(v.cotangent(), v.attrs().Ints("axes"), v.input_shape(0)));
});

constinit const Vjp ReduceMeanVjp = Differentiable([](VjpContext& v) {
  const Axes& axes = v.attrs().Ints("axes");
  const Shape& shape = v.input_shape(0);
  const auto count = static_cast<double>(CountAlong(shape, axes));
  // Scaled before it is spread: the smaller tensor.
  v.Contribute(0, Unreduce(MulScalar(v.cotangent(), 1 / count), axes, shape));
});

// Equal maxima share the gradient equally.
constinit const Vjp ReduceMaxVjp = Differentiable([](VjpContext& v) {
  const Axes& axes = v.attrs().Ints("axes");
  const TensorType& type = v.input_type(0);
  const Value is_max =
      Equal(v.input(0), Unreduce(v.output(), axes, type.shape));
  const Value count = ReduceSum(Cast(is_max, type.dtype), axes, /*keep=*/true);
  const Value share = Div(ReshapeTo(v.cotangent(), count.shape()), count);
  v.Contribute(0, Where(is_max, Unreduce(share, axes, type.shape),
                        Zeros(v.builder(), type)));
});

// 2 x dy; dy may be of a wider type than x.
constinit const Vjp SumSquaresVjp = Differentiable([](VjpContext& v) {
  const TensorType& type = v.input_type(0);
  const Value twice = Cast(MulScalar(v.cotangent(), 2), type.dtype);
  v.Contribute(0, Mul(v.input(0), Unreduce(twice, {}, type.shape)));
});

STOWAGE_ZERO_DERIVATIVE(ArgMax);

}  // namespace stowage

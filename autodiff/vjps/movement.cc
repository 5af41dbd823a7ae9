#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"
#include "ir/windows.h"

namespace stowage {

namespace {

// `parts` joined along `axis`; those of size 0 are left out.
Value Join(const std::vector<Value>& parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : Concat(parts, axis);
}

// `x` between `before` and `after` zeros along axis 1 of (outer, n, inner...).
Value PadWithZeros(Value x, int64_t before, int64_t after) {
  std::vector<Value> parts;
  const auto add_zeros = [&](int64_t count) {
    if (count == 0) return;
    TensorType type = x.type();
    type.shape[1] = count;
    parts.push_back(Zeros(*x.builder(), type));
  };
  add_zeros(before);
  parts.push_back(x);
  add_zeros(after);
  return Join(parts, 1);
}

}  // namespace

constinit const Vjp ReshapeVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, ReshapeTo(v.cotangent(), v.input_shape(0)));
});

constinit const Vjp PermuteVjp = Differentiable([](VjpContext& v) {
  const Axes& order = v.attrs().Ints("order");
  Axes inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  v.Contribute(0, Permute(v.cotangent(), inverse));
});

constinit const Vjp BroadcastVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, SumTo(v.cotangent(), v.input_shape(0)));
});

// dy between zeros. A step above 1 is undone by a dimension of its own: each
// element of dy opens a group of `step`, the rest of which is zero.
constinit const Vjp SliceVjp = Differentiable([](VjpContext& v) {
  const int axis = static_cast<int>(v.attrs().Int("axis"));
  const int64_t start = v.attrs().Int("start");
  const Shape& shape = v.input_shape(0);
  int64_t outer = 1;
  int64_t inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const int64_t size = v.output_shape()[axis];
  // A step past the end leaves one element: no step is taken.
  const int64_t step = size == 1 ? 1 : v.attrs().Int("step");
  const int64_t rest =
      shape[axis] - start;  // the length that the padded dy must cover

  Value dx = ReshapeTo(v.cotangent(), {outer, size, inner});
  if (step > 1) {
    // outer * size x 1 x inner -> outer * size x step x inner
    dx = PadWithZeros(ReshapeTo(dx, {outer * size, 1, inner}), 0, step - 1);
    dx = ReshapeTo(dx, {outer, size * step, inner});
    if (size * step > rest) dx = Slice(dx, 1, 0, rest);
  }
  dx = PadWithZeros(dx, start, rest - dx.dim(1));  // outer x dim x inner
  v.Contribute(0, ReshapeTo(dx, shape));
});

constinit const Vjp SplitVjp = Differentiable([](VjpContext& v) {
  std::vector<Value> pieces;
  for (int r = 0; r < v.num_results(); ++r) {
    pieces.push_back(v.has_cotangent(r) ? v.cotangent(r)
                                        : Zeros(v.builder(), v.output_type(r)));
  }
  v.Contribute(0, Join(pieces, v.attrs().Int("axis")));
});

STOWAGE_ZERO_DERIVATIVE(StopGradient);

constinit const Vjp CopyVjp =
    Differentiable([](VjpContext& v) { v.Contribute(0, v.cotangent()); });

// A graph is differentiated before it is planned, which decides where values are placed.
STOWAGE_NON_DIFFERENTIABLE(Reload, "offloading comes after differentiation");
STOWAGE_NON_DIFFERENTIABLE(Offload, "offloading comes after differentiation");
STOWAGE_NON_DIFFERENTIABLE(OffloadUpdate, "it overwrites what it reads");

constinit const Vjp ConcatVjp = Differentiable([](VjpContext& v) {
  const int64_t axis = v.attrs().Int("axis");
  int64_t start = 0;
  for (int i = 0; i < v.num_inputs(); ++i) {
    const int64_t end = start + v.input_shape(i)[static_cast<int>(axis)];
    if (v.needs(i)) {
      v.Contribute(i, Slice(v.cotangent(), axis, start, end));
    }
    start = end;
  }
});

// The padding gets no gradient; the rest is a view.
constinit const Vjp PadVjp = Differentiable([](VjpContext& v) {
  const Axes& before = v.attrs().Ints("before");
  const Axes& after = v.attrs().Ints("after");
  Value dy = v.cotangent();
  if (static_cast<PadMode>(v.attrs().Int("mode")) != PadMode::kConstant) {
    return v.Contribute(0, Apply(OpKind::kPadGrad, {dy},
                                 {{"before", before},
                                  {"after", after},
                                  {"mode", v.attrs().Int("mode")}}));
  }
  for (int i = 0; i < dy.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (before[at] == 0 && after[at] == 0) continue;
    dy = Slice(dy, i, before[at], dy.dim(i) - after[at]);
  }
  v.Contribute(0, dy);
});

STOWAGE_NON_DIFFERENTIABLE(PadGrad, "second derivatives are not provided");

}  // namespace stowage

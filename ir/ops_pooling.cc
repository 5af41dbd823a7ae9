// The functions of ir/ops.h for the family `pooling`.

#include <cstddef>
#include <string>
#include <utility>

#include "base/strings.h"
#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// The numbers of padding before each dimension, or after each.
Axes Half(const Axes& both, bool after) {
  const auto middle = both.begin() + static_cast<int64_t>(both.size() / 2);
  return after ? Axes(middle, both.end()) : Axes(both.begin(), middle);
}

int SpatialRank(Value x) { return x.ok() ? x.rank() - 2 : 0; }

Attrs WindowAttrs(Value x, const PoolWindow& window) {
  const int dimensions = SpatialRank(x);
  const Axes padding = window.padding.BothSides(dimensions);
  const bool steps = window.stride.values() != Axes{0};
  const EachDimension& stride = steps ? window.stride : window.kernel;
  return {
      {"kernel", window.kernel.For(dimensions)},
      {"stride", stride.For(dimensions)},
      {"pad_before", Half(padding, /*after=*/false)},
      {"pad_after", Half(padding, /*after=*/true)},
  };
}

// "x" is f32(1, 2, 3)
std::string Describe(Value x) {
  return StrCat(Quoted(x.builder()->info(x).name), " is ", x.type().ToString());
}

}  // namespace

Value MaxPool(Value x, const PoolWindow& window, SourceLoc loc) {
  Attrs attrs = WindowAttrs(x, window);
  attrs.Set("dilation", window.dilation.For(SpatialRank(x)));
  attrs.Set("ceil_mode", int64_t{window.ceil_mode});
  return Apply(OpKind::kMaxPool, {x}, std::move(attrs), loc);
}

Value AvgPool(Value x, const PoolWindow& window, bool count_include_pad,
              SourceLoc loc) {
  for (const int64_t dilation : window.dilation.values()) {
    if (!x.ok() || dilation == 1) continue;
    return x.builder()->Fail(StrCat("[avg_pool] dilation is ", dilation,
                                    "; expected 1: only max_pool dilates"),
                             loc);
  }
  Attrs attrs = WindowAttrs(x, window);
  attrs.Set("ceil_mode", int64_t{window.ceil_mode});
  attrs.Set("count_include_pad", int64_t{count_include_pad});
  return Apply(OpKind::kAvgPool, {x}, std::move(attrs), loc);
}

Value GlobalAvgPool(Value x, SourceLoc loc) {
  if (!x.ok()) return x;
  if (x.rank() < 3) {
    return x.builder()->Fail(
        StrCat("[global_avg_pool] x ", Describe(x),
               "; expected rank at least 3: examples, channels, spatial axes"),
        loc);
  }
  Axes spatial;
  for (int i = 2; i < x.rank(); ++i) spatial.push_back(i);
  return ReduceMean(x, spatial, /*keep=*/true, loc);
}

Value AdaptiveAvgPool(Value x, const Axes& sizes, SourceLoc loc) {
  if (!x.ok()) return x;
  const auto fail = [&](const std::string& message) {
    return x.builder()->Fail("[adaptive_avg_pool] " + message, loc);
  };
  if (x.rank() < 3 || sizes.size() != static_cast<size_t>(x.rank()) - 2) {
    return fail(StrCat("x ", Describe(x), " and there are ", sizes.size(),
                       " sizes; expected one for each spatial axis, of which "
                       "there is at least one"));
  }
  Axes kernel;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t dim = x.dim(static_cast<int>(i) + 2);
    if (sizes[i] < 1 || dim % sizes[i] != 0) {
      return fail(StrCat("axis ", i + 2, " cannot be cut into ", sizes[i],
                         " equal windows: x ", Describe(x),
                         "; expected a divisor of ", dim));
    }
    kernel.push_back(dim / sizes[i]);
  }
  return AvgPool(x, {.kernel = kernel}, /*count_include_pad=*/true, loc);
}

}  // namespace stowage

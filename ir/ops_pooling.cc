// The functions of ir/ops.h for the family `pooling`.

#include <cstddef>
#include <string>
#include <utility>

#include "base/strings.h"
#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// `entries`, or `entry` for each axis that the kernel has one for.
Axes OrAll(const Axes& entries, const PoolWindow& window, int64_t entry) {
  return entries.empty() ? Axes(window.kernel.size(), entry) : entries;
}

Attrs WindowAttrs(const PoolWindow& window) {
  const Axes before = OrAll(window.pad_before, window, 0);
  return {
      {"kernel", window.kernel},
      {"stride", window.stride.empty() ? window.kernel : window.stride},
      {"pad_before", before},
      {"pad_after", window.pad_after.empty() ? before : window.pad_after},
  };
}

// "x" is f32(1, 2, 3)
std::string Describe(Value x) {
  return StrCat(Quoted(x.builder()->info(x).name), " is ", x.type().ToString());
}

}  // namespace

Value MaxPool(Value x, const PoolWindow& window, SourceLoc loc) {
  Attrs attrs = WindowAttrs(window);
  attrs.Set("dilation", OrAll(window.dilation, window, 1));
  attrs.Set("ceil_mode", int64_t{window.ceil_mode});
  return Apply(OpKind::kMaxPool, {x}, std::move(attrs), loc);
}

Value AvgPool(Value x, const PoolWindow& window, bool count_include_pad,
              SourceLoc loc) {
  if (x.ok() && !window.dilation.empty()) {
    return x.builder()->Fail(
        StrCat("[avg_pool] dilation has ", window.dilation.size(),
               " entries; expected none: only max_pool dilates"),
        loc);
  }
  Attrs attrs = WindowAttrs(window);
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
  PoolWindow window;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t dim = x.dim(static_cast<int>(i) + 2);
    if (sizes[i] < 1 || dim % sizes[i] != 0) {
      return fail(StrCat("axis ", i + 2, " cannot be cut into ", sizes[i],
                         " equal windows: x ", Describe(x),
                         "; expected a divisor of ", dim));
    }
    window.kernel.push_back(dim / sizes[i]);
  }
  return AvgPool(x, window, /*count_include_pad=*/true, loc);
}

}  // namespace stowage

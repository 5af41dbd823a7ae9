// The functions of ir/ops.h for images: convolution, pooling, padding, resizing, and moving
// blocks between channels and space.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage {

namespace {

// The padding before each dimension, or after each.
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

// The smallest size from which a convolution returns to `in`, plus `more`; 0, which the op
// refuses, if it does not fit 63 bits.
int64_t SmallestSize(int64_t in, int64_t kernel, int64_t stride,
                     int64_t dilation, int64_t before, int64_t after,
                     int64_t more) {
  std::optional<int64_t> size = CheckedMul(in - 1, stride);
  const auto reach = CheckedMul(kernel - 1, dilation);
  if (size && reach) size = CheckedAdd(*size, *reach);
  for (const int64_t term : {int64_t{1}, more, ~before, ~after, int64_t{2}}) {
    if (size) size = CheckedAdd(*size, term);  // ~n is -n - 1
  }
  return reach ? size.value_or(0) : 0;
}
// "x" is f32(1, 2, 3)
std::string DescribeWindowed(Value x) {
  return StrCat(Quoted(x.builder()->info(x).name), " is ", x.type().ToString());
}

}  // namespace

// --- Convolutions ---

Value Conv(Value x, Value w, const ConvOptions& options, SourceLoc loc) {
  return Apply(OpKind::kConv, {x, w},
               {{"stride", options.stride.For(SpatialRank(x))},
                {"padding", options.padding.BothSides(SpatialRank(x))},
                {"dilation", options.dilation.For(SpatialRank(x))},
                {"groups", options.groups}},
               loc);
}

Value ConvTranspose(Value x, Value w, const ConvTransposeOptions& options,
                    SourceLoc loc) {
  const Axes stride = options.stride.For(SpatialRank(x));
  const Axes padding = options.padding.BothSides(SpatialRank(x));
  const Axes dilation = options.dilation.For(SpatialRank(x));
  const Axes more = options.output_padding.For(SpatialRank(x));
  Axes size = options.size;
  const bool has_more = std::any_of(more.begin(), more.end(),
                                    [](int64_t each) { return each != 0; });
  if (!size.empty() && has_more && x.ok()) {
    return x.builder()->Fail(
        StrCat("[conv_transpose] size is given, and output_padding: x ",
               DescribeWindowed(x), "; expected one of the two"),
        loc);
  }
  // Without, where the op will refuse the rest.
  if (size.empty() && x.ok() && w.ok() && x.rank() > 2 &&
      w.rank() == x.rank()) {
    const auto spatial = static_cast<size_t>(x.rank() - 2);
    if (more.size() != spatial) {
      return x.builder()->Fail(
          StrCat("[conv_transpose] output_padding has ", more.size(),
                 " numbers: x ", DescribeWindowed(x), "; expected ", spatial,
                 ", one for each spatial dimension"),
          loc);
    }
    const bool whole = stride.size() == spatial && dilation.size() == spatial &&
                       padding.size() == 2 * spatial;
    for (size_t i = 0; whole && i < spatial; ++i) {
      const int axis = static_cast<int>(i) + 2;
      size.push_back(SmallestSize(x.dim(axis), w.dim(axis), stride[i],
                                  dilation[i], padding[i], padding[spatial + i],
                                  more[i]));
    }
  }
  return Apply(OpKind::kConvTranspose, {x, w},
               {{"size", std::move(size)},
                {"stride", stride},
                {"padding", padding},
                {"dilation", dilation},
                {"groups", options.groups}},
               loc);
}

Value ConvWeightGrad(Value x, Value dy, const Axes& kernel,
                     const ConvOptions& options, SourceLoc loc) {
  return Apply(OpKind::kConvWeightGrad, {x, dy},
               {{"kernel", kernel},
                {"stride", options.stride.For(SpatialRank(x))},
                {"padding", options.padding.BothSides(SpatialRank(x))},
                {"dilation", options.dilation.For(SpatialRank(x))},
                {"groups", options.groups}},
               loc);
}

// --- Pooling ---

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
        StrCat("[global_avg_pool] x ", DescribeWindowed(x),
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
    return fail(StrCat("x ", DescribeWindowed(x), " and there are ",
                       sizes.size(),
                       " sizes; expected one for each spatial axis, of which "
                       "there is at least one"));
  }
  Axes kernel;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t dim = x.dim(static_cast<int>(i) + 2);
    if (sizes[i] < 1 || dim % sizes[i] != 0) {
      return fail(StrCat("axis ", i + 2, " cannot be cut into ", sizes[i],
                         " equal windows: x ", DescribeWindowed(x),
                         "; expected a divisor of ", dim));
    }
    kernel.push_back(dim / sizes[i]);
  }
  return AvgPool(x, {.kernel = kernel}, /*count_include_pad=*/true, loc);
}

// --- Padding, resizing and blocks ---

namespace {

Value FailImage(std::string_view name, Value x, std::string_view expected,
                SourceLoc loc) {
  return x.builder()->Fail(
      StrCat("[", name, "] x ", Quoted(x.builder()->info(x).name), " is ",
             x.type().ToString(), "; expected ", expected),
      loc);
}

// x (N, C, H, W) with C = block^2 D, in the order (b, b, D) or (D, b, b).
Value BlocksToSpace(std::string_view name, Value x, int64_t block,
                    bool blocks_first, SourceLoc loc) {
  if (!x.ok()) return x;
  constexpr int64_t kLargest = 1 << 15;
  if (x.rank() != 4 || block < 1 || block > kLargest ||
      x.dim(1) % (block * block) != 0) {
    return FailImage(name, x,
                     StrCat("(N, C, H, W), C a multiple of the square of "
                            "the block, ",
                            block, ", which is 1 to ", kLargest),
                     loc);
  }
  const int64_t depth = x.dim(1) / (block * block);
  const int64_t h = x.dim(2);
  const int64_t w = x.dim(3);
  const Value cut =
      blocks_first
          ? Permute(Reshape(x, {x.dim(0), block, block, depth, h, w}, loc),
                    {0, 3, 4, 1, 5, 2}, loc)
          : Permute(Reshape(x, {x.dim(0), depth, block, block, h, w}, loc),
                    {0, 1, 4, 2, 5, 3}, loc);
  return Reshape(cut, {x.dim(0), depth, h * block, w * block}, loc);
}

}  // namespace

Value Pad(Value x, const Axes& before, const Axes& after, PadMode mode,
          double value, SourceLoc loc) {
  return Apply(OpKind::kPad, {x},
               {{"before", before},
                {"after", after},
                {"mode", static_cast<int64_t>(mode)},
                {"value", value}},
               loc);
}

Value Resize(Value x, const Axes& sizes, ResizeMode mode, bool align_corners,
             SourceLoc loc) {
  return Apply(OpKind::kResize, {x},
               {{"sizes", sizes},
                {"mode", static_cast<int64_t>(mode)},
                {"align_corners", int64_t{align_corners}}},
               loc);
}

Value DepthToSpace(Value x, int64_t block, SourceLoc loc) {
  return BlocksToSpace("depth_to_space", x, block, true, loc);
}

Value PixelShuffle(Value x, int64_t block, SourceLoc loc) {
  return BlocksToSpace("pixel_shuffle", x, block, false, loc);
}

Value SpaceToDepth(Value x, int64_t block, SourceLoc loc) {
  if (!x.ok()) return x;
  if (x.rank() != 4 || block < 1 || x.dim(2) % block != 0 ||
      x.dim(3) % block != 0) {
    return FailImage(
        "space_to_depth", x,
        StrCat("(N, C, H, W), H and W multiples of the block, ", block), loc);
  }
  const int64_t n = x.dim(0);
  const int64_t c = x.dim(1);
  const int64_t h = x.dim(2) / block;
  const int64_t w = x.dim(3) / block;
  const Value cut = Permute(Reshape(x, {n, c, h, block, w, block}, loc),
                            {0, 3, 5, 1, 2, 4}, loc);
  return Reshape(cut, {n, block * block * c, h, w}, loc);
}

}  // namespace stowage

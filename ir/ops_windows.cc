// The functions of ir/ops.h whose windows slide along spatial dimensions: those of the
// families `convolution` and `pooling`.

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

// The functions of ir/ops.h that pad, resize and rearrange images.

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

// The functions of ir/ops.h that work along an axis, count, mask and draw numbers.

namespace {

// A negative axis counted from the end; others stay as they are, for the op to name.
int64_t FromFront(Value x, int64_t axis) {
  if (!x.ok() || axis >= 0 || axis + x.rank() < 0) return axis;
  return axis + x.rank();
}

// x "h" is f32(2, 3)
std::string DescribeWindowed(std::string_view label, Value x) {
  return StrCat(label, " ", Quoted(x.builder()->info(x).name), " is ",
                x.type().ToString());
}

// x where the place along the last axis, less that along the one before, is at most
// `diagonal`, or at least; 0 elsewhere.
Value Triangle(std::string_view name, Value x, int64_t diagonal, bool lower,
               SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  if (x.rank() < 2) {
    return g.Fail(StrCat("[", name, "] ", DescribeWindowed("x", x),
                         "; expected rank at least 2"),
                  loc);
  }
  const int64_t rows = x.dim(x.rank() - 2);
  const int64_t columns = x.dim(x.rank() - 1);
  // The last column, or first, that each row keeps.
  const Value edge =
      Reshape(Iota(g, DType::kI64, static_cast<double>(diagonal), 1, rows, loc),
              {rows, 1}, loc);
  const Value column = Iota(g, DType::kI64, 0, 1, columns, loc);
  const Value kept =
      lower ? LessEqual(column, edge, loc) : GreaterEqual(column, edge, loc);
  return Where(kept, x, Fill(g, 0, x.dtype(), {}, loc), loc);
}

Value Random(OpKind op, Value seed, Value step, const Shape& shape, DType dtype,
             int64_t id, SourceLoc loc) {
  Axes dims(shape.begin(), shape.end());
  dims.resize(static_cast<size_t>(shape.rank()), 1);
  return Apply(op, {seed, step},
               {{"dtype", dtype}, {"shape", std::move(dims)}, {"id", id}}, loc);
}

}  // namespace

Value Iota(GraphBuilder& g, DType dtype, double start, double step, int64_t n,
           SourceLoc loc) {
  return g.Emit(OpKind::kIota, {},
                {{"dtype", dtype}, {"start", start}, {"step", step}, {"n", n}},
                loc)[0];
}

Value CumSum(Value x, int64_t axis, bool exclusive, bool reverse,
             SourceLoc loc) {
  return Apply(OpKind::kCumSum, {x},
               {{"axis", FromFront(x, axis)},
                {"exclusive", int64_t{exclusive}},
                {"reverse", int64_t{reverse}}},
               loc);
}

Value TakeAlongAxis(Value x, Value indices, int64_t axis, SourceLoc loc) {
  return Apply(OpKind::kTakeAlongAxis, {x, indices},
               {{"axis", FromFront(x, axis)}}, loc);
}

Value PutAdd(Value base, Value indices, Value updates, int64_t axis,
             SourceLoc loc) {
  return Apply(OpKind::kPutAdd, {base, indices, updates},
               {{"axis", FromFront(base, axis)}}, loc);
}

TopKResults TopK(Value x, int64_t k, bool descending, SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kTopK, std::vector{x},
               {{"k", k}, {"descending", int64_t{descending}}}, loc);
  return {results[0], results[1]};
}

TopKResults Sort(Value x, bool descending, SourceLoc loc) {
  const bool has_axis = x.ok() && x.rank() > 0;  // the op refuses others
  return TopK(x, has_axis ? x.dim(x.rank() - 1) : 1, descending, loc);
}

Value OneHot(Value indices, int64_t depth, DType dtype, SourceLoc loc) {
  if (!indices.ok()) return indices;
  GraphBuilder& g = *indices.builder();
  if (!IsIndex(indices.dtype())) {
    return g.Fail(StrCat("[one_hot] ", DescribeWindowed("indices", indices),
                         "; expected i32 or i64"),
                  loc);
  }
  Shape spread = indices.shape();
  spread.push_back(1);
  const Value places = Iota(g, indices.dtype(), 0, 1, depth, loc);
  return Cast(Equal(Reshape(indices, spread, loc), places, loc), dtype, loc);
}

Value Tril(Value x, int64_t diagonal, SourceLoc loc) {
  return Triangle("tril", x, diagonal, /*lower=*/true, loc);
}

Value Triu(Value x, int64_t diagonal, SourceLoc loc) {
  return Triangle("triu", x, diagonal, /*lower=*/false, loc);
}

// A new axis before each repeated one, broadcast, and one copy.
Value Tile(Value x, const Axes& repeats, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  if (static_cast<int>(repeats.size()) != x.rank()) {
    return g.Fail(StrCat("[tile] there are ", repeats.size(),
                         " repeats: ", DescribeWindowed("x", x), "; expected ",
                         x.rank(), ", one for each axis"),
                  loc);
  }
  Shape narrow, wide;
  bool continues = false;  // the last dimension is one that is not repeated
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t times = repeats[static_cast<size_t>(i)];
    if (times < 1) {
      return g.Fail(StrCat("[tile] repeats is ", times, " along axis ", i,
                           "; expected at least 1"),
                    loc);
    }
    if (times > 1) {
      narrow.push_back(1);
      wide.push_back(times);
    }
    if (times > 1 || !continues) {
      narrow.push_back(x.dim(i));
      wide.push_back(x.dim(i));
    } else {
      narrow[narrow.rank() - 1] *= x.dim(i);
      wide[wide.rank() - 1] *= x.dim(i);
    }
    continues = true;
  }
  if (narrow.rank() > kMaxRank) {
    return g.Fail(
        StrCat("[tile] takes ", narrow.rank(),
               " axes on the way, with one more "
               "for each that is repeated: ",
               DescribeWindowed("x", x), "; expected at most ", kMaxRank),
        loc);
  }
  const Value spread = BroadcastTo(Reshape(x, narrow, loc), wide, loc);
  if (!spread.ok()) return spread;  // too large
  Shape shape = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    shape[i] *= repeats[static_cast<size_t>(i)];
  }
  return Reshape(spread, shape, loc);
}

Value RandomUniform(Value seed, Value step, const Shape& shape, DType dtype,
                    int64_t id, SourceLoc loc) {
  return Random(OpKind::kRandomUniform, seed, step, shape, dtype, id, loc);
}

Value RandomNormal(Value seed, Value step, const Shape& shape, DType dtype,
                   int64_t id, SourceLoc loc) {
  return Random(OpKind::kRandomNormal, seed, step, shape, dtype, id, loc);
}

}  // namespace stowage

// Resize and Upsample, by the IR's Resize if it has the mode, else, along each axis, by a matmul
// with a constant matrix of weights or a gather; and GridSample, by weighted gathers.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/ops.h"
#include "onnx/ops.h"

namespace stowage::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

// The maximum size of the matrix of an axis.
constexpr int64_t kMaxWeights = int64_t{1} << 24;

// The attributes of a Resize node.
struct ResizeWay {
  std::string mode, place, nearest;
  double cubic = -0.75;
  bool exclude_outside = false, antialias = false;
  double beyond = 0;  // the value outside of the region
};

// An axis that is resized or cropped.
struct ResizedAxis {
  int axis = 0;
  int64_t from = 0, to = 0;
  double scale = 1;
  double start = 0, end = 1;  // of the region, as shares of the axis

  // The dimension times its scale; the size is its integer part.
  double Exact() const { return static_cast<double>(from) * scale; }
  bool IsWhole() const {
    return std::abs(Exact() - static_cast<double>(to)) <= 1e-6;
  }
};

Status SetSizes(ImportedNode& node, const Ints& sizes,
                std::vector<ResizedAxis>& axes) {
  if (sizes.size() != axes.size()) {
    return node.Wrong(
        StrCat("has ", sizes.size(), " sizes for ", axes.size(), " axes"));
  }
  const std::string policy = node.Text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" &&
      policy != "not_smaller") {
    return node.Wrong(StrCat("keeps an aspect ratio by ", Quoted(policy)));
  }
  std::optional<double> common;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (sizes[k] < 1 || sizes[k] > (int64_t{1} << 40) || axes[k].from < 1) {
      return node.Wrong(
          StrCat("resizes an axis of ", axes[k].from, " to ", sizes[k]));
    }
    const double scale =
        static_cast<double>(sizes[k]) / static_cast<double>(axes[k].from);
    axes[k].to = sizes[k];
    axes[k].scale = scale;
    common = !common                  ? scale
             : policy == "not_larger" ? std::min(*common, scale)
                                      : std::max(*common, scale);
  }
  if (policy == "stretch") return {};
  for (ResizedAxis& axis : axes) {
    axis.scale = *common;
    axis.to = std::max<int64_t>(
        1, static_cast<int64_t>(
               std::floor(*common * static_cast<double>(axis.from) + 0.5)));
  }
  return {};
}

Status SetScales(ImportedNode& node, const Reals& scales,
                 std::vector<ResizedAxis>& axes) {
  if (scales.size() != axes.size()) {
    return node.Wrong(
        StrCat("has ", scales.size(), " scales for ", axes.size(), " axes"));
  }
  for (size_t k = 0; k < axes.size(); ++k) {
    const double exact = static_cast<double>(axes[k].from) * scales[k];
    if (!(exact >= 1 && exact < 0x1p40)) {
      return node.Wrong(StrCat("scales axis ", axes[k].axis, " of ",
                               node.ShapeOf(0).ToString(), " by ", scales[k]));
    }
    axes[k].scale = scales[k];
    axes[k].to = static_cast<int64_t>(std::floor(exact + 1e-6));
  }
  return {};
}

Status SetRegions(ImportedNode& node, std::vector<ResizedAxis>& axes) {
  STOWAGE_ASSIGN_OR_RETURN(const Reals region, node.Reals(1, "region"));
  if (region.size() != 2 * axes.size()) {
    return node.Wrong(StrCat("has ", region.size(), " bounds of a region for ",
                             axes.size(), " axes"));
  }
  for (const double bound : region) {
    if (!std::isfinite(bound)) {
      return node.Wrong(StrCat("has a region that is bounded by ", bound));
    }
  }
  for (size_t k = 0; k < axes.size(); ++k) {
    axes[k].start = region[k];
    axes[k].end = region[axes.size() + k];
  }
  return {};
}

// The resized axes, from operands `scales` and `sizes`, -1 if it has none.
Result<std::vector<ResizedAxis>> AxesOf(ImportedNode& node, int scales,
                                        int sizes) {
  const Shape& x = node.ShapeOf(0);
  Ints named(static_cast<size_t>(x.rank()));
  std::iota(named.begin(), named.end(), 0);
  if (node.Find("axes")) named = node.IntList("axes");
  std::vector<ResizedAxis> axes;
  for (const int64_t name : named) {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(name, x.rank()));
    axes.push_back(
        {.axis = static_cast<int>(axis), .from = x[static_cast<int>(axis)]});
  }
  if (sizes >= 0 && node.Has(sizes)) {
    STOWAGE_ASSIGN_OR_RETURN(const Ints given, node.Ints(sizes, "sizes"));
    STOWAGE_RETURN_IF_ERROR(SetSizes(node, given, axes));
    return axes;
  }
  Reals given = node.FloatList("scales");
  if (given.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(given, node.Reals(scales, "scales"));
  }
  STOWAGE_RETURN_IF_ERROR(SetScales(node, given, axes));
  return axes;
}

// The position in the operand of element `at` of the result, in ONNX Runtime's order of
// operations. As in PyTorch and ONNX Runtime, corners are those of the rounded size; ONNX's
// reference uses the size times the scale.
template <typename Real>
Real PlaceOf(const ResizeWay& way, const ResizedAxis& axis, int64_t at) {
  const auto x = static_cast<Real>(at);
  const auto scale = static_cast<Real>(axis.scale);
  const auto from = static_cast<Real>(axis.from);
  const auto to = static_cast<Real>(axis.to);
  const auto half = static_cast<Real>(0.5);
  if (way.place == "asymmetric") return x / scale;
  if (way.place == "tf_half_pixel_for_nn") return (x + half) / scale;
  if (way.place == "align_corners") {
    return axis.to == 1 ? 0 : x * (from - 1) / (to - 1);
  }
  if (way.place == "tf_crop_and_resize") {
    const auto start = static_cast<Real>(axis.start);
    const auto end = static_cast<Real>(axis.end);
    return axis.to == 1
               ? half * (start + end) * (from - 1)
               : start * (from - 1) + x * (end - start) * (from - 1) / (to - 1);
  }
  if (way.place == "pytorch_half_pixel" && axis.to == 1) return 0;
  Real offset = 0;
  if (way.place == "half_pixel_symmetric") {
    offset = from / 2 * (1 - to / (scale * from));
  }
  return offset + (x + half) / scale - half;
}

double Rounded(const ResizeWay& way, double place) {
  if (way.nearest == "floor") return std::floor(place);
  if (way.nearest == "ceil") return std::ceil(place);
  if (way.nearest == "round_prefer_ceil") return std::floor(place + 0.5);
  return std::ceil(place - 0.5);
}

// Keys's cubic kernel with parameter a.
double Cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// The weights of all elements of the operand for the one at `place`: a kernel, widened for
// antialiasing, in which elements beyond the edge are clamped or excluded.
Reals WeightsAt(const ResizeWay& way, const ResizedAxis& axis, double place) {
  const bool cubic = way.mode == "cubic";
  const double coarse = way.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double reach = (cubic ? 2 : 1) / coarse;
  Reals weights(static_cast<size_t>(axis.from), 0.0);
  double sum = 0;
  for (double at = std::floor(place - reach); at <= place + reach; ++at) {
    const double distance = (at - place) * coarse;
    const double weight = cubic ? Cubic(way.cubic, distance)
                                : std::max(0.0, 1 - std::abs(distance));
    const auto last = static_cast<double>(axis.from - 1);
    if (way.exclude_outside && (at < 0 || at > last)) continue;
    sum += weight;
    weights[static_cast<size_t>(std::clamp(at, 0.0, last))] += weight;
  }
  if (sum != 0) {
    for (double& weight : weights) weight /= sum;
  }
  return weights;
}

// x multiplied by a matrix (from, to) along an axis.
Value Mixed(Value x, const ResizedAxis& axis, const Reals& matrix) {
  const Array array = ArrayOf(x.dtype(), {axis.from, axis.to}, matrix);
  const Value w =
      Constant(*x.builder(), array.type.dtype, array.type.shape, array.data());
  if (axis.axis == x.rank() - 1) return MatMul(x, w);
  const Axes order = SwappedWithLast(x.rank(), axis.axis);
  return Permute(MatMul(Permute(x, order), w), order);
}

// x with `beyond` at the positions of the axis that are not `inside`.
Value Bounded(Value x, const ResizedAxis& axis, const Ints& inside,
              double beyond) {
  Shape shape = {axis.to};
  for (int i = axis.axis + 1; i < x.rank(); ++i) shape.push_back(1);
  const Array array = ArrayOf(DType::kBool, shape, inside);
  const Value mask =
      Constant(*x.builder(), array.type.dtype, array.type.shape, array.data());
  return Where(mask, x, Like(x, beyond));
}

Result<Value> ResizedAlong(ImportedNode& node, const ResizeWay& way,
                           const ResizedAxis& axis, Value x) {
  if (!x.ok()) return x;
  const bool is_nearest = way.mode == "nearest";
  if (axis.to > kMaxWeights ||
      (!is_nearest && axis.from > kMaxWeights / axis.to)) {
    return node.Unsupported(StrCat("mixes ", axis.from, " elements into ",
                                   axis.to, "; at most ", kMaxWeights,
                                   " weights can be"));
  }
  Ints places, inside;
  Reals matrix(is_nearest ? 0 : static_cast<size_t>(axis.from * axis.to));
  const auto last = static_cast<double>(axis.from - 1);
  for (int64_t i = 0; i < axis.to; ++i) {
    // Near integers the rounding error of floats decides the element.
    const double place = is_nearest ? double{PlaceOf<float>(way, axis, i)}
                                    : PlaceOf<double>(way, axis, i);
    inside.push_back(place >= 0 && place <= last);
    if (is_nearest) {
      places.push_back(
          static_cast<int64_t>(std::clamp(Rounded(way, place), 0.0, last)));
      continue;
    }
    const Reals weights =
        WeightsAt(way, axis, std::clamp(place, -2 - last, 2 * last + 3));
    for (int64_t k = 0; k < axis.from; ++k) {
      matrix[static_cast<size_t>(k * axis.to + i)] =
          weights[static_cast<size_t>(k)];
    }
  }
  if (is_nearest) {
    x = TakeAt(x, axis.axis, places);
  } else {
    x = Mixed(x, axis, matrix);
  }
  const bool bounded =
      way.place == "tf_crop_and_resize" &&
      std::find(inside.begin(), inside.end(), 0) != inside.end();
  return bounded && x.ok() ? Bounded(x, axis, inside, way.beyond) : x;
}

// The Resize op of the IR, if it has this mode.
std::optional<Value> AsOneOp(ImportedNode& node, const ResizeWay& way,
                             const std::vector<ResizedAxis>& axes) {
  const Shape& x = node.ShapeOf(0);
  Axes sizes;
  for (int i = 2; i < x.rank(); ++i) sizes.push_back(x[i]);
  bool repeats = true;
  for (const ResizedAxis& axis : axes) {
    if (axis.axis < 2 && axis.from != axis.to) return {};
    if (!axis.IsWhole() && way.place != "align_corners") return {};
    if (axis.to % axis.from != 0) repeats = false;
    if (axis.axis >= 2) sizes[static_cast<size_t>(axis.axis - 2)] = axis.to;
  }
  if (sizes.empty() || sizes.size() > 3 || way.antialias ||
      way.exclude_outside || !IsFloat(node.Type(0).dtype)) {
    return {};
  }
  const bool half = way.place == "half_pixel" ||
                    way.place == "half_pixel_symmetric" ||
                    way.place == "pytorch_half_pixel";
  if (way.mode == "nearest") {
    // For integer factors, rounding half-pixel positions selects the same element.
    const bool same =
        (way.place == "asymmetric" && way.nearest == "floor") ||
        (repeats && half && way.nearest.starts_with("round_prefer"));
    if (!same) return {};
    return Resize(node.In(0), sizes, ResizeMode::kNearest);
  }
  if (way.mode != "linear") return {};
  if (way.place == "align_corners") {
    return Resize(node.In(0), sizes, ResizeMode::kLinear, true);
  }
  const bool to_one = std::find(sizes.begin(), sizes.end(), 1) != sizes.end();
  if (!half || (way.place == "pytorch_half_pixel" && to_one)) return {};
  return Resize(node.In(0), sizes, ResizeMode::kLinear, false);
}

Result<Values> Resized(ImportedNode& node, const ResizeWay& way,
                       const std::vector<ResizedAxis>& axes) {
  if (way.mode != "nearest" && way.mode != "linear" && way.mode != "cubic") {
    return node.Wrong(StrCat("resizes by ", Quoted(way.mode),
                             "; expected nearest, linear or cubic"));
  }
  if (way.mode != "nearest" && !IsFloat(node.Type(0).dtype)) {
    return node.Unsupported(StrCat("mixes elements of ",
                                   DTypeName(node.Type(0).dtype),
                                   "; expected floats"));
  }
  if (const std::optional<Value> whole = AsOneOp(node, way, axes)) {
    return Values{*whole};
  }
  Value x = node.In(0);
  for (const ResizedAxis& axis : axes) {
    const bool crops = way.place == "tf_crop_and_resize";
    if (axis.from == axis.to && axis.scale == 1 && !crops) continue;
    STOWAGE_ASSIGN_OR_RETURN(x, ResizedAlong(node, way, axis, x));
  }
  return Values{x};
}

}  // namespace

Result<Values> ConvertResize(ImportedNode& node) {
  const bool first = node.version() < 11;
  const ResizeWay way{
      .mode = node.Text("mode", "nearest"),
      .place = node.Text("coordinate_transformation_mode",
                         first ? "asymmetric" : "half_pixel"),
      .nearest =
          node.Text("nearest_mode", first ? "floor" : "round_prefer_floor"),
      .cubic = node.Float("cubic_coeff_a", -0.75),
      .exclude_outside = node.Int("exclude_outside", 0) != 0,
      .antialias = node.Int("antialias", 0) != 0,
      .beyond = node.Float("extrapolation_value", 0)};
  constexpr std::string_view kPlaces[] = {
      "half_pixel",        "half_pixel_symmetric", "pytorch_half_pixel",
      "align_corners",     "asymmetric",           "tf_half_pixel_for_nn",
      "tf_crop_and_resize"};
  if (std::find(std::begin(kPlaces), std::end(kPlaces), way.place) ==
      std::end(kPlaces)) {
    return node.Wrong(StrCat("finds elements by ", Quoted(way.place)));
  }
  STOWAGE_ASSIGN_OR_RETURN(std::vector<ResizedAxis> axes,
                           AxesOf(node, first ? 1 : 2, first ? -1 : 3));
  if (way.place == "tf_crop_and_resize") {
    STOWAGE_RETURN_IF_ERROR(SetRegions(node, axes));
  }
  return Resized(node, way, axes);
}

Result<Values> ConvertUpsample(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<ResizedAxis> axes,
                           AxesOf(node, 1, -1));
  return Resized(node,
                 {.mode = node.Text("mode", "nearest"),
                  .place = "asymmetric",
                  .nearest = "floor"},
                 axes);
}

// --- GridSample ---------------------------------------------------------------

namespace {

// The parameter of Keys's cubic kernel.
constexpr double kCubic = -0.75;

struct SampleWay {
  std::string mode, padding;
  bool align_corners = false;
};

// A neighbour of each sampling position along one axis, and its weight.
struct Tap {
  Value index;   // as a float
  Value weight;  // inert: 1
};

// x reflected at `low` and `high` into the range between them.
Value Mirrored(Value x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return MulScalar(x, 0);
  const Value away = Remainder(Abs(AddScalar(x, -low)), Like(x, 2 * range));
  const Value folded = Where(Greater(away, Like(x, range)),
                             AddScalar(Neg(away), 2 * range), away);
  return AddScalar(folded, low);
}

// The bounds of reflection.
double LowOf(const SampleWay& way) { return way.align_corners ? 0 : -0.5; }
double HighOf(const SampleWay& way, int64_t size) {
  return static_cast<double>(size) - (way.align_corners ? 1 : 0.5);
}

// Converts positions in [-1, 1] to an axis of `size`.
Value PlacesOf(const SampleWay& way, Value grid, int64_t size) {
  const auto count = static_cast<double>(size);
  const Value place =
      way.align_corners
          ? MulScalar(AddScalar(grid, 1), (count - 1) / 2)
          : AddScalar(MulScalar(AddScalar(grid, 1), count / 2), -0.5);
  if (way.padding == "border") return Clamp(place, 0, count - 1);
  if (way.padding == "reflection") {
    return Mirrored(place, LowOf(way), HighOf(way, size));
  }
  return place;
}

// The weights of four elements for the position at fraction `t` between the second and third.
std::vector<Value> CubicWeights(Value t) {
  const auto near = [](Value x) {  // up to 1
    return AddScalar(
        Mul(Square(x), AddScalar(MulScalar(x, kCubic + 2), -(kCubic + 3))), 1);
  };
  const auto far = [](Value x) {  // from 1 to 2
    const Value once = AddScalar(MulScalar(x, kCubic), -5 * kCubic);
    const Value twice = AddScalar(Mul(once, x), 8 * kCubic);
    return AddScalar(Mul(twice, x), -4 * kCubic);
  };
  const Value rest = AddScalar(Neg(t), 1);
  return {far(AddScalar(t, 1)), near(t), near(rest), far(AddScalar(rest, 1))};
}

// The neighbours along one axis, with indices clamped to it; padding has weight 0.
std::vector<Tap> TapsOf(const SampleWay& way, Value place, int64_t size) {
  std::vector<Tap> taps;
  if (way.mode == "nearest") {
    taps.push_back({Round(place), {}});
  } else {
    const Value low = Floor(place);
    const Value t = Sub(place, low);
    if (way.mode == "cubic") {
      const std::vector<Value> weights = CubicWeights(t);
      for (int i = 0; i < 4; ++i) {
        taps.push_back(
            {AddScalar(low, i - 1), weights[static_cast<size_t>(i)]});
      }
    } else {
      taps.push_back({low, AddScalar(Neg(t), 1)});
      taps.push_back({AddScalar(low, 1), t});
    }
  }
  const auto last = static_cast<double>(size - 1);
  for (Tap& tap : taps) {
    if (way.padding == "zeros") {
      const Value inside =
          LogicalAnd(GreaterEqual(tap.index, Like(tap.index, 0)),
                     LessEqual(tap.index, Like(tap.index, last)));
      tap.weight = tap.weight.ok()
                       ? Where(inside, tap.weight, Like(tap.weight, 0))
                       : Cast(inside, tap.index.dtype());
    } else if (way.padding == "reflection") {
      tap.index = Mirrored(tap.index, LowOf(way), HighOf(way, size));
    }
    tap.index = Clamp(tap.index, 0, last);
  }
  return taps;
}

// The weighted sum over the neighbours of all axes from `axis` on; `index` and `weight` are
// those of the earlier axes.
Value Gathered(Value x, const Shape& sizes,
               const std::vector<std::vector<Tap>>& taps, size_t axis,
               std::optional<Value> index, std::optional<Value> weight) {
  if (axis == taps.size()) {
    const Shape& to = index->shape();
    const Value spread = BroadcastTo(*index, {x.dim(0), x.dim(1), to.back()});
    const Value taken = TakeAlongAxis(x, spread, 2);
    return weight ? Mul(taken, Cast(*weight, x.dtype())) : taken;
  }
  std::optional<Value> sum;
  for (const Tap& tap : taps[axis]) {
    const Value at = Cast(tap.index, DType::kI64);
    const auto size = static_cast<double>(sizes[static_cast<int>(axis) + 2]);
    const Value next = index ? Add(Mul(*index, Like(at, size)), at) : at;
    std::optional<Value> both = weight;
    if (tap.weight.ok()) both = weight ? Mul(*weight, tap.weight) : tap.weight;
    const Value part = Gathered(x, sizes, taps, axis + 1, next, both);
    if (!part.ok()) return part;
    sum = sum ? Add(*sum, part) : part;
  }
  return *sum;
}

}  // namespace

Result<Values> ConvertGridSample(ImportedNode& node) {
  const Shape& x = node.ShapeOf(0);
  const Shape& grid = node.ShapeOf(1);
  const int count = x.rank() - 2;
  if (count < 1 || count > 3 || grid.rank() != x.rank() ||
      grid.back() != count || grid[0] != x[0]) {
    return node.Wrong(StrCat("samples ", x.ToString(), " at places ",
                             grid.ToString(),
                             "; expected 1 to 3 spatial dimensions and a place "
                             "in them for each element"));
  }
  SampleWay way{.mode = node.Text("mode", "linear"),
                .padding = node.Text("padding_mode", "zeros"),
                .align_corners = node.Int("align_corners", 0) != 0};
  // The names before operator set 20.
  if (way.mode == "bilinear") way.mode = "linear";
  if (way.mode == "bicubic") way.mode = "cubic";
  if (way.mode != "linear" && way.mode != "cubic" && way.mode != "nearest") {
    return node.Wrong(StrCat("samples by ", Quoted(way.mode),
                             "; expected linear, cubic or nearest"));
  }
  if (way.padding != "zeros" && way.padding != "border" &&
      way.padding != "reflection") {
    return node.Wrong(StrCat("pads by ", Quoted(way.padding),
                             "; expected zeros, border or reflection"));
  }
  int64_t places = 1, elements = 1;
  Shape to = {x[0], x[1]};
  for (int i = 1; i <= count; ++i) {
    places *= grid[i];
    elements *= x[i + 1];
    to.push_back(grid[i]);
  }
  const Value given = node.In(1);
  std::vector<std::vector<Tap>> taps;
  for (int axis = 0; axis < count; ++axis) {
    // A position has the last axis first.
    const int64_t at = count - 1 - axis;
    const Value along =
        Reshape(Slice(given, -1, at, at + 1), {x[0], 1, places});
    if (!along.ok()) return Values{along};
    taps.push_back(TapsOf(way, PlacesOf(way, along, x[axis + 2]), x[axis + 2]));
  }
  const Value flat = Reshape(node.In(0), {x[0], x[1], elements});
  if (!flat.ok()) return Values{flat};
  return Values{Reshape(Gathered(flat, x, taps, 0, {}, {}), to)};
}

}  // namespace stowage::onnx

// Elements at places that a step computes, by gathering: of neighbours, each with a weight.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/ops.h"
#include "onnx/ops.h"

namespace stowage::onnx {
namespace {

// Of Keys's kernel.
constexpr double kCubic = -0.75;

struct SampleWay {
  std::string mode, padding;
  bool align_corners = false;
};

// One neighbour of each place along one axis: which it is, and its weight.
struct Tap {
  Value index;   // as a float
  Value weight;  // inert where it is 1
};

// x mirrored at `low` and `high` until it lies between them.
Value Mirrored(Value x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return MulScalar(x, 0);
  const Value away = Remainder(Abs(AddScalar(x, -low)), Like(x, 2 * range));
  const Value folded = Where(Greater(away, Like(x, range)),
                             AddScalar(Neg(away), 2 * range), away);
  return AddScalar(folded, low);
}

// The bounds that places are mirrored at.
double LowOf(const SampleWay& way) { return way.align_corners ? 0 : -0.5; }
double HighOf(const SampleWay& way, int64_t size) {
  return static_cast<double>(size) - (way.align_corners ? 1 : 0.5);
}

// Where along an axis of `size` places from -1 to 1 lie.
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

// The weights of the four elements around `t` of the way from the second to the third.
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

// The neighbours along one axis, their indices within it, those of zeros' weights 0.
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

// What the neighbours of all axes from `axis` on add up to; `index` and `weight` are
// those of the axes before.
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
  // The names of operator sets before 20.
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
    // A place names the last axis first.
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

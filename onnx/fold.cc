#include "onnx/fold.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "base/strings.h"
#include "formats/array.h"
#include "ir/tensor_type.h"
#include "onnx/shapes.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Arrays = std::vector<Array>;
using Folded = Result<std::optional<Arrays>>;

Folded One(Array array) { return std::optional(Arrays{std::move(array)}); }
Folded Left() { return std::optional<Arrays>(); }

Array IntArray(const Ints& ints) {
  return ArrayOf(DType::kI64, {static_cast<int64_t>(ints.size())}, ints);
}

// The elements of `array` at these indices, in a new shape.
Array Picked(const Array& array, const Shape& shape, const Ints& places) {
  const auto size = static_cast<size_t>(SizeOf(array.type.dtype));
  Array picked{{array.type.dtype, shape}, {}};
  picked.bytes.reserve(places.size() * size);
  for (const int64_t place : places) {
    picked.bytes.append(array.bytes, static_cast<size_t>(place) * size, size);
  }
  return picked;
}

// The indices in the source of the elements of `to`, by the source's strides along the axes of
// `to` and the first index.
Ints Places(const Shape& to, const Ints& strides, int64_t first = 0) {
  Ints places;
  const int64_t count = to.num_elements();
  places.reserve(static_cast<size_t>(count));
  Ints at(strides.size(), 0);
  int64_t place = first;
  for (int64_t i = 0; i < count; ++i) {
    places.push_back(place);
    for (size_t axis = strides.size(); axis-- > 0;) {
      place += strides[axis];
      if (++at[axis] < to[static_cast<int>(axis)]) break;
      place -= strides[axis] * at[axis];
      at[axis] = 0;
    }
  }
  return places;
}

Ints StridesOf(const Shape& shape) {
  const Strides strides = ContiguousStrides(shape);
  return Ints(strides.begin(), strides.end());
}

// An array broadcast to `shape`.
Array Spread(const Array& array, const Shape& shape) {
  const Shape& from = array.type.shape;
  const Ints own = StridesOf(from);
  Ints strides(static_cast<size_t>(shape.rank()), 0);
  for (int i = 0; i < from.rank(); ++i) {
    if (from[i] == 1) continue;
    strides[static_cast<size_t>(shape.rank() - from.rank() + i)] =
        own[static_cast<size_t>(i)];
  }
  return Picked(array, shape, Places(shape, strides));
}

bool IsSmall(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim > kMaxFolded) return false;
    count *= dim;
    if (count > kMaxFolded) return false;
  }
  return true;
}

// Wraps around on overflow.
int64_t Wrapped(uint64_t bits) { return static_cast<int64_t>(bits); }
uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }

// --- What a type alone tells ---

Folded FoldShape(ImportedNode& node) {
  const Shape& shape = node.ShapeOf(0);
  const int64_t rank = shape.rank();
  const auto clamp = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank);
  };
  const int64_t start = clamp(node.Int("start", 0));
  const int64_t end = clamp(node.Int("end", rank));
  Ints dims;
  for (int64_t i = start; i < end; ++i) {
    dims.push_back(shape[static_cast<int>(i)]);
  }
  return One(IntArray(dims));
}

Folded FoldSize(ImportedNode& node) {
  return One(ArrayOf(DType::kI64, {}, Ints{node.ShapeOf(0).num_elements()}));
}

// --- What attributes or numbers alone tell ---

Folded FoldConstant(ImportedNode& node) {
  if (const auto* value = node.Find("value")) {
    STOWAGE_ASSIGN_OR_RETURN(Array array,
                             ReadTensor(value->t(), node.context().path));
    return One(std::move(array));
  }
  if (const auto* value = node.Find("value_int")) {
    return One(ArrayOf(DType::kI64, {}, Ints{value->i()}));
  }
  if (const auto* value = node.Find("value_float")) {
    return One(ArrayOf(DType::kF32, {}, std::vector<double>{value->f()}));
  }
  if (node.Find("value_ints")) return One(IntArray(node.IntList("value_ints")));
  if (node.Find("value_floats")) {
    const std::vector<double> reals = node.FloatList("value_floats");
    return One(
        ArrayOf(DType::kF32, {static_cast<int64_t>(reals.size())}, reals));
  }
  return node.Unsupported(
      "is a sparse tensor or a text; expected numbers in \"value\", "
      "\"value_int\", "
      "\"value_float\", \"value_ints\" or \"value_floats\"");
}

Folded FoldConstantOfShape(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const FilledShape filled, FilledShapeOf(node));
  if (!IsSmall(filled.shape)) return Left();
  return One(Spread(filled.value, filled.shape));
}

Folded FoldRange(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const RangeOfNumbers range, RangeOf(node));
  if (range.count > kMaxFolded) return Left();
  const DType dtype = node.Type(0).dtype;
  const Shape shape = {range.count};
  if (IsFloat(dtype)) {
    std::vector<double> reals;
    for (int64_t i = 0; i < range.count; ++i) {
      reals.push_back(range.start + static_cast<double>(i) * range.step);
    }
    return One(ArrayOf(dtype, shape, reals));
  }
  STOWAGE_ASSIGN_OR_RETURN(Ints start, node.Ints(0, "start"));
  STOWAGE_ASSIGN_OR_RETURN(const Ints step, node.Ints(2, "delta"));
  Ints ints;
  for (int64_t i = 0; i < range.count; ++i) {
    ints.push_back(Wrapped(Bits(start[0]) + Bits(i) * Bits(step[0])));
  }
  return One(ArrayOf(dtype, shape, ints));
}

// --- Elementwise ---

// The integer and real versions of an op; a missing one is not folded.
struct Elementwise {
  int64_t (*ints)(int64_t, int64_t) = nullptr;
  double (*reals)(double, double) = nullptr;
  bool to_bool = false;
};

int64_t Divided(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return Wrapped(0 - Bits(a));
  return a / b;
}
// With the sign of b, as in Python.
int64_t Modulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

const Elementwise* FindElementwise(std::string_view op) {
  static const auto& table =
      *new std::unordered_map<std::string_view, Elementwise>{
          {"Add",
           {[](int64_t a, int64_t b) { return Wrapped(Bits(a) + Bits(b)); },
            [](double a, double b) { return a + b; }}},
          {"Sub",
           {[](int64_t a, int64_t b) { return Wrapped(Bits(a) - Bits(b)); },
            [](double a, double b) { return a - b; }}},
          {"Mul",
           {[](int64_t a, int64_t b) { return Wrapped(Bits(a) * Bits(b)); },
            [](double a, double b) { return a * b; }}},
          {"Div", {Divided, [](double a, double b) { return a / b; }}},
          {"Mod", {Modulo}},
          {"Min",
           {[](int64_t a, int64_t b) { return std::min(a, b); },
            [](double a, double b) { return std::min(a, b); }}},
          {"Max",
           {[](int64_t a, int64_t b) { return std::max(a, b); },
            [](double a, double b) { return std::max(a, b); }}},
          {"And", {[](int64_t a, int64_t b) { return int64_t{a && b}; }}},
          {"Or", {[](int64_t a, int64_t b) { return int64_t{a || b}; }}},
          {"Xor", {[](int64_t a, int64_t b) { return int64_t{!a != !b}; }}},
          {"Equal",
           {[](int64_t a, int64_t b) { return int64_t{a == b}; },
            [](double a, double b) { return a == b ? 1.0 : 0.0; }, true}},
          {"Less",
           {[](int64_t a, int64_t b) { return int64_t{a < b}; },
            [](double a, double b) { return a < b ? 1.0 : 0.0; }, true}},
          {"LessOrEqual",
           {[](int64_t a, int64_t b) { return int64_t{a <= b}; },
            [](double a, double b) { return a <= b ? 1.0 : 0.0; }, true}},
          {"Greater",
           {[](int64_t a, int64_t b) { return int64_t{a > b}; },
            [](double a, double b) { return a > b ? 1.0 : 0.0; }, true}},
          {"GreaterOrEqual",
           {[](int64_t a, int64_t b) { return int64_t{a >= b}; },
            [](double a, double b) { return a >= b ? 1.0 : 0.0; }, true}},
          // A unary op; both operands are the same.
          {"Neg",
           {[](int64_t a, int64_t) { return Wrapped(0 - Bits(a)); },
            [](double a, double) { return -a; }}},
          {"Abs",
           {[](int64_t a, int64_t) { return a < 0 ? Wrapped(0 - Bits(a)) : a; },
            [](double a, double) { return std::abs(a); }}},
          {"Not", {[](int64_t a, int64_t) { return int64_t{a == 0}; }}},
          {"Floor", {nullptr, [](double a, double) { return std::floor(a); }}},
          {"Ceil", {nullptr, [](double a, double) { return std::ceil(a); }}},
          {"Round",
           {nullptr, [](double a, double) { return std::nearbyint(a); }}},
          {"Sqrt", {nullptr, [](double a, double) { return std::sqrt(a); }}},
          {"Exp", {nullptr, [](double a, double) { return std::exp(a); }}},
          {"Log", {nullptr, [](double a, double) { return std::log(a); }}},
          {"Reciprocal", {nullptr, [](double a, double) { return 1 / a; }}},
          {"Relu", {nullptr, [](double a, double) { return a < 0 ? 0.0 : a; }}},
      };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

bool IsUnary(std::string_view op) {
  for (const std::string_view unary :
       {"Neg", "Abs", "Not", "Floor", "Ceil", "Round", "Sqrt", "Exp", "Log",
        "Reciprocal", "Relu"}) {
    if (op == unary) return true;
  }
  return false;
}

Folded FoldElementwise(ImportedNode& node, const Elementwise& f) {
  const Array* first = node.Fixed(0);
  const DType dtype = first->type.dtype;
  const bool reals = IsFloat(dtype);
  // The conversion handles the forms of older operator sets.
  if (node.op() == "Mod" && node.Int("fmod", 0) != 0) return Left();
  if (node.version() < kUsualOpset && node.Find("axis")) return Left();
  if (reals ? !f.reals : !f.ints) return Left();
  if (!IsUnary(node.op()) && node.num_operands() < 2) {
    return node.op() == "Min" || node.op() == "Max" ? One(*first) : Left();
  }
  Array result = *first;
  for (int i = IsUnary(node.op()) ? 0 : 1; i < node.num_operands(); ++i) {
    const Array& other = *node.Fixed(i);
    if (IsFloat(other.type.dtype) != reals) return Left();
    STOWAGE_ASSIGN_OR_RETURN(
        const Shape shape,
        Broadcast(node, result.type.shape, other.type.shape));
    if (!IsSmall(shape)) return Left();
    const Array a = Spread(result, shape), b = Spread(other, shape);
    const DType to = f.to_bool ? DType::kBool : dtype;
    const auto apply = [&](auto numbers, const auto& others, auto function) {
      for (size_t k = 0; k < numbers.size(); ++k) {
        numbers[k] = function(numbers[k], others[k]);
      }
      return ArrayOf(to, shape, numbers);
    };
    result = reals ? apply(RealsOf(a), RealsOf(b), f.reals)
                   : apply(IntsOf(a), IntsOf(b), f.ints);
  }
  return One(std::move(result));
}

int64_t Power(int64_t base, int64_t exponent) {
  uint64_t power = 1, square = Bits(base);
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) power *= square;
    square *= square;
  }
  return Wrapped(power);
}

// The result has the type of the base.
Folded FoldPow(ImportedNode& node) {
  if (node.version() < kUsualOpset && node.Find("axis")) return Left();
  const Array &base = *node.Fixed(0), &exponent = *node.Fixed(1);
  STOWAGE_ASSIGN_OR_RETURN(
      const Shape shape, Broadcast(node, base.type.shape, exponent.type.shape));
  if (!IsSmall(shape)) return Left();
  const Array bases = Spread(base, shape), exponents = Spread(exponent, shape);
  const DType dtype = base.type.dtype;
  if (!IsFloat(dtype) && !IsFloat(exponent.type.dtype)) {
    Ints numbers = IntsOf(bases);
    const Ints powers = IntsOf(exponents);
    if (*std::min_element(powers.begin(), powers.end()) >= 0) {
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = Power(numbers[i], powers[i]);
      }
      return One(ArrayOf(dtype, shape, numbers));
    }
  }
  std::vector<double> numbers = RealsOf(bases);
  const std::vector<double> powers = RealsOf(exponents);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::pow(numbers[i], powers[i]);
  }
  return One(ArrayOf(dtype, shape, numbers));
}

Folded FoldWhere(ImportedNode& node) {
  const Array &condition = *node.Fixed(0), &yes = *node.Fixed(1),
              &no = *node.Fixed(2);
  STOWAGE_ASSIGN_OR_RETURN(
      Shape shape, Broadcast(node, condition.type.shape, yes.type.shape));
  STOWAGE_ASSIGN_OR_RETURN(shape, Broadcast(node, shape, no.type.shape));
  if (!IsSmall(shape) || yes.type.dtype != no.type.dtype) return Left();
  const Ints choose = IntsOf(Spread(condition, shape));
  Array result = Spread(yes, shape);
  const Array other = Spread(no, shape);
  const auto size = static_cast<size_t>(SizeOf(yes.type.dtype));
  for (size_t i = 0; i < choose.size(); ++i) {
    if (choose[i] == 0) {
      result.bytes.replace(i * size, size, other.bytes, i * size, size);
    }
  }
  return One(std::move(result));
}

Folded Casted(const Array& array, DType dtype) {
  return One(IsFloat(array.type.dtype)
                 ? ArrayOf(dtype, array.type.shape, RealsOf(array))
                 : ArrayOf(dtype, array.type.shape, IntsOf(array)));
}

Folded FoldCast(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(
      const DType dtype,
      DTypeOfElement(static_cast<int32_t>(node.Int("to", 0))));
  return Casted(*node.Fixed(0), dtype);
}

// --- Movement ---

Folded ReshapedArray(const Array& array, const Shape& shape) {
  return One({{array.type.dtype, shape}, array.bytes});
}

Folded FoldReshape(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAfterReshape(node));
  return ReshapedArray(*node.Fixed(0), shape);
}

Folded FoldSqueeze(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAfterSqueeze(node));
  return ReshapedArray(*node.Fixed(0), shape);
}

Folded FoldUnsqueeze(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAfterUnsqueeze(node));
  return ReshapedArray(*node.Fixed(0), shape);
}

Folded FoldIdentity(ImportedNode& node) { return One(*node.Fixed(0)); }

Folded FoldConcat(ImportedNode& node) {
  // Lists of sizes: one axis, or none if the parts are empty.
  Array joined = *node.Fixed(0);
  if (joined.type.shape.rank() != 1) return Left();
  for (int i = 1; i < node.num_operands(); ++i) {
    const Array& part = *node.Fixed(i);
    if (part.type.shape.rank() != 1 || part.type.dtype != joined.type.dtype) {
      return Left();
    }
    joined.bytes += part.bytes;
    joined.type.shape[0] += part.type.shape[0];
    if (!IsSmall(joined.type.shape)) return Left();
  }
  return One(std::move(joined));
}

Folded FoldGather(ImportedNode& node) {
  const Array &table = *node.Fixed(0), &indices = *node.Fixed(1);
  const Shape& from = table.type.shape;
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", 0), from.rank()));
  const auto at = static_cast<int>(axis);
  Shape shape;
  int64_t before = 1, after = 1;
  for (int i = 0; i < at; ++i) {
    shape.push_back(from[i]);
    before *= from[i];
  }
  for (const int64_t dim : indices.type.shape) shape.push_back(dim);
  for (int i = at + 1; i < from.rank(); ++i) {
    shape.push_back(from[i]);
    after *= from[i];
  }
  if (shape.rank() > kMaxRank || !IsSmall(shape)) return Left();
  Ints places;
  for (int64_t b = 0; b < before; ++b) {
    for (int64_t index : IntsOf(indices)) {
      if (index < -from[at] || index >= from[at]) {
        return node.Wrong(StrCat("has the index ", index, " along axis ", axis,
                                 " of ", table.type.ToString()));
      }
      if (index < 0) index += from[at];
      for (int64_t a = 0; a < after; ++a) {
        places.push_back((b * from[at] + index) * after + a);
      }
    }
  }
  return One(Picked(table, shape, places));
}

Folded FoldSlice(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<SliceOfAxis> slices,
                           SlicesOf(node));
  const Array& array = *node.Fixed(0);
  Shape shape = array.type.shape;
  Ints strides = StridesOf(shape);
  int64_t first = 0;
  for (const SliceOfAxis& slice : slices) {
    const auto axis = static_cast<size_t>(slice.axis);
    first += slice.start * strides[axis];
    strides[axis] *= slice.step;
    shape[slice.axis] = slice.count;
  }
  return One(Picked(array, shape, Places(shape, strides, first)));
}

Folded FoldExpand(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAfterExpand(node));
  if (!IsSmall(shape)) return Left();
  return One(Spread(*node.Fixed(0), shape));
}

Folded FoldTranspose(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Ints order, OrderOf(node));
  const Array& array = *node.Fixed(0);
  const Ints strides = StridesOf(array.type.shape);
  Shape shape;
  Ints turned;
  for (const int64_t axis : order) {
    shape.push_back(array.type.shape[static_cast<int>(axis)]);
    turned.push_back(strides[static_cast<size_t>(axis)]);
  }
  return One(Picked(array, shape, Places(shape, turned)));
}

Folded FoldReduce(ImportedNode& node) {
  // Reduces all elements of a list, such as sizes.
  const Array& array = *node.Fixed(0);
  if (array.type.shape.rank() > 1 || IsFloat(array.type.dtype)) return Left();
  STOWAGE_ASSIGN_OR_RETURN(const auto axes, node.IntsOrAttribute(1, "axes"));
  if (axes && axes->empty() && node.Int("noop_with_empty_axes", 0) != 0) {
    return One(array);
  }
  const Ints ints = IntsOf(array);
  if (ints.empty()) return Left();
  int64_t result = ints[0];
  for (size_t i = 1; i < ints.size(); ++i) {
    if (node.op() == "ReduceProd")
      result = Wrapped(Bits(result) * Bits(ints[i]));
    if (node.op() == "ReduceSum")
      result = Wrapped(Bits(result) + Bits(ints[i]));
    if (node.op() == "ReduceMax") result = std::max(result, ints[i]);
    if (node.op() == "ReduceMin") result = std::min(result, ints[i]);
  }
  const bool keep =
      node.Int("keepdims", 1) != 0 && array.type.shape.rank() == 1;
  return One(
      ArrayOf(array.type.dtype, keep ? Shape{1} : Shape{}, Ints{result}));
}

Folded FoldNonZero(ImportedNode& node) {
  const Array& array = *node.Fixed(0);
  const Shape& shape = array.type.shape;
  const std::vector<double> numbers = RealsOf(array);
  const auto rank = static_cast<size_t>(std::max(shape.rank(), 1));
  const Ints strides = shape.rank() == 0 ? Ints{1} : StridesOf(shape);
  std::vector<Ints> places(rank);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0) continue;
    auto rest = static_cast<int64_t>(i);
    for (size_t axis = 0; axis < rank; ++axis) {
      places[axis].push_back(rest / strides[axis]);
      rest %= strides[axis];
    }
  }
  const auto count = static_cast<int64_t>(places[0].size());
  Ints all;
  for (const Ints& axis : places)
    all.insert(all.end(), axis.begin(), axis.end());
  return One(ArrayOf(DType::kI64, {static_cast<int64_t>(rank), count}, all));
}

// Returns whether there are at least `count` operands, all constant.
struct FolderOfOp {
  std::string_view op;
  Folded (*fold)(ImportedNode&);
  int operands = 1;
};

const FolderOfOp* FindFolder(std::string_view op) {
  static constexpr FolderOfOp kFolders[] = {
      {"Cast", FoldCast},           {"Concat", FoldConcat},
      {"Expand", FoldExpand, 2},    {"Gather", FoldGather, 2},
      {"Identity", FoldIdentity},   {"NonZero", FoldNonZero},
      {"Pow", FoldPow, 2},          {"Range", FoldRange, 3},
      {"ReduceMax", FoldReduce},    {"ReduceMin", FoldReduce},
      {"ReduceProd", FoldReduce},   {"ReduceSum", FoldReduce},
      {"Reshape", FoldReshape},     {"Slice", FoldSlice},
      {"Squeeze", FoldSqueeze},     {"Transpose", FoldTranspose},
      {"Unsqueeze", FoldUnsqueeze}, {"Where", FoldWhere, 3},
  };
  for (const FolderOfOp& folder : kFolders) {
    if (folder.op == op) return &folder;
  }
  return nullptr;
}

Folded FoldByOp(ImportedNode& node) {
  if (node.op() == "Constant") return FoldConstant(node);
  if (node.op() == "ConstantOfShape") return FoldConstantOfShape(node);
  if (node.op() == "Shape" && node.Has(0)) return FoldShape(node);
  if (node.op() == "Size" && node.Has(0)) return FoldSize(node);
  if (node.num_operands() == 0) return Left();
  if (node.op() == "CastLike" && node.num_operands() == 2 && node.Fixed(0) &&
      IsSmall(node.ShapeOf(0))) {
    return Casted(*node.Fixed(0), node.Type(1).dtype);
  }
  for (int i = 0; i < node.num_operands(); ++i) {
    const Array* const contents = node.Fixed(i);
    if (!contents || !IsSmall(contents->type.shape)) return Left();
  }
  if (const Elementwise* const f = FindElementwise(node.op())) {
    return FoldElementwise(node, *f);
  }
  const FolderOfOp* const folder = FindFolder(node.op());
  if (!folder || node.num_operands() < folder->operands) return Left();
  return folder->fold(node);
}

}  // namespace

Folded Fold(ImportedNode& node) {
  Bytes& bytes = node.context().folded;
  const bool is_of_file = node.op() == "Constant";
  if (bytes > kMaxFoldedBytes && !is_of_file) return Left();
  STOWAGE_ASSIGN_OR_RETURN(auto folded, FoldByOp(node));
  if (folded && !is_of_file) {
    for (const Array& array : *folded) {
      bytes += static_cast<Bytes>(array.bytes.size());
    }
  }
  return folded;
}

}  // namespace stowage::onnx

// Ops that move or create elements.

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/ops.h"
#include "onnx/ops.h"
#include "onnx/shapes.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

Error Empty(const ImportedNode& node, const Shape& shape) {
  return node.Unsupported(StrCat("makes a tensor of shape ", shape.ToString(),
                                 ", which has no elements"));
}

bool HasElements(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(),
                     [](int64_t dim) { return dim > 0; });
}

Result<Values> Reshaped(ImportedNode& node, const Result<Shape>& shape) {
  if (!shape.ok()) return shape.error();
  if (!HasElements(*shape)) return Empty(node, *shape);
  return Values{Reshape(node.In(0), *shape)};
}

}  // namespace

Result<Values> ConvertReshape(ImportedNode& node) {
  return Reshaped(node, ShapeAfterReshape(node));
}
Result<Values> ConvertSqueeze(ImportedNode& node) {
  return Reshaped(node, ShapeAfterSqueeze(node));
}
Result<Values> ConvertUnsqueeze(ImportedNode& node) {
  return Reshaped(node, ShapeAfterUnsqueeze(node));
}

Result<Values> ConvertFlatten(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  int64_t axis = node.Int("axis", 1);
  if (axis != from.rank()) {
    STOWAGE_ASSIGN_OR_RETURN(axis, node.Axis(axis, from.rank()));
  }
  int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= from[i];
  return Values{Reshape(
      node.In(0), {rows, from.num_elements() / std::max<int64_t>(rows, 1)})};
}

Result<Values> ConvertTranspose(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> order, OrderOf(node));
  return Values{Permute(node.In(0), order)};
}

Result<Values> ConvertConcat(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(
      const int64_t axis,
      node.Axis(node.Int("axis", 0), node.ShapeOf(0).rank()));
  Values parts;
  for (int i = 0; i < node.num_operands(); ++i) {
    // Empty parts are skipped.
    if (node.Has(i) && HasElements(node.ShapeOf(i)))
      parts.push_back(node.In(i));
  }
  if (parts.empty()) return Empty(node, node.ShapeOf(0));
  if (parts.size() == 1) return Values{parts[0]};
  return Values{Concat(parts, axis)};
}

namespace {

constexpr int64_t kMaxParts = 1 << 16;

// The sizes of the parts of a split: those of operand 1 or the attribute, which may be one size
// for all parts, or `count` equal parts, of which the last may be smaller.
Result<std::vector<int64_t>> PartsOf(ImportedNode& node, int64_t size,
                                     int64_t count) {
  STOWAGE_ASSIGN_OR_RETURN(auto sizes, node.IntsOrAttribute(1, "split"));
  const bool all_of_one = sizes && node.Has(1) && node.ShapeOf(1).rank() == 0;
  if (!sizes || all_of_one) {
    if (!sizes && (count < 1 || count > size)) {
      return node.Wrong(StrCat("makes ", count, " parts of ", size));
    }
    const int64_t each = sizes ? (*sizes)[0] : (size + count - 1) / count;
    if (each < 1) return node.Wrong(StrCat("makes parts of ", each));
    if (size / each > kMaxParts) {
      return node.Unsupported(StrCat("cuts ", size, " elements into parts of ",
                                     each, "; at most ", kMaxParts,
                                     " parts are made"));
    }
    sizes.emplace();
    for (int64_t left = size; left > 0; left -= each) {
      sizes->push_back(std::min(each, left));
    }
  }
  for (const int64_t part : *sizes) {
    if (part < 1) {
      return node.Unsupported(
          StrCat("makes a part of ", part, "; parts must have elements"));
    }
  }
  return *sizes;
}

}  // namespace

Result<Values> ConvertSplit(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", 0), from.rank()));
  STOWAGE_ASSIGN_OR_RETURN(
      const std::vector<int64_t> sizes,
      PartsOf(node, from[static_cast<int>(axis)],
              node.Int("num_outputs", node.num_results())));
  if (static_cast<int>(sizes.size()) != node.num_results()) {
    return node.Wrong(StrCat("makes ", sizes.size(), " parts and names ",
                             node.num_results()));
  }
  return Split(node.In(0), axis, sizes);
}

Result<Values> ConvertSplitToSequence(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", 0), from.rank()));
  const int64_t size = from[static_cast<int>(axis)];
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes,
                           PartsOf(node, size, size));
  Values parts = Split(node.In(0), axis, sizes);
  if (!node.Has(1) && node.Int("keepdims", 1) == 0) {
    Shape shape;
    for (int i = 0; i < from.rank(); ++i) {
      if (i != axis) shape.push_back(from[i]);
    }
    for (Value& part : parts) part = Reshape(part, shape);
  }
  node.SetParts(std::move(parts));
  return Values{};
}

Result<Values> ConvertSequenceAt(ImportedNode& node) {
  const Values& parts = node.OperandAt(0).parts;
  STOWAGE_ASSIGN_OR_RETURN(const auto at, node.Ints(1, "position"));
  const auto count = static_cast<int64_t>(parts.size());
  if (at.size() != 1 || at[0] < -count || at[0] >= count) {
    return node.Wrong(
        StrCat("reads part ", at.empty() ? 0 : at[0], " of ", count));
  }
  return Values{parts[static_cast<size_t>(at[0] < 0 ? at[0] + count : at[0])]};
}

Result<Values> ConvertSlice(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<SliceOfAxis> slices,
                           SlicesOf(node));
  Value x = node.In(0);
  for (const SliceOfAxis& slice : slices) {
    const int64_t size = node.ShapeOf(0)[slice.axis];
    if (slice.count == 0) {
      Shape shape = node.ShapeOf(0);
      shape[slice.axis] = 0;
      return Empty(node, shape);
    }
    if (slice.step > 0) {
      if (slice.start == 0 && slice.count == size && slice.step == 1) continue;
      x = Slice(x, slice.axis, slice.start,
                slice.start + (slice.count - 1) * slice.step + 1, slice.step);
      continue;
    }
    x = TakeAlong(x, slice.axis, slice.start, slice.step, slice.count);
  }
  return Values{x};
}

Result<Values> ConvertExpand(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAfterExpand(node));
  if (!HasElements(shape)) return Empty(node, shape);
  return Values{BroadcastTo(node.In(0), shape)};
}

Result<Values> ConvertTile(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const auto repeats, node.Ints(1, "repeats"));
  if (static_cast<int>(repeats.size()) != node.ShapeOf(0).rank()) {
    return node.Wrong(StrCat("has ", repeats.size(), " repeats for ",
                             node.ShapeOf(0).rank(), " dimensions"));
  }
  return Values{Tile(node.In(0), repeats)};
}

Result<Values> ConvertConstantOfShape(ImportedNode& node) {
  // Small ones are folded.
  STOWAGE_ASSIGN_OR_RETURN(const FilledShape filled, FilledShapeOf(node));
  return Values{Fill(node.graph(), RealsOf(filled.value)[0],
                     filled.value.type.dtype, filled.shape)};
}

Result<Values> ConvertRange(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const RangeOfNumbers range, RangeOf(node));
  if (range.count == 0) return Empty(node, {0});
  return Values{Iota(node.graph(), node.Type(0).dtype, range.start, range.step,
                     range.count)};
}

Result<Values> ConvertEyeLike(ImportedNode& node) {
  const Shape& shape = node.ShapeOf(0);
  DType dtype = node.Type(0).dtype;
  if (node.Find("dtype")) {
    STOWAGE_ASSIGN_OR_RETURN(
        dtype, DTypeOfElement(static_cast<int32_t>(node.Int("dtype", 1))));
  }
  if (shape.rank() != 2) {
    return node.Wrong(
        StrCat("is of ", shape.ToString(), "; expected two dimensions"));
  }
  const int64_t diagonal = node.Int("k", 0);
  const Value columns = Iota(node.graph(), DType::kI64,
                             static_cast<double>(diagonal), 1, shape[0]);
  return Values{OneHot(columns, shape[1], dtype)};
}

Result<Values> ConvertTrilu(ImportedNode& node) {
  int64_t diagonal = 0;
  if (node.Has(1)) {
    STOWAGE_ASSIGN_OR_RETURN(const auto k, node.Ints(1, "k"));
    if (k.size() != 1) return node.Wrong("has no single diagonal");
    diagonal = k[0];
  }
  const Value x = node.In(0);
  return Values{node.Int("upper", 1) != 0 ? Triu(x, diagonal)
                                          : Tril(x, diagonal)};
}

namespace {

// Pads non-float elements, axis by axis: with elements of x, or `value`.
Value PaddedByAxis(Value x, const Axes& before, const Axes& after, PadMode mode,
                   double value) {
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    if (before[at] == 0 && after[at] == 0) continue;
    const int64_t size = x.dim(axis), whole = before[at] + size + after[at];
    if (mode == PadMode::kConstant) {
      const auto filled = [&](int64_t count) {
        Shape shape = x.shape();
        shape[axis] = count;
        return Fill(*x.builder(), value, x.dtype(), shape);
      };
      Values parts;
      if (before[at] > 0) parts.push_back(filled(before[at]));
      parts.push_back(x);
      if (after[at] > 0) parts.push_back(filled(after[at]));
      x = Concat(parts, axis);
    } else {
      std::vector<int64_t> places;
      for (int64_t i = 0; i < whole; ++i) {
        int64_t place = i - before[at];
        if (mode == PadMode::kReflect) {
          if (place < 0) place = -place;
          if (place >= size) place = 2 * (size - 1) - place;
        }
        places.push_back(std::clamp<int64_t>(place, 0, size - 1));
      }
      x = TakeAt(x, axis, places);
    }
    if (!x.ok()) return x;
  }
  return x;
}

}  // namespace

Result<Values> ConvertPad(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  const auto rank = static_cast<size_t>(from.rank());
  std::vector<int64_t> pads = node.IntList("pads");
  double value = node.Float("value", 0);
  if (node.version() >= 11) {
    STOWAGE_ASSIGN_OR_RETURN(pads, node.Ints(1, "pads"));
    if (node.Has(2)) {
      STOWAGE_ASSIGN_OR_RETURN(const auto values, node.Reals(2, "value"));
      if (values.size() != 1) return node.Wrong("has no single value");
      value = values[0];
    }
  }
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.Has(3)) {
    STOWAGE_ASSIGN_OR_RETURN(axes, node.Ints(3, "axes"));
  }
  if (pads.size() != 2 * axes.size()) {
    return node.Wrong(StrCat("has ", pads.size(), " pads for ", axes.size(),
                             " axes; expected twice as many"));
  }
  const std::string mode = node.Text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge") {
    return node.Unsupported(StrCat("pads by ", Quoted(mode),
                                   "; expected constant, reflect or edge"));
  }
  std::vector<int64_t> before(rank, 0), after(rank, 0);
  Value x = node.In(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                             node.Axis(axes[i], from.rank()));
    const auto at = static_cast<size_t>(axis);
    before[at] = std::max<int64_t>(pads[i], 0);
    after[at] = std::max<int64_t>(pads[axes.size() + i], 0);
    // A negative pad removes elements.
    const int64_t cut = std::max<int64_t>(-pads[i], 0);
    const int64_t end = from[static_cast<int>(axis)] -
                        std::max<int64_t>(-pads[axes.size() + i], 0);
    if (cut >= end) {
      return node.Wrong(StrCat("takes away all ", from[static_cast<int>(axis)],
                               " elements of axis ", axis));
    }
    if (cut > 0 || end < from[static_cast<int>(axis)]) {
      x = Slice(x, axis, cut, end);
    }
  }
  if (std::all_of(before.begin(), before.end(),
                  [](int64_t n) { return n == 0; }) &&
      std::all_of(after.begin(), after.end(),
                  [](int64_t n) { return n == 0; })) {
    return Values{x};
  }
  const PadMode how = mode == "constant"  ? PadMode::kConstant
                      : mode == "reflect" ? PadMode::kReflect
                                          : PadMode::kEdge;
  if (IsFloat(node.Type(0).dtype) || !x.ok()) {
    return Values{Pad(x, before, after, how, value)};
  }
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    const int64_t most = std::max(before[at], after[at]);
    if (how == PadMode::kReflect && most >= x.dim(axis)) {
      return node.Wrong(StrCat("mirrors ", most, " elements of the ",
                               x.dim(axis), " of axis ", axis,
                               "; expected fewer than there are"));
    }
  }
  return Values{PaddedByAxis(x, before, after, how, value)};
}

Result<Values> ConvertDepthToSpace(ImportedNode& node) {
  const int64_t block = node.Int("blocksize", 0);
  return Values{node.Text("mode", "DCR") == "CRD"
                    ? PixelShuffle(node.In(0), block)
                    : DepthToSpace(node.In(0), block)};
}
Result<Values> ConvertSpaceToDepth(ImportedNode& node) {
  return Values{SpaceToDepth(node.In(0), node.Int("blocksize", 0))};
}

}  // namespace stowage::onnx

#include "onnx/shapes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/bytes.h"
#include "base/strings.h"
#include "formats/array.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

using Ints = std::vector<int64_t>;

// The axes of a node, each once.
Result<std::vector<bool>> Marked(ImportedNode& node, const Ints& axes,
                                 int rank) {
  std::vector<bool> marked(static_cast<size_t>(rank), false);
  for (const int64_t axis : axes) {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t at, node.Axis(axis, rank));
    if (marked[static_cast<size_t>(at)]) {
      return node.Wrong(StrCat("names the axis ", axis, " twice"));
    }
    marked[static_cast<size_t>(at)] = true;
  }
  return marked;
}

// Constant `dims` of a file that fixes its batch, adapted to the batch of `from`.
void Resize(const ResizedBatch& batch, const Shape& from, Ints* dims) {
  int64_t count = 1;
  for (const int64_t dim : *dims) {
    const std::optional<int64_t> product = CheckedMul(count, dim);
    if (!product) return;  // an error, which is said where they are read
    count = *product;
  }
  if (count < 0) {  // one is left open
    if (from.rank() > 0 && from[0] == batch.to && dims->front() == batch.from) {
      dims->front() = batch.to;
    }
    return;
  }
  if (count == from.num_elements() ||
      count / batch.from * batch.to != from.num_elements()) {
    return;
  }
  const auto axis = std::ranges::find_if(
      *dims, [&](int64_t dim) { return dim > 0 && dim % batch.from == 0; });
  if (axis != dims->end()) *axis = *axis / batch.from * batch.to;
}

}  // namespace

Result<Shape> ShapeOfDims(const ImportedNode& node,
                          std::span<const int64_t> dims) {
  const Shape shape(dims);
  if (shape.rank() > kMaxRank) {
    return node.Unsupported(StrCat("makes a tensor of ", shape.rank(),
                                   " dimensions; at most ", kMaxRank,
                                   " are supported"));
  }
  int64_t count = 1;
  for (const int64_t dim : shape) {
    const auto product =
        dim < 0 ? std::optional<int64_t>() : CheckedMul(count, dim);
    if (!product) {
      return node.Wrong(StrCat("makes a tensor of shape ", shape.ToString(),
                               "; dimensions must be at least 0 and their "
                               "product must fit 63 bits"));
    }
    count = *product;
  }
  return shape;
}

Result<Shape> Broadcast(const ImportedNode& node, const Shape& a,
                        const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - a.rank()), in_b = i - (rank - b.rank());
    const int64_t from_a = in_a < 0 ? 1 : a[in_a];
    const int64_t from_b = in_b < 0 ? 1 : b[in_b];
    if (from_a != from_b && from_a != 1 && from_b != 1) {
      return node.Wrong(StrCat("has operands of shapes ", a.ToString(), " and ",
                               b.ToString(), ", which do not broadcast"));
    }
    shape.push_back(from_a == 1 ? from_b : from_a);
  }
  return shape;
}

Result<Shape> ShapeAfterReshape(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(Ints dims, node.Ints(1, "shape"));
  const bool zeros_are_meant = node.Int("allowzero", 0) != 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 0 || zeros_are_meant) continue;
    if (static_cast<int>(i) >= from.rank()) {
      return node.Wrong(StrCat("keeps dimension ", i, " of ", from.ToString(),
                               ", which has ", from.rank()));
    }
    dims[i] = from[static_cast<int>(i)];
  }
  if (node.context().resized) Resize(*node.context().resized, from, &dims);
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) {
      if (open) return node.Wrong("leaves two dimensions open; expected one");
      open = i;
      continue;
    }
    const auto product =
        dims[i] < 0 ? std::optional<int64_t>() : CheckedMul(known, dims[i]);
    if (!product) {
      return node.Wrong(StrCat("has the dimension ", dims[i],
                               "; expected -1, or sizes whose product fits 63 "
                               "bits"));
    }
    known = *product;
  }
  const int64_t count = from.num_elements();
  if (open) dims[*open] = known == 0 ? 0 : count / known;
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeOfDims(node, dims));
  if (shape.num_elements() != count) {
    return node.Wrong(StrCat("makes ", shape.ToString(), " of ",
                             from.ToString(), ": ", shape.num_elements(),
                             " elements of ", count));
  }
  return shape;
}

Result<Shape> ShapeAfterSqueeze(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const auto axes, node.IntsOrAttribute(1, "axes"));
  STOWAGE_ASSIGN_OR_RETURN(const auto marked,
                           Marked(node, axes.value_or(Ints()), from.rank()));
  Shape shape;
  for (int i = 0; i < from.rank(); ++i) {
    const bool drop = axes ? marked[static_cast<size_t>(i)] : from[i] == 1;
    if (drop && from[i] != 1) {
      return node.Wrong(StrCat("drops dimension ", i, " of ", from.ToString(),
                               ", which is not 1"));
    }
    if (!drop) shape.push_back(from[i]);
  }
  return shape;
}

Result<Shape> ShapeAfterUnsqueeze(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const auto axes, node.IntsOrAttribute(1, "axes"));
  if (!axes) return node.Wrong("names no axes to add");
  const int64_t rank = from.rank() + static_cast<int64_t>(axes->size());
  if (rank > kMaxRank) {
    return node.Unsupported(StrCat("makes a tensor of ", rank,
                                   " dimensions; at most ", kMaxRank,
                                   " are supported"));
  }
  STOWAGE_ASSIGN_OR_RETURN(const auto marked,
                           Marked(node, *axes, static_cast<int>(rank)));
  Shape shape;
  int next = 0;
  for (const bool added : marked) shape.push_back(added ? 1 : from[next++]);
  return shape;
}

Result<Shape> ShapeAfterExpand(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(Ints dims, node.Ints(1, "shape"));
  const std::optional<ResizedBatch>& batch = node.context().resized;
  if (batch && !dims.empty() && dims[0] == batch->from) dims[0] = batch->to;
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeOfDims(node, dims));
  return Broadcast(node, node.ShapeOf(0), shape);
}

Result<FilledShape> FilledShapeOf(ImportedNode& node) {
  FilledShape filled;
  STOWAGE_ASSIGN_OR_RETURN(const Ints dims, node.Ints(0, "shape"));
  STOWAGE_ASSIGN_OR_RETURN(filled.shape, ShapeOfDims(node, dims));
  filled.value = ArrayOf(DType::kF32, {}, std::vector<double>{0});
  if (const auto* const attribute = node.Find("value")) {
    STOWAGE_ASSIGN_OR_RETURN(filled.value,
                             ReadTensor(attribute->t(), node.context().path));
    if (filled.value.type.shape.num_elements() != 1) {
      return node.Wrong(StrCat("fills with ", filled.value.type.ToString(),
                               "; expected one element"));
    }
    filled.value.type.shape = {};
  }
  return filled;
}

Result<Ints> OrderOf(ImportedNode& node) {
  const int rank = node.ShapeOf(0).rank();
  Ints order = node.IntList("perm");
  if (order.empty()) {
    for (int i = rank; i-- > 0;) order.push_back(i);
  }
  if (static_cast<int>(order.size()) != rank) {
    return node.Wrong(StrCat("orders ", order.size(), " axes of ", rank));
  }
  STOWAGE_ASSIGN_OR_RETURN(const auto marked, Marked(node, order, rank));
  for (int64_t& axis : order) axis = axis < 0 ? axis + rank : axis;
  return order;
}

Result<std::vector<SliceOfAxis>> SlicesOf(ImportedNode& node) {
  const Shape& shape = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const auto starts,
                           node.IntsOrAttribute(1, "starts"));
  STOWAGE_ASSIGN_OR_RETURN(const auto ends, node.IntsOrAttribute(2, "ends"));
  STOWAGE_ASSIGN_OR_RETURN(const auto given, node.IntsOrAttribute(3, "axes"));
  STOWAGE_ASSIGN_OR_RETURN(const auto steps, node.IntsOrAttribute(4, "steps"));
  if (!starts || !ends || starts->size() != ends->size() ||
      (given && given->size() != starts->size()) ||
      (steps && steps->size() != starts->size())) {
    return node.Wrong(
        "has lists of starts, ends, axes and steps of different lengths");
  }
  std::vector<SliceOfAxis> slices;
  for (size_t i = 0; i < starts->size(); ++i) {
    STOWAGE_ASSIGN_OR_RETURN(
        const int64_t axis,
        node.Axis(given ? (*given)[i] : static_cast<int64_t>(i), shape.rank()));
    SliceOfAxis slice{.axis = static_cast<int>(axis)};
    const int64_t size = shape[slice.axis];
    slice.step = steps ? (*steps)[i] : 1;
    if (slice.step == 0) return node.Wrong("has a step of 0");
    if (size == 0) {
      slices.push_back(slice);
      continue;
    }
    const auto place = [&](int64_t at, int64_t low, int64_t high) {
      return std::clamp(at < 0 ? at + size : at, low, high);
    };
    if (slice.step > 0) {
      slice.start = place((*starts)[i], 0, size);
      const int64_t end = place((*ends)[i], 0, size);
      const int64_t length = std::max<int64_t>(0, end - slice.start);
      // A step beyond the size selects the first element, as the size does.
      slice.step = std::min(slice.step, size);
      slice.count = (length + slice.step - 1) / slice.step;
    } else {
      slice.start = place((*starts)[i], 0, size - 1);
      const int64_t end =
          (*ends)[i] < -size ? -1 : place((*ends)[i], -1, size - 1);
      const int64_t length = std::max<int64_t>(0, slice.start - end);
      slice.step = std::max(slice.step, -size);
      slice.count = (length - slice.step - 1) / -slice.step;
    }
    slices.push_back(slice);
  }
  return slices;
}

Result<RangeOfNumbers> RangeOf(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const auto start, node.Reals(0, "start"));
  STOWAGE_ASSIGN_OR_RETURN(const auto limit, node.Reals(1, "limit"));
  STOWAGE_ASSIGN_OR_RETURN(const auto step, node.Reals(2, "delta"));
  if (start.size() != 1 || limit.size() != 1 || step.size() != 1 ||
      step[0] == 0) {
    return node.Wrong("needs one start, one limit and one delta that is not 0");
  }
  const double count = std::ceil((limit[0] - start[0]) / step[0]);
  if (!(count < 0x1p62)) {
    return node.Wrong(StrCat("makes ", count, " numbers"));
  }
  return RangeOfNumbers{start[0], step[0],
                        static_cast<int64_t>(std::max(count, 0.0))};
}

}  // namespace stowage::onnx

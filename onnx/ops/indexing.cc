// Gathers, scatters and other ops by index.

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/ops.h"
#include "onnx/ops.h"

namespace stowage::onnx {
namespace {

// Operand i, indices of an axis of `size`. Negative ones count from the end if they are
// constant; computed ones must not be negative.
Result<Value> Indices(ImportedNode& node, int i, int64_t size) {
  const Array* const contents = node.Fixed(i);
  if (!contents) return node.In(i);
  std::vector<int64_t> indices = IntsOf(*contents);
  bool counted = false;
  for (int64_t& index : indices) {
    if (index < -size || index >= size) {
      return node.Wrong(
          StrCat("has the index ", index, " into ", size, " elements"));
    }
    if (index >= 0) continue;
    index += size;
    counted = true;
  }
  if (!counted) return node.In(i);
  return Reshape(ConstantInts(node.graph(), indices), contents->type.shape);
}

// The permutation that moves `axis` to the end, or back.
Axes ToEnd(int rank, int64_t axis) {
  Axes order;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  return order;
}
Axes FromEnd(int rank, int64_t axis) {
  Axes order;
  for (int64_t i = 0; i < rank; ++i) {
    order.push_back(i < axis ? i : i == axis ? rank - 1 : i - 1);
  }
  return order;
}

// Returns whether a scatter adds or replaces; absent for another reduction.
Result<bool> Adds(const ImportedNode& node) {
  const std::string reduction = node.Text("reduction", "none");
  if (reduction == "none") return false;
  if (reduction == "add") return true;
  return node.Unsupported(
      StrCat("reduces by ", Quoted(reduction), "; expected none or add"));
}

// `base` with elements replaced at the positions with a positive `count`.
Value Replaced(Value base, Value summed, Value count) {
  return Where(Greater(count, Like(count, 0)), summed, base);
}

// Index tuples (..., K) into the first K dimensions of `shape`, as row indices of the matrix
// with these dimensions merged.
Result<Value> RowsOf(ImportedNode& node, int i, const Shape& shape) {
  const Shape& indices = node.ShapeOf(i);
  if (indices.rank() < 1 || indices.back() > shape.rank()) {
    return node.Wrong(StrCat("has index tuples ", indices.ToString(), " into ",
                             shape.ToString()));
  }
  const int64_t depth = indices.back();
  const Value all = node.In(i);
  if (!all.ok()) return all;
  Value row;
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t size = shape[static_cast<int>(k)];
    Value at = Slice(all, -1, k, k + 1);
    // Negative indices count from the end.
    at = Where(
        Less(at, Fill(node.graph(), 0, at.dtype(), {})),
        Add(at, Fill(node.graph(), static_cast<double>(size), at.dtype(), {})),
        at);
    row = k == 0 ? at
                 : Add(Mul(row, Fill(node.graph(), static_cast<double>(size),
                                     at.dtype(), {})),
                       at);
  }
  Shape rows;
  for (int d = 0; d + 1 < indices.rank(); ++d) rows.push_back(indices[d]);
  return Reshape(row, rows);
}

Shape Flattened(const Shape& shape, int64_t depth) {
  Shape flat;
  int64_t rows = 1;
  for (int i = 0; i < depth; ++i) rows *= shape[i];
  flat.push_back(rows);
  for (int i = static_cast<int>(depth); i < shape.rank(); ++i) {
    flat.push_back(shape[i]);
  }
  return flat;
}

}  // namespace

Result<Values> ConvertGather(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", 0), from.rank()));
  const int64_t size = from[static_cast<int>(axis)];
  // A single index is a slice, without a copy.
  if (const Array* const fixed = node.Fixed(1);
      fixed && fixed->type.shape.num_elements() == 1) {
    int64_t index = IntsOf(*fixed)[0];
    if (index < -size || index >= size) {
      return node.Wrong(
          StrCat("has the index ", index, " into ", size, " elements"));
    }
    if (index < 0) index += size;
    Shape shape;
    for (int i = 0; i < axis; ++i) shape.push_back(from[i]);
    for (const int64_t dim : fixed->type.shape) shape.push_back(dim);
    for (int i = static_cast<int>(axis) + 1; i < from.rank(); ++i) {
      shape.push_back(from[i]);
    }
    return Values{Reshape(Slice(node.In(0), axis, index, index + 1), shape)};
  }
  STOWAGE_ASSIGN_OR_RETURN(const Value indices, Indices(node, 1, size));
  if (axis == 0) return Values{Gather(node.In(0), indices)};
  // (before, axis, after) -> (axis, before, after) -> (indices, before, after)
  Axes order = {axis};
  for (int64_t i = 0; i < from.rank(); ++i) {
    if (i != axis) order.push_back(i);
  }
  const Value rows = Gather(Permute(node.In(0), order), indices);
  const int64_t depth = node.ShapeOf(1).rank();
  Axes back;
  for (int64_t i = 0; i < axis; ++i) back.push_back(depth + i);
  for (int64_t i = 0; i < depth; ++i) back.push_back(i);
  for (int64_t i = axis; i + 1 < from.rank(); ++i) back.push_back(depth + i);
  return Values{Permute(rows, back)};
}

Result<Values> ConvertGatherElements(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", 0), from.rank()));
  STOWAGE_ASSIGN_OR_RETURN(const Value indices,
                           Indices(node, 1, from[static_cast<int>(axis)]));
  Value x = node.In(0);
  // ONNX's indices may be smaller along other axes, too.
  for (int i = 0; i < from.rank() && i < node.ShapeOf(1).rank(); ++i) {
    const int64_t count = node.ShapeOf(1)[i];
    if (i != axis && count < from[i]) x = Slice(x, i, 0, count);
  }
  return Values{TakeAlongAxis(x, indices, axis)};
}

// The former name of ScatterElements.
Result<Values> ConvertScatter(ImportedNode& node) {
  return ConvertScatterElements(node);
}
Result<Values> ConvertScatterElements(ImportedNode& node) {
  const Shape& from = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const bool adds, Adds(node));
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", 0), from.rank()));
  for (int i = 0; i < from.rank() && i < node.ShapeOf(1).rank(); ++i) {
    if (i != axis && node.ShapeOf(1)[i] != from[i]) {
      return node.Unsupported(StrCat(
          "scatters ", node.ShapeOf(1).ToString(), " into ", from.ToString(),
          " along axis ", axis, "; the other dimensions must be the same"));
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(const Value indices,
                           Indices(node, 1, from[static_cast<int>(axis)]));
  const Value base = node.In(0), updates = node.In(2);
  if (adds) return Values{PutAdd(base, indices, updates, axis)};
  const DType dtype = node.Type(0).dtype;
  const Value nothing = Fill(node.graph(), 0, dtype, from);
  const Value ones = Fill(node.graph(), 1, dtype, node.ShapeOf(2));
  return Values{Replaced(base, PutAdd(nothing, indices, updates, axis),
                         PutAdd(nothing, indices, ones, axis))};
}

Result<Values> ConvertGatherND(ImportedNode& node) {
  const Shape &x = node.ShapeOf(0), &indices = node.ShapeOf(1);
  const int64_t batches = node.Int("batch_dims", 0);
  if (batches < 0 || batches >= std::min(x.rank(), indices.rank())) {
    return node.Wrong(StrCat("has ", batches, " batch dimensions of ",
                             x.ToString(), " and ", indices.ToString()));
  }
  Shape from;
  int64_t batch = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (i >= batches) {
      from.push_back(x[i]);
    } else if (x[i] != indices[i]) {
      return node.Wrong(StrCat("has other batches in ", x.ToString(),
                               " than in ", indices.ToString()));
    } else {
      batch *= x[i];
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(Value rows, RowsOf(node, 1, from));
  Shape flat = Flattened(from, indices.back());
  if (batches == 0) {
    return Values{Gather(Reshape(node.In(0), flat), rows)};
  }
  // One table for all batches, with separate rows for each.
  const Value first = Iota(node.graph(), node.Type(1).dtype, 0,
                           static_cast<double>(flat[0]), batch);
  Shape to;
  for (int i = 0; i + 1 < indices.rank(); ++i) to.push_back(indices[i]);
  rows = Add(Reshape(rows, {batch, to.num_elements() / batch}),
             Reshape(first, {batch, 1}));
  flat[0] *= batch;
  return Values{Gather(Reshape(node.In(0), flat), Reshape(rows, to))};
}

Result<Values> ConvertScatterND(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const bool adds, Adds(node));
  const Shape& from = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const Value rows, RowsOf(node, 1, from));
  const Shape flat = Flattened(from, node.ShapeOf(1).back());
  const Value base = Reshape(node.In(0), flat), updates = node.In(2);
  if (adds) return Values{Reshape(ScatterAdd(base, rows, updates), from)};
  const DType dtype = node.Type(0).dtype;
  const Value nothing = Fill(node.graph(), 0, dtype, flat);
  const Value ones = Fill(node.graph(), 1, dtype, node.ShapeOf(2));
  return Values{Reshape(Replaced(base, ScatterAdd(nothing, rows, updates),
                                 ScatterAdd(nothing, rows, ones)),
                        from)};
}

Result<Values> ConvertOneHot(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const auto depth, node.Ints(1, "depth"));
  STOWAGE_ASSIGN_OR_RETURN(const auto values, node.Reals(2, "values"));
  if (depth.size() != 1 || depth[0] < 1 || values.size() != 2) {
    return node.Wrong("needs one depth and two values, off and on");
  }
  const DType dtype = node.Type(2).dtype;
  Value indices = node.In(0);
  if (!IsIndex(node.Type(0).dtype)) indices = Cast(indices, DType::kI64);
  indices = Where(Less(indices, Like(indices, 0)),
                  Add(indices, Like(indices, static_cast<double>(depth[0]))),
                  indices);
  const Value hot = OneHot(indices, depth[0], DType::kBool);
  if (!hot.ok()) return Values{hot};
  const Value marked = Where(hot, Fill(node.graph(), values[1], dtype, {}),
                             Fill(node.graph(), values[0], dtype, {}));
  const int rank = node.ShapeOf(0).rank() + 1;
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", -1), rank));
  return Values{Permute(marked, FromEnd(rank, axis))};
}

// The elements selected by a constant condition.
Result<Values> ConvertCompress(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const auto condition, node.Ints(1, "condition"));
  Value x = node.In(0);
  int64_t axis = 0;
  if (node.Find("axis")) {
    STOWAGE_ASSIGN_OR_RETURN(
        axis, node.Axis(node.Int("axis", 0), node.ShapeOf(0).rank()));
  } else {
    x = Reshape(x, {node.ShapeOf(0).num_elements()});
  }
  if (!x.ok()) return Values{x};
  std::vector<int64_t> places;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) places.push_back(static_cast<int64_t>(i));
  }
  if (places.empty() || places.back() >= x.dim(static_cast<int>(axis))) {
    return node.Unsupported(StrCat(
        "lets ", places.size(), " elements through, the last of them ",
        places.empty() ? -1 : places.back(), " of ",
        x.dim(static_cast<int>(axis)), "; expected at least one, of these"));
  }
  return Values{TakeAt(x, static_cast<int>(axis), places)};
}

// Reverses the first elements of each example, up to its length.
Result<Values> ConvertReverseSequence(ImportedNode& node) {
  const Shape& x = node.ShapeOf(0);
  STOWAGE_ASSIGN_OR_RETURN(const int64_t time,
                           node.Axis(node.Int("time_axis", 0), x.rank()));
  STOWAGE_ASSIGN_OR_RETURN(const int64_t batch,
                           node.Axis(node.Int("batch_axis", 1), x.rank()));
  if (time + batch != 1 || x.rank() < 2) {
    return node.Unsupported(StrCat("turns axis ", time, " of each of axis ",
                                   batch, "; expected the first two axes"));
  }
  const int64_t steps = x[static_cast<int>(time)];
  const int64_t examples = x[static_cast<int>(batch)];
  const Value lengths = Reshape(Cast(node.In(1), DType::kI64), {1, examples});
  const Value at =
      Reshape(Iota(node.graph(), DType::kI64, 0, 1, steps), {steps, 1});
  const Value turned =
      Where(Less(at, lengths), Sub(Sub(lengths, Like(at, 1)), at), at);
  const Value row =
      Add(Mul(turned, Like(turned, static_cast<double>(examples))),
          Iota(node.graph(), DType::kI64, 0, 1, examples));
  // (steps, examples, ...) as one table.
  Axes order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  if (time == 1) std::swap(order[0], order[1]);
  Shape shape = x;
  shape[0] = steps;
  shape[1] = examples;
  const Value table = Reshape(Permute(node.In(0), order), Flattened(shape, 2));
  return Values{Permute(
      Reshape(Gather(table, Reshape(row, {steps * examples})), shape), order)};
}

Result<Values> ConvertCumSum(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const auto axes, node.Ints(1, "axis"));
  if (axes.size() != 1) return node.Wrong("has no single axis");
  return Values{CumSum(node.In(0), axes[0], node.Int("exclusive", 0) != 0,
                       node.Int("reverse", 0) != 0)};
}

Result<Values> ConvertTopK(ImportedNode& node) {
  const int rank = node.ShapeOf(0).rank();
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", -1), rank));
  int64_t k = node.Int("k", 0);
  if (node.version() >= 10) {
    STOWAGE_ASSIGN_OR_RETURN(const auto ks, node.Ints(1, "k"));
    if (ks.size() != 1) return node.Wrong("has no single k");
    k = ks[0];
  }
  const TopKResults top = TopK(Permute(node.In(0), ToEnd(rank, axis)), k,
                               node.Int("largest", 1) != 0);
  return Values{Permute(top.values, FromEnd(rank, axis)),
                Cast(Permute(top.indices, FromEnd(rank, axis)), DType::kI64)};
}

namespace {

Result<Values> Best(ImportedNode& node, bool largest) {
  const int rank = node.ShapeOf(0).rank();
  STOWAGE_ASSIGN_OR_RETURN(const int64_t axis,
                           node.Axis(node.Int("axis", 0), rank));
  const int64_t size = node.ShapeOf(0)[static_cast<int>(axis)];
  Value x = Permute(node.In(0), ToEnd(rank, axis));
  // The first of equals in reverse order is the last.
  const bool last = node.Int("select_last_index", 0) != 0;
  if (last) x = TakeAlong(x, rank - 1, size - 1, -1, size);
  Value at = Cast(ArgMax(largest ? x : Neg(x)), DType::kI64);
  if (last) at = Sub(Like(at, static_cast<double>(size - 1)), at);
  if (node.Int("keepdims", 1) == 0) return Values{at};
  Shape shape = node.ShapeOf(0);
  shape[static_cast<int>(axis)] = 1;
  return Values{Reshape(at, shape)};
}

}  // namespace

Result<Values> ConvertArgMax(ImportedNode& node) { return Best(node, true); }
Result<Values> ConvertArgMin(ImportedNode& node) { return Best(node, false); }

}  // namespace stowage::onnx

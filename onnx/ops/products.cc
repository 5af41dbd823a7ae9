// Matmuls, softmaxes and attention.

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/composites.h"
#include "ir/ops.h"
#include "onnx/ops.h"

namespace stowage::onnx {

namespace {

// Softmaxes along one axis from operator set 13 on; before, along all axes from it on.
Result<Values> ByRows(ImportedNode& node,
                      Value (*op)(Value, int64_t, SourceLoc)) {
  const Shape& shape = node.ShapeOf(0);
  const Value x = node.In(0);
  const bool one = node.version() >= 13;
  STOWAGE_ASSIGN_OR_RETURN(
      const int64_t axis,
      node.Axis(node.Int("axis", one ? -1 : 1), shape.rank()));
  if (one || axis + 1 == shape.rank()) {
    return Values{op(x, axis, SourceLoc::Current())};
  }
  int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= shape[i];
  const Value flat = Reshape(x, {rows, shape.num_elements() / rows});
  return Values{Reshape(op(flat, -1, SourceLoc::Current()), shape)};
}

// 1 at the first largest element of each row, 0 elsewhere.
Value HardmaxOf(Value x, int64_t axis, SourceLoc loc) {
  if (!x.ok()) return x;
  Axes order;
  for (int64_t i = 0; i < x.rank(); ++i) order.push_back(i);
  const int64_t last = x.rank() - 1;
  const int64_t at = axis < 0 ? axis + x.rank() : axis;
  std::swap(order[static_cast<size_t>(at)], order[static_cast<size_t>(last)]);
  const Value turned = Permute(x, order, loc);
  return Permute(
      OneHot(ArgMax(turned, loc), x.dim(static_cast<int>(at)), x.dtype(), loc),
      order, loc);
}

}  // namespace

Result<Values> ConvertSoftmax(ImportedNode& node) {
  return ByRows(node, Softmax);
}
Result<Values> ConvertLogSoftmax(ImportedNode& node) {
  return ByRows(node, LogSoftmax);
}

Result<Values> ConvertHardmax(ImportedNode& node) {
  return ByRows(node, HardmaxOf);
}

Result<Values> ConvertMatMul(ImportedNode& node) {
  const Shape &a = node.ShapeOf(0), &b = node.ShapeOf(1);
  if (a.rank() < 1 || b.rank() < 1) {
    return node.Wrong(StrCat("multiplies ", a.ToString(), " by ", b.ToString(),
                             "; expected at least one dimension each"));
  }
  // A vector is a row on the left and a column on the right.
  const Value left =
      a.rank() == 1 ? Reshape(node.In(0), {1, a[0]}) : node.In(0);
  const Value right =
      b.rank() == 1 ? Reshape(node.In(1), {b[0], 1}) : node.In(1);
  const Value y = MatMul(left, right);
  if (!y.ok() || (a.rank() > 1 && b.rank() > 1)) return Values{y};
  Shape shape;
  for (int i = 0; i < y.rank(); ++i) {
    const bool added = (a.rank() == 1 && i == y.rank() - 2) ||
                       (b.rank() == 1 && i == y.rank() - 1);
    if (!added) shape.push_back(y.dim(i));
  }
  return Values{Reshape(y, shape)};
}

Result<Values> ConvertGemm(ImportedNode& node) {
  const double alpha = node.Float("alpha", 1), beta = node.Float("beta", 1);
  Value y = MatMul(node.In(0), node.In(1), node.Int("transA", 0) != 0,
                   node.Int("transB", 0) != 0);
  if (alpha != 1) y = MulScalar(y, alpha);
  if (!node.Has(2) || beta == 0) return Values{y};
  const Value c = node.In(2);
  return Values{Add(y, beta == 1 ? c : MulScalar(c, beta))};
}

Result<Values> ConvertEinsum(ImportedNode& node) {
  Values operands;
  for (int i = 0; i < node.num_operands(); ++i) operands.push_back(node.In(i));
  std::string equation;
  for (const char c : node.Text("equation", "")) {
    if (c != ' ') equation += c;
  }
  return Values{Einsum(equation, operands)};
}

// --- Attention, from operator set 23 ---

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Operand i as (batch, positions, heads, width).
Result<Value> Heads(ImportedNode& node, int i, std::string_view heads_of) {
  const Shape& x = node.ShapeOf(i);
  if (x.rank() == 4) return Permute(node.In(i), {0, 2, 1, 3});
  const int64_t heads = node.Int(heads_of, 0);
  if (x.rank() != 3 || heads < 1 || x[2] % heads != 0) {
    return node.Wrong(StrCat("reads ", x.ToString(), " with ", heads, " ",
                             heads_of,
                             "; expected four dimensions, or three and heads "
                             "that divide the last"));
  }
  return Reshape(node.In(i), {x[0], x[1], heads, x[2] / heads});
}

// x after the past keys or values, (batch, heads, positions, width).
Value Behind(ImportedNode& node, int past, Value x) {
  if (!node.Has(past) || !x.ok()) return x;
  const Value before = Permute(node.In(past), {0, 2, 1, 3});
  return Concat(Values{before, x}, 1);
}

// The mask as an additive bias of rank 4; -inf for false.
Result<Value> BiasOf(ImportedNode& node, Value q, Value k) {
  const Shape& mask = node.ShapeOf(3);
  if (mask.rank() < 2 || mask.rank() > 4 || mask.back() != k.dim(1)) {
    return node.Unsupported(
        StrCat("has a mask of ", mask.ToString(), " for ", k.dim(1),
               " places; expected (..., queries, ", k.dim(1), ")"));
  }
  Value bias = node.In(3);
  if (node.Type(3).dtype == DType::kBool) {
    bias = Where(bias, Like(q, 0), Like(q, -kInfinity));
  }
  Shape shape;
  for (int i = mask.rank(); i < 4; ++i) shape.push_back(1);
  for (const int64_t dim : mask) shape.push_back(dim);
  return Reshape(Cast(bias, q.dtype()), shape);
}

// -inf for positions after `before` + the query's.
Value CausalBias(Value q, int64_t queries, int64_t places, int64_t before) {
  std::vector<double> numbers;
  for (int64_t t = 0; t < queries; ++t) {
    for (int64_t s = 0; s < places; ++s) {
      numbers.push_back(s <= t + before ? 0 : -kInfinity);
    }
  }
  const Array array = ArrayOf(q.dtype(), {1, 1, queries, places}, numbers);
  return Constant(*q.builder(), array.type.dtype, array.type.shape,
                  array.data());
}

}  // namespace

Result<Values> ConvertAttention(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Value q, Heads(node, 0, "q_num_heads"));
  STOWAGE_ASSIGN_OR_RETURN(const Value own_k, Heads(node, 1, "kv_num_heads"));
  STOWAGE_ASSIGN_OR_RETURN(const Value own_v, Heads(node, 2, "kv_num_heads"));
  const Value k = Behind(node, 4, own_k), v = Behind(node, 5, own_v);
  if (!q.ok() || !k.ok() || !v.ok()) return Values{q};
  if (node.Wants(3) || node.Has(6) || node.Float("softcap", 0) != 0) {
    return node.Unsupported(
        "gives out its products, caps them or is told how many places count; "
        "expected none of these");
  }
  const double scale = node.Float("scale", 0);
  if (node.Find("scale") && !(scale > 0)) {
    return node.Unsupported(
        StrCat("scales its products by ", scale, "; expected more than 0"));
  }
  for (const char* const window : {"left_window_size", "right_window_size"}) {
    if (node.Int(window, -1) < 0) continue;
    return node.Unsupported(StrCat("has a ", window, " of ",
                                   node.Int(window, -1),
                                   "; expected none, which is -1"));
  }
  const int64_t queries = q.dim(1), places = k.dim(1);
  const bool causal = node.Int("is_causal", 0) != 0;
  AttentionOptions options{.scale = scale};
  if (node.Has(3)) {
    STOWAGE_ASSIGN_OR_RETURN(options.bias, BiasOf(node, q, k));
  }
  if (causal) {
    // The first query is at the first position after the past ones.
    const int64_t before = node.Has(4) ? node.ShapeOf(4)[2] : 0;
    if (before + queries == places) {
      options.causal = true;
    } else if (queries > (int64_t{1} << 24) / places) {
      return node.Unsupported(StrCat("masks ", queries, " queries of ", places,
                                     " places; their product may be 2^24"));
    } else {
      const Value mask = CausalBias(q, queries, places, before);
      options.bias = options.bias.ok() ? Add(options.bias, mask) : mask;
    }
  }
  const Value y = Attention(q, k, v, options);
  if (!y.ok()) return Values{y};
  Values results(static_cast<size_t>(node.num_results()));
  results[0] = node.ShapeOf(0).rank() == 4
                   ? Permute(y, {0, 2, 1, 3})
                   : Reshape(y, {y.dim(0), y.dim(1), y.dim(2) * y.dim(3)});
  if (node.Wants(1)) results[1] = Permute(k, {0, 2, 1, 3});
  if (node.Wants(2)) results[2] = Permute(v, {0, 2, 1, 3});
  return results;
}

}  // namespace stowage::onnx

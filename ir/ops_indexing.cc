// The functions of ir/ops.h that work along an axis, count, mask and draw numbers.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// A negative axis counted from the end; others stay as they are, for the op to name.
int64_t FromFront(Value x, int64_t axis) {
  if (!x.ok() || axis >= 0 || axis + x.rank() < 0) return axis;
  return axis + x.rank();
}

// x "h" is f32(2, 3)
std::string Describe(std::string_view label, Value x) {
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
    return g.Fail(
        StrCat("[", name, "] ", Describe("x", x), "; expected rank at least 2"),
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
    return g.Fail(StrCat("[one_hot] ", Describe("indices", indices),
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

// A new axis in front of each that is repeated, and one copy of what is then spread.
Value Tile(Value x, const Axes& repeats, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  if (static_cast<int>(repeats.size()) != x.rank()) {
    return g.Fail(StrCat("[tile] there are ", repeats.size(),
                         " repeats: ", Describe("x", x), "; expected ",
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
    return g.Fail(StrCat("[tile] takes ", narrow.rank(),
                         " axes on the way, with one more "
                         "for each that is repeated: ",
                         Describe("x", x), "; expected at most ", kMaxRank),
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

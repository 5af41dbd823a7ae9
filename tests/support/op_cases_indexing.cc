// Rows of the op test table for what works along an axis, counts and draws numbers,
// and for what is put together from it.

#include <cstdint>
#include <string>

#include "tests/support/op_case_table.h"

namespace stowage::testing {
namespace {

void AddCumSum(OpCaseTable& t) {
  struct Way {
    const char* name;
    bool exclusive, reverse;
  };
  const Way ways[] = {{"", false, false},
                      {", exclusive", true, false},
                      {", reverse", false, true},
                      {", exclusive, reverse", true, true}};
  for (const Way& way : ways) {
    for (const int64_t axis : {0, 1, 2}) {
      t.Add(OpKind::kCumSum, StrCat(" along axis ", axis, way.name),
            {t.Real("x", {3, 5, 2})}, [way, axis](GraphBuilder&, In in) {
              return Out{CumSum(in[0], axis, way.exclusive, way.reverse)};
            });
    }
    t.Add(OpKind::kCumSum, StrCat(" of a row longer than a warp", way.name),
          {t.Real("x", {2, 71})}, [way](GraphBuilder&, In in) {
            return Out{CumSum(in[0], -1, way.exclusive, way.reverse)};
          });
  }
  t.Add(OpKind::kCumSum, " of a view", {t.Real("x", {4, 6})},
        [](GraphBuilder&, In in) { return Out{CumSum(Transpose(in[0]), 1)}; });
  t.Add(OpKind::kCumSum, " of i32", {t.Index("x", {3, 40}, 1000)},
        [](GraphBuilder&, In in) {
          return Out{CumSum(in[0], 1), CumSum(in[0], 0, true, true)};
        });
}

void AddAlongAxis(OpCaseTable& t) {
  struct AxisCase {
    int64_t axis;
    Shape x, indices;
  };
  const AxisCase cases[] = {
      {0, {5}, {8}},
      {0, {4, 3}, {2, 3}},
      {1, {2, 5, 3}, {2, 7, 3}},
      {2, {2, 3, 6}, {2, 3, 4}},
      {1, {3, 1}, {3, 5}},
  };
  for (const AxisCase& c : cases) {
    const auto limit = static_cast<double>(c.x[static_cast<int>(c.axis)]);
    const std::string variant = StrCat(" of ", c.x.ToString());
    const DType dtype = c.axis == 1 ? DType::kI64 : DType::kI32;
    t.Add(OpKind::kTakeAlongAxis, variant,
          {t.Real("x", c.x), t.Index("indices", c.indices, limit, dtype)},
          [c](GraphBuilder&, In in) {
            return Out{TakeAlongAxis(in[0], in[1], c.axis)};
          });
    t.Add(OpKind::kPutAdd, variant,
          {t.Real("base", c.x), t.Index("indices", c.indices, limit, dtype),
           t.Real("updates", c.indices)},
          [c](GraphBuilder&, In in) {
            return Out{PutAdd(in[0], in[1], in[2], c.axis)};
          });
  }
  t.Add(OpKind::kTakeAlongAxis, " of views, twice",
        {t.Real("x", {3, 4}), t.Index("indices", {3, 2}, 4)},
        [](GraphBuilder&, In in) {
          const Value x = Transpose(in[0]);
          return Out{Add(TakeAlongAxis(x, Transpose(in[1]), 0),
                         TakeAlongAxis(x, Transpose(in[1]), -2))};
        });
  // Indices that are one line for all, or one number for a row, as torch expands them.
  for (const int64_t axis : {0, 1, 2}) {
    for (const Shape& few : {Shape{1, 4, 1}, Shape{1, 1, 5}, Shape{2, 1, 1}}) {
      const std::string variant =
          StrCat(" along ", axis, " by ", few.ToString(), " for all");
      const Shape all = {2, 4, 5};
      const auto limit = 3.0;
      Shape shape = all;
      shape[static_cast<int>(axis)] = 3;
      t.Add(OpKind::kTakeAlongAxis, variant,
            {t.Real("x", shape), t.Index("indices", few, limit)},
            [axis, all](GraphBuilder&, In in) {
              return Out{TakeAlongAxis(in[0], BroadcastTo(in[1], all), axis)};
            });
      t.Add(OpKind::kPutAdd, variant,
            {t.Real("base", shape), t.Index("indices", few, limit),
             t.Real("updates", {5, 4, 2})},
            [axis, all](GraphBuilder&, In in) {
              return Out{PutAdd(in[0], BroadcastTo(in[1], all),
                                Permute(in[2], {2, 1, 0}), axis)};
            });
    }
  }
  t.Add(
      OpKind::kPutAdd, " of i32",
      {t.Index("base", {2, 4}, 9), t.Index("indices", {2, 6}, 4),
       t.Index("updates", {2, 6}, 9)},
      [](GraphBuilder&, In in) { return Out{PutAdd(in[0], in[1], in[2], 1)}; });
}

void AddTopK(OpCaseTable& t) {
  for (const bool descending : {true, false}) {
    const char* order = descending ? ", descending" : ", ascending";
    for (const int64_t k : {1, 3, 7}) {
      t.Add(OpKind::kTopK, StrCat(" ", k, " of 7", order),
            {t.Spread("x", {2, 3, 7})}, [k, descending](GraphBuilder&, In in) {
              const TopKResults top = TopK(in[0], k, descending);
              return Out{top.values, top.indices};
            });
    }
    t.Add(OpKind::kTopK, StrCat(" of equals", order), {t.Index("x", {300}, 9)},
          [descending](GraphBuilder&, In in) {
            const TopKResults all = Sort(in[0], descending);
            return Out{all.values, all.indices};
          });
  }
  t.Add(OpKind::kTopK, " of a view", {t.Spread("x", {5, 3})},
        [](GraphBuilder&, In in) {
          const TopKResults top = TopK(Transpose(in[0]), 2);
          return Out{Square(top.values), top.indices};
        });
}

void AddCounting(OpCaseTable& t) {
  t.Add(OpKind::kIota, "", {}, [real = t.real()](GraphBuilder& g, In) {
    return Out{Iota(g, real, -1.5, 0.25, 300),
               Iota(g, DType::kI64, 5e15, -3, 7),
               Iota(g, DType::kI32, 0, 1, 300), Iota(g, DType::kU8, 255, -5, 9),
               Iota(g, DType::kI16, -4, 0, 3)};
  });
  t.Add(OpKind::kIota, " as triangles", {t.Real("x", {2, 3, 4})},
        [](GraphBuilder&, In in) {
          return Out{Add(Tril(in[0], 1), Triu(in[0], -1)), Tril(in[0], -9),
                     Triu(in[0])};
        });
  t.Add(OpKind::kIota, " as one of many",
        {t.Index("i", {2, 3}, 5), t.Index("j", {4}, 9, DType::kI64)},
        [real = t.real()](GraphBuilder&, In in) {
          return Out{OneHot(in[0], 5, real), OneHot(in[1], 7, DType::kI32)};
        });
  t.Add(OpKind::kBroadcast, " as tiles", {t.Real("x", {2, 1, 3, 2})},
        [](GraphBuilder&, In in) {
          return Out{Tile(in[0], {3, 2, 1, 2}), Tile(in[0], {1, 1, 1, 1})};
        });
}

void AddRandom(OpCaseTable& t) {
  const LeafSpec seed = t.Index("seed", {}, 1e12, DType::kI64);
  const LeafSpec step = t.Index("step", {}, 1e6, DType::kI64);
  OpCase& uniform =
      t.Add(OpKind::kRandomUniform, "", {seed, step},
            [real = t.real()](GraphBuilder&, In in) {
              return Out{RandomUniform(in[0], in[1], {9, 7}, real, 3),
                         RandomUniform(in[0], in[1], {}, real, 4)};
            });
  uniform.tolerance = 0;  // the same bits everywhere
  t.Add(OpKind::kRandomNormal, "", {seed, step},
        [real = t.real()](GraphBuilder&, In in) {
          return Out{RandomNormal(in[0], in[1], {9, 7}, real, 3),
                     RandomNormal(in[0], in[1], {3}, real, 4)};
        });
}

}  // namespace

void AddIndexing(OpCaseTable& t) {
  AddCumSum(t);
  AddAlongAxis(t);
  AddTopK(t);
  AddCounting(t);
  AddRandom(t);
}

}  // namespace stowage::testing

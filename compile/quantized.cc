// What reads frozen matrices in quantized blocks: each row is decoded once.

#include "compile/ops.h"
#include "compile/products.h"
#include "compile/weight_rows.h"

namespace stowage::compile {

int64_t ScratchOfQuantizedMatMul(const Kernel& k) {
  return WeightRows(k.in(1), k.Int("blocks")).width();
}

void WriteQuantizedMatMul(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  const WeightRows w(k.in(1), k.Int("blocks"));
  const bool transposed = k.Int("transpose_w") == 1;
  const int64_t depth = x.shape().back(), n = y.shape().back();
  const int64_t rows = x.size() / depth;
  const std::string row_of_w(kScratch);
  if (!transposed) {
    k.For("i", y.size(), [&](const Expr& i) { k.Store(y, i, "0"); });
  }
  k.For("j", w.rows(), [&](const Expr& j) {
    w.Decode(k, j, row_of_w);
    k.For("row", rows, [&](const Expr& row) {
      if (transposed) {
        const Expr sum = WriteSum(k, depth, [&](const Expr& l) {
          return StrCat(k.Load(x, Plus({Times(row, depth), l})), " * ",
                        row_of_w, "[", l, "]");
        });
        return k.Store(y, Plus({Times(row, n), j}), sum);
      }
      k.Line("const real a = ", k.Load(x, Plus({Times(row, depth), j})), ";");
      k.For("c", n, [&](const Expr& c) {
        k.Line(y.name(), "[", Plus({Times(row, n), c}), "] += a * ", row_of_w,
               "[", c, "];");
      });
    });
  });
}

void WriteQuantizedGather(Kernel& k) {
  const Tensor &indices = k.in(1), &y = k.out(0);
  const WeightRows table(k.in(0), k.Int("blocks"));
  k.For("row", indices.size(), [&](const Expr& row) {
    const Expr index = k.LoadIndex(indices, row, table.rows());
    table.Decode(k, index, Plus({y.name(), Times(row, table.width())}));
  });
}

}  // namespace stowage::compile

// Matmuls, with the operations fused into their node. A frozen matrix in quantized blocks is
// decoded row by row.

#include <optional>
#include <vector>

#include "compile/ops.h"
#include "compile/products.h"
#include "ir/fused.h"

namespace stowage::compile {
namespace {

// A factor (..., rows, columns), perhaps transposed, or one shared by the batch.
struct Factor {
  const Tensor& tensor;
  bool transposed;

  int rank() const { return tensor.shape().rank(); }
  // The stride of rows, or of columns, after transposition.
  int64_t step(int axis) const {
    return tensor.strides()[rank() - 2 + (transposed ? 1 - axis : axis)];
  }
  Expr At(Kernel& k, const Index& batch, const Expr& row,
          const Expr& column) const {
    Index index(batch.begin(),
                batch.begin() +
                    std::min<std::ptrdiff_t>(
                        rank() - 2, static_cast<std::ptrdiff_t>(batch.size())));
    index.push_back(transposed ? column : row);
    index.push_back(transposed ? row : column);
    return k.Load(tensor, tensor.At(index));
  }
};

// Transforms the sum before it is stored.
void WriteEpilogue(Kernel& k, const Index& at, const Expr& sum) {
  const Expr to = k.out(0).At(at);
  if (k.op() == OpKind::kMatMul) return k.Store(k.out(0), to, sum);
  if (k.op() == OpKind::kFusedMatMul) {
    const Expr value = k.Fresh("product");
    k.Line("const real ", value, " = ", RoundedTo(k.out(0).dtype(), sum), ";");
    std::vector<Expr> leaves = {value};
    for (size_t i = kProductOperands; i < k.num_inputs(); ++i) {
      leaves.push_back(k.Fresh("leaf"));
      k.Line("const real ", leaves.back(), " = ",
             k.Load(k.in(i), k.in(i).At(at)), ";");
    }
    const std::vector<Expr> results(k.num_outputs(), to);
    return WriteChain(k, leaves, results);
  }
  const EpilogueOperands operands = EpilogueOperandsOf(k.attrs());
  Expr value = StrCat("(", sum, ")");
  if (operands.bias != 0) {
    const Tensor& bias = k.in(operands.bias);
    value += StrCat(" + ", k.Load(bias, bias.At({at.back()})));
  }
  if (operands.addend != 0) {
    const Tensor& addend = k.in(operands.addend);
    value += StrCat(" + ", k.Load(addend, addend.At(at)));
  }
  if (operands.x != 0) {
    const Tensor& x = k.in(operands.x);
    value =
        StrCat("(", value, ") * gelu_tanh_slope@(", k.Load(x, x.At(at)), ")");
  }
  k.Store(k.out(0), to, value);
}

// The sums over k of the rows of a, or of the columns of b, as result 1.
void WriteFactorSums(Kernel& k) {
  if (k.op() != OpKind::kEpilogueMatMul) return;
  const std::optional<SummedOperand> summed = SummedOperandOf(k.attrs());
  if (!summed) return;
  const Tensor& x = k.in(summed->place);
  const int64_t count = x.shape()[1 - summed->axis];
  if (summed->axis == 1) {
    return k.For("i", count, [&](const Expr& i) {
      k.Store(k.out(1), i, WriteSum(k, x.shape()[1], [&](const Expr& l) {
                return k.Load(x, x.At({i, l}));
              }));
    });
  }
  k.ForVectors("i", count, [&](const Expr& i) {
    k.Line("real sum = ", k.Load(x, i), ";");
    k.Block(StrCat("for (dim_t l = 1; l < ", x.shape()[0], "; ++l)"), [&] {
      k.Line("sum += ", k.Load(x, x.At({"l", i})), ";");
    });
    k.Store(k.out(1), i, "sum");
  });
}

struct MatMulShape {
  explicit MatMulShape(const Kernel& k)
      : a{k.in(0), k.Int("transpose_a") == 1},
        b{k.in(1), k.Int("transpose_b") == 1},
        m(k.out(0).shape()[k.out(0).shape().rank() - 2]),
        n(k.out(0).shape().back()),
        depth(a.tensor.shape()[a.rank() - (a.transposed ? 2 : 1)]),
        is_f32(k.in(0).dtype() == DType::kF32 &&
               k.in(1).dtype() == DType::kF32) {
    is_one_batch = b.rank() == 2 && !a.transposed && RowsFollow(k.out(0));
    for (size_t i = 0; i < k.num_inputs(); ++i) {
      if (i == 1 || k.in(i).shape().rank() < 2) continue;
      is_one_batch = is_one_batch && RowsFollow(k.in(i));
    }
    if (!is_one_batch) return;
    for (int axis = 0; axis < a.rank() - 2; ++axis) m *= a.tensor.shape()[axis];
  }

  // Whether the rows of each matrix of the batch follow those of the one before.
  static bool RowsFollow(const Tensor& x) {
    for (int axis = 0; axis + 2 < x.shape().rank(); ++axis) {
      if (x.shape()[axis] != 1 &&
          x.strides()[axis] != x.strides()[axis + 1] * x.shape()[axis + 1]) {
        return false;
      }
    }
    return true;
  }

  // Of workspace: for contiguous operands, since a plan knows no other strides.
  int64_t panel(const Kernel& k) const {
    if (!b.transposed || depth == 1 || !is_f32) return 0;
    return PanelSize(k, m, n, depth, /*is_along_k=*/!a.transposed);
  }

  const Factor a, b;
  int64_t m;  // of the whole batch, if it is one matmul
  const int64_t n, depth;
  const bool is_f32;
  bool is_one_batch = false;
};

}  // namespace

int64_t ScratchOfMatMul(const Kernel& k) { return MatMulShape(k).panel(k); }

void WriteMatMul(Kernel& k) {
  const MatMulShape mm(k);
  const Factor &a = mm.a, &b = mm.b;
  const Shape& y = k.out(0).shape();
  Shape batch(y.span().first(static_cast<size_t>(y.rank() - 2)));
  if (mm.is_one_batch) {
    for (int axis = 0; axis < batch.rank(); ++axis) batch[axis] = 1;
  }
  const bool is_along_n = b.step(1) == 1;
  const int64_t size = is_along_n ? 0 : mm.panel(k);
  const Tensor panel = k.Scratch(0, Shape{size});
  k.ForEach(batch, [&](const Index& of) {
    WriteProduct(
        k,
        {.m = mm.m,
         .n = mm.n,
         .k = mm.depth,
         .a = [&](const Expr& i, const Expr& l) { return a.At(k, of, i, l); },
         .b = [&](const Expr& l, const Expr& j) { return b.At(k, of, l, j); },
         .is_along_k = a.step(1) == 1 && b.step(0) == 1 && !is_along_n,
         .is_along_n = is_along_n,
         .is_f32 = mm.is_f32,
         .panel = size == 0 ? nullptr : &panel,
         .store =
             [&](const Expr& i, const Expr& j, const Expr& sum) {
               Index at = of;
               at.push_back(i);
               at.push_back(j);
               WriteEpilogue(k, at, sum);
             }});
  });
  WriteFactorSums(k);
}

void WriteGroupedMatMul(Kernel& k) {
  const Tensor &x = k.in(0), &w = k.in(1), &ends = k.in(2), &y = k.out(0);
  const bool transposed = k.Int("transpose_w") == 1;
  k.Line("dim_t group = 0;");
  k.For("row", x.shape()[0], [&](const Expr& row) {
    k.Line("while (group < ", ends.size(), " && ", k.Load(ends, "group"),
           " <= ", row, ") ++group;");
    k.For("j", y.shape()[1], [&](const Expr& j) {
      k.Line("real sum = 0;");
      k.Block(StrCat("if (group < ", w.shape()[0], ")"), [&] {
        k.For("l", x.shape()[1], [&](const Expr& l) {
          k.Line("sum += ", k.Load(x, x.At({row, l})), " * ",
                 k.Load(w, transposed ? w.At({"group", j, l})
                                      : w.At({"group", l, j})),
                 ";");
        });
      });
      k.Store(y, y.At({row, j}), "sum");
    });
  });
}

void WriteGroupedMatMulWeightGrad(Kernel& k) {
  const Tensor &x = k.in(0), &dy = k.in(1), &ends = k.in(2), &dw = k.out(0);
  k.Line("dim_t first = 0;");
  k.For("group", dw.shape()[0], [&](const Expr& group) {
    k.Line("const dim_t end = (dim_t)", k.Load(ends, group), ";");
    k.For("l", dw.shape()[1], [&](const Expr& l) {
      k.For("j", dw.shape()[2], [&](const Expr& j) {
        k.Line("real sum = 0;");
        k.Block("for (dim_t row = first; row < end; ++row)", [&] {
          k.Line("sum += ", k.Load(x, x.At({"row", l})), " * ",
                 k.Load(dy, dy.At({"row", j})), ";");
        });
        k.Store(dw, dw.At({group, l, j}), "sum");
      });
    });
    k.Line("first = end;");
  });
}

int64_t ScratchOfQuantizedMatMul(const Kernel& k) {
  return WeightRows(k.in(1), k.Int("blocks")).width();
}

void WriteQuantizedMatMul(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  const WeightRows w(k.in(1), k.Int("blocks"));
  const bool transposed = k.Int("transpose_w") == 1;
  const int64_t depth = x.shape().back(), n = y.shape().back();
  const int64_t rows = x.size() / depth;
  const Tensor row_of_w = k.Scratch(0, Shape{w.width()});
  if (!transposed) k.Clear(y);
  k.For("j", w.rows(), [&](const Expr& j) {
    w.Decode(k, j, row_of_w.name());
    k.For("row", rows, [&](const Expr& row) {
      if (transposed) {
        const Expr sum = WriteSum(k, depth, [&](const Expr& l) {
          return StrCat(k.Load(x, Plus({Times(row, depth), l})), " * ",
                        k.Load(row_of_w, l));
        });
        return k.Store(y, Plus({Times(row, n), j}), sum);
      }
      k.Line("const real a = ", k.Load(x, Plus({Times(row, depth), j})), ";");
      k.ForVectors("c", n, [&](const Expr& c) {
        const Expr at = Plus({Times(row, n), c});
        k.Store(y, at, StrCat(k.Load(y, at), " + a * ", k.Load(row_of_w, c)));
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

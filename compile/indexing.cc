// Ops that read or add at indices, which are checked.

#include "compile/ops.h"

namespace stowage::compile {

void WriteGather(Kernel& k) {
  const Tensor &table = k.in(0), &indices = k.in(1), &y = k.out(0);
  const int64_t width = table.size() / table.shape()[0];
  k.For("row", indices.size(), [&](const Expr& row) {
    const Expr index = k.LoadIndex(indices, row, table.shape()[0]);
    const Bytes element = SizeOf(y.dtype());
    k.Line("memcpy(", Plus({y.name(), Times(row, width)}), ", ",
           Plus({table.name(), Times(index, width)}), ", ", width * element,
           ");");
  });
}

namespace {

// y = x; y may be x.
void CopyBase(Kernel& k, const Tensor& x, const Tensor& y) {
  k.Block(StrCat("if (", y.name(), " != ", x.name(), ")"), [&] {
    k.Line("memcpy(", y.name(), ", ", x.name(), ", ",
           y.size() * SizeOf(y.dtype()), ");");
  });
}

void AddAt(Kernel& k, const Tensor& y, const Expr& at, const Expr& value) {
  if (k.width() > 1) {
    return k.Store(y, at, StrCat(k.Load(y, at), " + ", value));
  }
  k.Line(y.name(), "[", at, "] = (", CType(y.dtype()), ")(", y.name(), "[", at,
         "] + ", value, ");");
}

}  // namespace

void WriteScatterAdd(Kernel& k) {
  const Tensor &indices = k.in(1), &updates = k.in(2), &y = k.out(0);
  const int64_t width = y.size() / y.shape()[0];
  CopyBase(k, k.in(0), y);
  k.For("row", indices.size(), [&](const Expr& row) {
    const Expr index = k.LoadIndex(indices, row, y.shape()[0]);
    k.ForVectors("c", width, [&](const Expr& c) {
      AddAt(k, y, Plus({Times(index, width), c}),
            k.Load(updates, Plus({Times(row, width), c})));
    });
  });
}

void WriteTakeAlongAxis(Kernel& k) {
  const Tensor &x = k.in(0), &indices = k.in(1), &y = k.out(0);
  const auto axis = static_cast<size_t>(k.Int("axis"));
  k.ForEach(y.shape(), [&](const Index& at) {
    Index from = at;
    from[axis] =
        k.LoadIndex(indices, indices.At(at), x.shape()[static_cast<int>(axis)]);
    k.Line(y.name(), "[", y.At(at), "] = ", x.name(), "[", x.At(from), "];");
  });
}

void WritePutAdd(Kernel& k) {
  const Tensor &indices = k.in(1), &updates = k.in(2), &y = k.out(0);
  const auto axis = static_cast<size_t>(k.Int("axis"));
  CopyBase(k, k.in(0), y);
  k.ForEach(updates.shape(), [&](const Index& at) {
    Index to = at;
    to[axis] =
        k.LoadIndex(indices, indices.At(at), y.shape()[static_cast<int>(axis)]);
    AddAt(k, y, y.At(to), k.Load(updates, updates.At(at)));
  });
}

}  // namespace stowage::compile

// Sums, means and maxima over axes, and ops along one axis.

#include <optional>
#include <string_view>

#include "compile/ops.h"
#include "compile/sums.h"

namespace stowage::compile {
namespace {

// Loops over the axes of `shape` in `reduced`, or over the others, and sets their
// variables in `index`.
void ForAxes(Kernel& k, const Shape& shape, const std::vector<bool>& reduced,
             bool takes_reduced, Index* index,
             const std::function<void()>& body) {
  const std::function<void(int)> nest = [&](int axis) {
    if (axis == shape.rank()) return body();
    const auto a = static_cast<size_t>(axis);
    if (reduced[a] != takes_reduced) return nest(axis + 1);
    k.For(StrCat("i", axis), shape[axis], [&](const Expr& i) {
      (*index)[a] = i;
      nest(axis + 1);
    });
  };
  nest(0);
}

}  // namespace

void WriteReduce(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  const int rank = x.shape().rank();
  std::vector<bool> reduced(static_cast<size_t>(rank), false);
  for (const int64_t axis : k.attrs().Ints("axes")) {
    reduced[static_cast<size_t>(axis)] = true;
  }
  // The strides of the kept axes in y, including axes of size 1.
  Strides kept = Strides::Filled(rank, 0);
  int64_t step = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (reduced[static_cast<size_t>(axis)]) continue;
    kept[axis] = step;
    step *= x.shape()[axis];
  }
  const Tensor target(y.name(), {y.dtype(), x.shape()}, kept);
  Index index(static_cast<size_t>(rank), "0");
  ForAxes(k, x.shape(), reduced, /*takes_reduced=*/false, &index, [&] {
    const bool is_max = k.op() == OpKind::kReduceMax;
    const std::string_view type =
        IsFloat(x.dtype()) ? "real" : CType(x.dtype());
    Index first = index;
    for (size_t a = 0; a < first.size(); ++a) {
      if (reduced[a]) first[a] = "0";
    }
    const int64_t count = x.size() / y.size();
    std::optional<LongSum> sum;
    if (!is_max && IsFloat(x.dtype())) {
      sum.emplace(k, "result", count);
    } else {
      k.Line(type, " result = ", is_max ? k.Load(x, x.At(first)) : "0", ";");
    }
    ForAxes(k, x.shape(), reduced, /*takes_reduced=*/true, &index, [&] {
      const Expr element = k.Load(x, x.At(index));
      if (sum) {
        sum->Add(element);
      } else if (!is_max) {
        k.Line("result += ", element, ";");
      } else if (IsFloat(x.dtype())) {
        k.Line("result = maximum@(result, ", element, ");");
      } else {
        k.Line("if (", element, " > result) result = ", element, ";");
      }
    });
    k.Store(y, target.At(first),
            k.op() == OpKind::kReduceMean
                ? StrCat("result * ", k.Real(1 / static_cast<double>(count)))
                : "result");
  });
}

void WriteSumSquares(Kernel& k) {
  const Expr sum = WriteSum(k, k.in(0).size(), [&](const Expr& i) {
    const Expr a = k.LoadReal(k.in(0), i);
    return StrCat(a, " * ", a);
  });
  k.Store(k.out(0), "0", sum);
}

void WriteSumPartials(Kernel& k) {
  for (size_t i = 0; i < k.num_inputs(); ++i) {
    const int64_t size = k.out(i).size();
    k.ForVectors("j", size, [&](const Expr& j) {
      k.Line("real sum = ", k.LoadReal(k.in(i), j), ";");
      k.For("part", k.in(i).size() / size - 1, [&](const Expr& part) {
        k.Line("sum += ",
               k.LoadReal(k.in(i), Plus({StrCat(size), Times(part, size), j})),
               ";");
      });
      k.Store(k.out(i), j, "sum");
    });
  }
}

void WriteArgMax(Kernel& k) {
  const int64_t n = k.in(0).shape().back();
  k.For("row", k.out(0).size(), [&](const Expr& row) {
    const auto at = [&](const Expr& j) {
      return k.Load(k.in(0), Plus({Times(row, n), j}));
    };
    k.Line("dim_t best = 0;");
    k.For("j", n, [&](const Expr& j) {
      k.Line("const real a = (real)", at(j), ", b = (real)", at("best"), ";");
      k.Line("if (a > b || (a != a && b == b)) best = ", j, ";");
    });
    k.Store(k.out(0), row, "best");
  });
}

void WriteCumSum(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  const int axis = static_cast<int>(k.Int("axis"));
  const int64_t n = x.shape()[axis];
  Shape others = x.shape();
  others[axis] = 1;
  k.ForEach(others, [&](const Index& at) {
    k.Line(IsFloat(x.dtype()) ? "real" : CType(x.dtype()), " sum = 0;");
    k.For("j", n, [&](const Expr& j) {
      Index index = at;
      index[static_cast<size_t>(axis)] =
          k.Int("reverse") == 1 ? StrCat("(", n - 1, " - ", j, ")") : j;
      const std::string_view type =
          IsFloat(x.dtype()) ? "real" : CType(x.dtype());
      k.Line("const ", type, " next = (", type, ")(sum + ",
             k.Load(x, x.At(index)), ");");
      k.Store(y, y.At(index), k.Int("exclusive") == 1 ? "sum" : "next");
      k.Line("sum = next;");
    });
  });
}

// By selection: the next element is the first in order after the last one.
void WriteTopK(Kernel& k) {
  const Tensor& x = k.in(0);
  const int64_t n = x.shape().back(), count = k.Int("k");
  const bool descends = k.Int("descending") == 1;
  k.For("row", x.size() / n, [&](const Expr& row) {
    const auto at = [&](const Expr& j) {
      return StrCat(x.name(), "[", Plus({Times(row, n), j}), "]");
    };
    k.Line("dim_t last = -1;");
    k.For("rank", count, [&](const Expr& rank) {
      k.Line("dim_t best = -1;");
      k.For("j", n, [&](const Expr& j) {
        const char* const before = descends ? " > " : " < ";
        k.Line("if (last >= 0 && (", at(j), before, at("last"), " || (", at(j),
               " == ", at("last"), " && ", j, " <= last))) continue;");
        k.Line("if (best < 0 || ", at(j), before, at("best"), ") best = ", j,
               ";");
      });
      const Expr to = Plus({Times(row, count), rank});
      k.Line(k.out(0).name(), "[", to, "] = ", at("best"), ";");
      k.Line(k.out(1).name(), "[", to, "] = (", CType(k.out(1).dtype()),
             ")best;");
      k.Line("last = best;");
    });
  });
}

}  // namespace stowage::compile

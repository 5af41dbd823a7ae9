// Softmaxes and losses made of them. Rows are the last axis.

#include "compile/ops.h"

namespace stowage::compile {
namespace {

// Loops over the rows of `x`; `body` gets the row and a function from column to position.
void ForRows(
    Kernel& k, const Tensor& x,
    const std::function<void(const Expr&, int64_t,
                             const std::function<Expr(const Expr&)>&)>& body) {
  const int64_t n = x.shape().back();
  k.For("row", x.size() / n, [&](const Expr& row) {
    body(row, n, [&](const Expr& j) { return Plus({Times(row, n), j}); });
  });
}

// Declares `largest`, and `log_sum_exp` of elements at(0) to at(n - 1).
void WriteLogSumExp(Kernel& k, int64_t n,
                    const std::function<Expr(const Expr&)>& element) {
  k.Line("real largest = ", element("0"), ";");
  k.For("j", n, [&](const Expr& j) {
    k.Line("largest = maximum@(largest, ", element(j), ");");
  });
  k.Line("real total = 0;");
  k.For("j", n, [&](const Expr& j) {
    k.Line("total += exp@(", element(j), " - largest);");
  });
}

}  // namespace

void WriteSoftmax(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  ForRows(k, x, [&](const Expr&, int64_t n, const auto& at) {
    k.Line("real largest = ", k.Load(x, at("0")), ";");
    k.For("j", n, [&](const Expr& j) {
      k.Line("largest = maximum@(largest, ", k.Load(x, at(j)), ");");
    });
    k.Line("real total = 0;");
    if (k.op() == OpKind::kLogSoftmax) {
      k.For("j", n, [&](const Expr& j) {
        k.Line("total += exp@(", k.Load(x, at(j)), " - largest);");
      });
      k.Line("const real log_sum_exp = largest + log@(total);");
      k.For("j", n, [&](const Expr& j) {
        k.Store(y, at(j), StrCat(k.Load(x, at(j)), " - log_sum_exp"));
      });
      return;
    }
    k.For("j", n, [&](const Expr& j) {
      k.Line("const real e = exp@(", k.Load(x, at(j)), " - largest);");
      k.Store(y, at(j), "e");
      k.Line("total += e;");
    });
    k.Line("const real share = 1 / total;");
    k.For("j", n, [&](const Expr& j) {
      k.Store(y, at(j), StrCat(k.Load(y, at(j)), " * share"));
    });
  });
}

void WriteSoftmaxGrad(Kernel& k) {
  const bool took_log = k.op() == OpKind::kLogSoftmaxGrad;
  const Tensor &y = k.in(0), &dy = k.in(1), &dx = k.out(0);
  ForRows(k, y, [&](const Expr&, int64_t n, const auto& at) {
    k.Line("real sum = 0;");
    k.For("j", n, [&](const Expr& j) {
      k.Line("sum += ", k.Load(dy, at(j)),
             took_log ? "" : StrCat(" * ", k.Load(y, at(j))), ";");
    });
    k.For("j", n, [&](const Expr& j) {
      const Expr own = k.Load(y, at(j)), slope = k.Load(dy, at(j));
      k.Store(dx, at(j),
              took_log ? StrCat(slope, " - exp@(", own, ") * sum")
                       : StrCat(own, " * (", slope, " - sum)"));
    });
  });
}

void WriteCrossEntropy(Kernel& k) {
  const Tensor &x = k.in(0), &labels = k.in(1);
  k.Line("real loss = 0;");
  ForRows(k, x, [&](const Expr& row, int64_t n, const auto& at) {
    const Expr label = k.LoadIndex(labels, row, n);
    WriteLogSumExp(k, n, [&](const Expr& j) { return k.Load(x, at(j)); });
    k.Line("const real log_sum_exp = largest + log@(total);");
    k.Store(k.out(1), row, "log_sum_exp");
    k.Line("loss += log_sum_exp - ", k.Load(x, at(label)), ";");
  });
  const auto rows = static_cast<double>(x.size() / x.shape().back());
  k.Store(k.out(0), "0", StrCat("loss / ", k.Real(rows)));
}

void WriteCrossEntropyGrad(Kernel& k) {
  const Tensor &x = k.in(0), &labels = k.in(1), &dx = k.out(0);
  const auto rows = static_cast<double>(x.size() / x.shape().back());
  k.Line("const real share = ", k.Scalar(3), " / ", k.Real(rows), ";");
  ForRows(k, x, [&](const Expr& row, int64_t n, const auto& at) {
    const Expr label = k.LoadIndex(labels, row, n);
    k.Line("const real log_sum_exp = ", k.Load(k.in(2), row), ";");
    k.For("j", n, [&](const Expr& j) {
      k.Store(dx, at(j),
              StrCat("share * (exp@(", k.Load(x, at(j)), " - log_sum_exp) - (",
                     j, " == ", label, " ? 1 : 0))"));
    });
  });
}

}  // namespace stowage::compile

// Softmaxes and the losses made of them. Rows are the last axis. linear_cross_entropy
// computes the logits of a few rows at a time, in workspace.

#include <algorithm>

#include "compile/ops.h"
#include "compile/products.h"

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

constexpr int64_t kRowsAtOnce = 8;

struct Head {
  explicit Head(const Kernel& k)
      : x(k.in(0)),
        labels(k.in(2)),
        w(k.in(1), k.Int("blocks")),
        floats(k.in(1)),
        width(x.shape().back()),
        words(w.rows()),
        rows(x.size() / width),
        at_once(std::min(rows, kRowsAtOnce)),
        softcap(k.attrs().FloatOr("softcap", 0)) {}

  Expr Logit(const Expr& r, const Expr& j) const {
    return StrCat(kScratch, "[", Plus({Times(r, words), j}), "]");
  }
  // The workspace, after the logits, for a decoded row of quantized blocks.
  Expr Decoded() const { return StrCat(kScratch, " + ", at_once * words); }
  Expr DecodedAt(const Expr& c) const {
    return StrCat(kScratch, "[", Plus({StrCat(at_once * words), c}), "]");
  }
  // A logit from its sum.
  Expr Capped(const Kernel& k, const Expr& sum) const {
    if (softcap == 0) return sum;
    return StrCat(k.Real(softcap), " * tanh@((", sum, ") / ", k.Real(softcap),
                  ")");
  }
  Expr InX(const Expr& row, const Expr& c) const {
    return Plus({Times(row, width), c});
  }

  const Tensor &x, &labels;
  const WeightRows w;
  const Tensor& floats;
  const int64_t width, words, rows, at_once;
  const double softcap;  // of logits; 0: none
};

// The logits of `count` rows from row `first` on.
void WriteLogits(Kernel& k, const Head& head, const Expr& first,
                 int64_t count) {
  const auto x_at = [&](const Expr& r, const Expr& c) {
    return k.Load(head.x, head.InX(Plus({first, r}), c));
  };
  if (head.w.is_quantized()) {
    k.For("j", head.words, [&](const Expr& j) {
      head.w.Decode(k, j, head.Decoded());
      k.For("r", count, [&](const Expr& r) {
        const Expr sum = WriteSum(k, head.width, [&](const Expr& c) {
          return StrCat(x_at(r, c), " * ", head.DecodedAt(c));
        });
        k.Line(head.Logit(r, j), " = ", head.Capped(k, sum), ";");
      });
    });
    return;
  }
  WriteProduct(
      k, {.m = count,
          .n = head.words,
          .k = head.width,
          .a = x_at,
          .b =
              [&](const Expr& c, const Expr& j) {
                return k.Load(head.floats, Plus({Times(j, head.width), c}));
              },
          .is_along_k = true,
          .store =
              [&](const Expr& r, const Expr& j, const Expr& sum) {
                k.Line(head.Logit(r, j), " = ", head.Capped(k, sum), ";");
              }});
}

// Loops over blocks of rows: writes logits, and for each row the label and `log_sum_exp`,
// for of_row(r, row, label); then of_block(first, count).
void ForRowBlocks(
    Kernel& k, const Head& head,
    const std::function<void(const Expr& r, const Expr& row,
                             const Expr& label)>& of_row,
    const std::function<void(const Expr& first, int64_t count)>& of_block) {
  ForBlocks(k, "first", head.rows, kRowsAtOnce,
            [&](const Expr& first, int64_t count) {
              WriteLogits(k, head, first, count);
              k.For("r", count, [&](const Expr& r) {
                const Expr row = Plus({first, r});
                const Expr label = k.LoadIndex(head.labels, row, head.words);
                k.Line("real largest = ", head.Logit(r, "0"), ";");
                k.For("j", head.words, [&](const Expr& j) {
                  k.Line("largest = maximum@(largest, ", head.Logit(r, j),
                         ");");
                });
                k.Line("real total = 0;");
                k.For("j", head.words, [&](const Expr& j) {
                  k.Line("total += exp@(", head.Logit(r, j), " - largest);");
                });
                k.Line("const real log_sum_exp = largest + log@(total);");
                of_row(r, row, label);
              });
              of_block(first, count);
            });
}

// dx and dw of a block, from the gradients of its logits, which have replaced them.
void WriteGradients(Kernel& k, const Head& head, const Expr& first,
                    int64_t count) {
  const Tensor& dx = k.out(1);
  const auto in_dx = [&](const Expr& r, const Expr& c) {
    return head.InX(Plus({first, r}), c);
  };
  if (head.w.is_quantized()) {
    k.For("r", count, [&](const Expr& r) {
      k.For("c", head.width,
            [&](const Expr& c) { k.Store(dx, in_dx(r, c), "0"); });
    });
    k.For("j", head.words, [&](const Expr& j) {
      head.w.Decode(k, j, head.Decoded());
      k.For("r", count, [&](const Expr& r) {
        k.Line("const real d = ", head.Logit(r, j), ";");
        k.For("c", head.width, [&](const Expr& c) {
          k.Line(dx.name(), "[", in_dx(r, c), "] += d * ", head.DecodedAt(c),
                 ";");
        });
      });
    });
    return;
  }
  WriteProduct(
      k, {.m = count,
          .n = head.width,
          .k = head.words,
          .a = [&](const Expr& r, const Expr& j) { return head.Logit(r, j); },
          .b =
              [&](const Expr& j, const Expr& c) {
                return k.Load(head.floats, Plus({Times(j, head.width), c}));
              },
          .store = [&](const Expr& r, const Expr& c,
                       const Expr& sum) { k.Store(dx, in_dx(r, c), sum); }});
  if (k.num_outputs() < 3) return;
  const Tensor& dw = k.out(2);
  WriteProduct(
      k, {.m = head.words,
          .n = head.width,
          .k = count,
          .a = [&](const Expr& j, const Expr& r) { return head.Logit(r, j); },
          .b = [&](const Expr& r,
                   const Expr& c) { return k.Load(head.x, in_dx(r, c)); },
          .store =
              [&](const Expr& j, const Expr& c, const Expr& sum) {
                k.Line(dw.name(), "[", Plus({Times(j, head.width), c}),
                       "] += ", sum, ";");
              }});
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

int64_t ScratchOfLinearCrossEntropy(const Kernel& k) {
  const Head head(k);
  return head.at_once * head.words + (head.w.is_quantized() ? head.width : 0);
}

void WriteLinearCrossEntropy(Kernel& k) {
  const Head head(k);
  k.Line("real loss = 0;");
  ForRowBlocks(
      k, head,
      [&](const Expr& r, const Expr& row, const Expr& label) {
        k.Line("const real of_row = log_sum_exp - ", head.Logit(r, label), ";");
        k.Store(k.out(1), row, "of_row");
        k.Line("loss += ",
               k.num_inputs() > 3 ? StrCat(k.Load(k.in(3), row), " * ") : "",
               "of_row;");
      },
      [](const Expr&, int64_t) {});
  k.Store(k.out(0), "0",
          StrCat("loss / ", k.Real(static_cast<double>(head.rows))));
}

void WriteLinearCrossEntropyGrad(Kernel& k) {
  const Head head(k);
  const Expr rows = k.Real(static_cast<double>(head.rows));
  if (k.num_outputs() > 2) {
    k.For("i", k.out(2).size(),
          [&](const Expr& i) { k.Store(k.out(2), i, "0"); });
  }
  k.Line("real loss = 0;");
  ForRowBlocks(
      k, head,
      [&](const Expr& r, const Expr& row, const Expr& label) {
        k.Line("const real weight = ",
               k.num_inputs() > 4 ? k.Load(k.in(4), row) : "1", ";");
        k.Line("loss += weight * (log_sum_exp - ", head.Logit(r, label), ");");
        k.Line("const real share = ", k.Scalar(3), " * weight / ", rows, ";");
        k.For("j", head.words, [&](const Expr& j) {
          k.Line("const real logit = ", head.Logit(r, j), ";");
          Expr slope;  // of the softcap
          if (head.softcap > 0) {
            k.Line("const real part = logit / ", k.Real(head.softcap), ";");
            slope = " * (1 - part * part)";
          }
          k.Line(head.Logit(r, j), " = share * (exp@(logit - log_sum_exp) - (",
                 j, " == ", label, " ? 1 : 0))", slope, ";");
        });
      },
      [&](const Expr& first, int64_t count) {
        WriteGradients(k, head, first, count);
      });
  k.Store(k.out(0), "0", StrCat("loss / ", rows));
}

}  // namespace stowage::compile

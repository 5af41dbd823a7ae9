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

// Declares `largest` and `total`, the sum of e^(element - largest).
void WriteSumExp(Kernel& k, int64_t n,
                 const std::function<Expr(const Expr&)>& element) {
  WriteLargest(k, n, element);
  Sums sums(k, {"total"}, n);
  k.ForVectors("j", n, [&](const Expr& j) {
    sums.Add(0, StrCat("exp@(", element(j), " - largest)"));
  });
  sums.Finish();
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
        logits(k.Scratch(0, Shape{at_once, words})),
        decoded(k.Scratch(at_once * words, Shape{width})),
        softcap(k.attrs().FloatOr("softcap", 0)) {}

  Expr Logit(Kernel& k, const Expr& r, const Expr& j) const {
    return k.Load(logits, logits.At({r, j}));
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
  const Tensor logits, decoded;  // decoded: a row of quantized blocks
  const double softcap;          // of logits; 0: none
};

// The logits of `count` rows from row `first` on.
void WriteLogits(Kernel& k, const Head& head, const Expr& first,
                 int64_t count) {
  const auto x_at = [&](const Expr& r, const Expr& c) {
    return k.Load(head.x, head.InX(Plus({first, r}), c));
  };
  if (head.w.is_quantized()) {
    k.For("j", head.words, [&](const Expr& j) {
      head.w.Decode(k, j, head.decoded.name());
      k.For("r", count, [&](const Expr& r) {
        const Expr sum = WriteSum(k, head.width, [&](const Expr& c) {
          return StrCat(x_at(r, c), " * ", k.Load(head.decoded, c));
        });
        k.Store(head.logits, head.logits.At({r, j}), head.Capped(k, sum));
      });
    });
    return;
  }
  WriteProduct(
      k,
      {.m = count,
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
             k.Store(head.logits, head.logits.At({r, j}), head.Capped(k, sum));
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
                WriteSumExp(k, head.words,
                            [&](const Expr& j) { return head.Logit(k, r, j); });
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
      head.w.Decode(k, j, head.decoded.name());
      k.For("r", count, [&](const Expr& r) {
        k.Line("const real d = ", head.Logit(k, r, j), ";");
        k.ForVectors("c", head.width, [&](const Expr& c) {
          k.Store(dx, in_dx(r, c),
                  StrCat(k.Load(dx, in_dx(r, c)), " + d * ",
                         k.Load(head.decoded, c)));
        });
      });
    });
    return;
  }
  WriteProduct(
      k,
      {.m = count,
       .n = head.width,
       .k = head.words,
       .a = [&](const Expr& r, const Expr& j) { return head.Logit(k, r, j); },
       .b =
           [&](const Expr& j, const Expr& c) {
             return k.Load(head.floats, Plus({Times(j, head.width), c}));
           },
       .is_along_n = true,
       .store = [&](const Expr& r, const Expr& c,
                    const Expr& sum) { k.Store(dx, in_dx(r, c), sum); }});
  if (k.num_outputs() < 3) return;
  const Tensor& dw = k.out(2);
  WriteProduct(
      k,
      {.m = head.words,
       .n = head.width,
       .k = count,
       .a = [&](const Expr& j, const Expr& r) { return head.Logit(k, r, j); },
       .b = [&](const Expr& r,
                const Expr& c) { return k.Load(head.x, in_dx(r, c)); },
       .is_along_n = true,
       .store =
           [&](const Expr& j, const Expr& c, const Expr& sum) {
             const Expr at = Plus({Times(j, head.width), c});
             k.Store(dw, at, StrCat(k.Load(dw, at), " + ", sum));
           }});
}

}  // namespace

void WriteSoftmax(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  ForRows(k, x, [&](const Expr&, int64_t n, const auto& at) {
    const auto element = [&](const Expr& j) { return k.Load(x, at(j)); };
    if (k.op() == OpKind::kLogSoftmax) {
      WriteSumExp(k, n, element);
      k.Line("const real log_sum_exp = largest + log@(total);");
      return k.ForVectors("j", n, [&](const Expr& j) {
        k.Store(y, at(j), StrCat(element(j), " - log_sum_exp"));
      });
    }
    WriteLargest(k, n, element);
    Sums sums(k, {"total"}, n);
    k.ForVectors("j", n, [&](const Expr& j) {
      k.Line("const real e = exp@(", element(j), " - largest);");
      k.Store(y, at(j), "e");
      sums.Add(0, "e");
    });
    sums.Finish();
    k.Line("const real share = 1 / total;");
    k.ForVectors("j", n, [&](const Expr& j) {
      k.Store(y, at(j), StrCat(k.Load(y, at(j)), " * share"));
    });
  });
}

void WriteSoftmaxGrad(Kernel& k) {
  const bool took_log = k.op() == OpKind::kLogSoftmaxGrad;
  const Tensor &y = k.in(0), &dy = k.in(1), &dx = k.out(0);
  ForRows(k, y, [&](const Expr&, int64_t n, const auto& at) {
    const Expr sum = WriteSum(k, n, [&](const Expr& j) {
      const Expr slope = k.Load(dy, at(j));
      return took_log ? slope : StrCat(slope, " * ", k.Load(y, at(j)));
    });
    k.ForVectors("j", n, [&](const Expr& j) {
      const Expr own = k.Load(y, at(j)), slope = k.Load(dy, at(j));
      k.Store(dx, at(j),
              took_log ? StrCat(slope, " - exp@(", own, ") * ", sum)
                       : StrCat(own, " * (", slope, " - ", sum, ")"));
    });
  });
}

void WriteCrossEntropy(Kernel& k) {
  const Tensor &x = k.in(0), &labels = k.in(1);
  const int64_t rows = x.size() / x.shape().back();
  LongSum loss(k, "loss", rows);
  ForRows(k, x, [&](const Expr& row, int64_t n, const auto& at) {
    const Expr label = k.LoadIndex(labels, row, n);
    WriteSumExp(k, n, [&](const Expr& j) { return k.Load(x, at(j)); });
    k.Line("const real log_sum_exp = largest + log@(total);");
    k.Store(k.out(1), row, "log_sum_exp");
    loss.Add(StrCat("log_sum_exp - ", k.Load(x, at(label))));
  });
  k.Store(k.out(0), "0", StrCat("loss / ", k.Real(static_cast<double>(rows))));
}

void WriteCrossEntropyGrad(Kernel& k) {
  const Tensor &x = k.in(0), &labels = k.in(1), &dx = k.out(0);
  const auto rows = static_cast<double>(x.size() / x.shape().back());
  k.Line("const real share = ", k.Scalar(3), " / ", k.Real(rows), ";");
  ForRows(k, x, [&](const Expr& row, int64_t n, const auto& at) {
    const Expr label = k.LoadIndex(labels, row, n);
    k.Line("const real log_sum_exp = ", k.Load(k.in(2), row), ";");
    // dx may be x.
    k.Line("const real of_label = share * (exp@(", k.Load(x, at(label)),
           " - log_sum_exp) - 1);");
    k.ForVectors("j", n, [&](const Expr& j) {
      k.Store(dx, at(j),
              StrCat("share * exp@(", k.Load(x, at(j)), " - log_sum_exp)"));
    });
    k.Store(dx, at(label), "of_label");
  });
}

int64_t ScratchOfLinearCrossEntropy(const Kernel& k) {
  const Head head(k);
  return head.at_once * head.words + (head.w.is_quantized() ? head.width : 0);
}

void WriteLinearCrossEntropy(Kernel& k) {
  const Head head(k);
  LongSum loss(k, "loss", head.rows);
  ForRowBlocks(
      k, head,
      [&](const Expr& r, const Expr& row, const Expr& label) {
        k.Line("const real of_row = log_sum_exp - ", head.Logit(k, r, label),
               ";");
        k.Store(k.out(1), row, "of_row");
        loss.Add(StrCat(
            k.num_inputs() > 3 ? StrCat(k.Load(k.in(3), row), " * ") : "",
            "of_row"));
      },
      [](const Expr&, int64_t) {});
  k.Store(k.out(0), "0",
          StrCat("loss / ", k.Real(static_cast<double>(head.rows))));
}

void WriteLinearCrossEntropyGrad(Kernel& k) {
  const Head head(k);
  const Expr rows = k.Real(static_cast<double>(head.rows));
  if (k.num_outputs() > 2) k.Clear(k.out(2));
  LongSum loss(k, "loss", head.rows);
  ForRowBlocks(
      k, head,
      [&](const Expr& r, const Expr& row, const Expr& label) {
        k.Line("const real weight = ",
               k.num_inputs() > 4 ? k.Load(k.in(4), row) : "1", ";");
        loss.Add(
            StrCat("weight * (log_sum_exp - ", head.Logit(k, r, label), ")"));
        k.Line("const real share = ", k.Scalar(3), " * weight / ", rows, ";");
        // The slope of the softcap, from a logit.
        const auto slope = [&](const Expr& logit) {
          if (head.softcap == 0) return Expr("");
          const Expr part =
              StrCat("(", logit, " / ", k.Real(head.softcap), ")");
          return StrCat(" * (1 - ", part, " * ", part, ")");
        };
        k.Line("const real at_label = ", head.Logit(k, r, label), ";");
        k.ForVectors("j", head.words, [&](const Expr& j) {
          k.Line("const real logit = ", head.Logit(k, r, j), ";");
          k.Store(head.logits, head.logits.At({r, j}),
                  StrCat("share * exp@(logit - log_sum_exp)", slope("logit")));
        });
        k.Store(head.logits, head.logits.At({r, label}),
                StrCat("share * (exp@(at_label - log_sum_exp) - 1)",
                       slope("at_label")));
      },
      [&](const Expr& first, int64_t count) {
        WriteGradients(k, head, first, count);
      });
  k.Store(k.out(0), "0", StrCat("loss / ", rows));
}

}  // namespace stowage::compile

// Norms over rows, channels and neighbouring channels, and their gradients.

#include <string>
#include <vector>

#include "compile/ops.h"
#include "compile/sums.h"
#include "ir/element_groups.h"
#include "ir/windows.h"

namespace stowage::compile {
namespace {

// Sets the sums of a norm's params to 0. With partial sums, the first part has the sums,
// and the others are 0.
void ClearParams(Kernel& k) {
  for (size_t r = 1; r < k.num_outputs(); ++r) k.Clear(k.out(r));
}

void AddToParam(Kernel& k, size_t result, const Expr& j, const Expr& value) {
  k.Store(k.out(result), j, StrCat(k.Load(k.out(result), j), " + ", value));
}

}  // namespace

void WriteLayerNorm(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  const int64_t n = x.shape().back();
  k.For("row", x.size() / n, [&](const Expr& row) {
    const auto at = [&](const Expr& j) { return Plus({Times(row, n), j}); };
    const Expr sum =
        WriteSum(k, n, [&](const Expr& j) { return k.Load(x, at(j)); });
    const auto count = static_cast<double>(n);
    k.Line("const real mean = ", sum, " / ", k.Real(count), ";");
    const Expr squares = WriteSum(k, n, [&](const Expr& j) {
      const Expr apart = StrCat("(", k.Load(x, at(j)), " - mean)");
      return StrCat(apart, " * ", apart);
    });
    k.Line("const real rstd = 1 / sqrt@(", squares, " / ", k.Real(count), " + ",
           k.Real(k.attrs().Float("eps")), ");");
    k.Store(k.out(1), row, "mean");
    k.Store(k.out(2), row, "rstd");
    k.ForVectors("j", n, [&](const Expr& j) {
      k.Store(y, at(j),
              StrCat("(", k.Load(x, at(j)), " - mean) * rstd * ",
                     k.Load(k.in(1), j), " + ", k.Load(k.in(2), j)));
    });
  });
}

void WriteLayerNormGrad(Kernel& k) {
  const Tensor &x = k.in(0), &gamma = k.in(1), &dy = k.in(4), &dx = k.out(0);
  const int64_t n = x.shape().back();
  const bool adds = k.op() == OpKind::kLayerNormGradAdd;
  ClearParams(k);
  k.For("row", x.size() / n, [&](const Expr& row) {
    const auto at = [&](const Expr& j) { return Plus({Times(row, n), j}); };
    k.Line("const real mean = ", k.Load(k.in(2), row), ";");
    k.Line("const real rstd = ", k.Load(k.in(3), row), ";");
    Sums sums(k, {"mean_g", "mean_gn"}, n);
    k.ForVectors("j", n, [&](const Expr& j) {
      k.Line("const real normal = (", k.Load(x, at(j)), " - mean) * rstd;");
      k.Line("const real slope = ", k.Load(dy, at(j)), ";");
      k.Line("const real g = slope * ", k.Load(gamma, j), ";");
      sums.Add(0, "g");
      sums.Add(1, "g * normal");
      AddToParam(k, 1, j, "slope * normal");
      AddToParam(k, 2, j, "slope");
    });
    sums.Finish();
    const auto count = static_cast<double>(n);
    k.Line("mean_g /= ", k.Real(count), ";");
    k.Line("mean_gn /= ", k.Real(count), ";");
    k.ForVectors("j", n, [&](const Expr& j) {
      k.Line("const real normal = (", k.Load(x, at(j)), " - mean) * rstd;");
      k.Store(dx, at(j),
              StrCat("rstd * (", k.Load(dy, at(j)), " * ", k.Load(gamma, j),
                     " - mean_g - normal * mean_gn)",
                     adds ? StrCat(" + ", k.Load(k.in(5), at(j))) : ""));
    });
  });
}

void WriteRmsNorm(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  const int64_t n = x.shape().back();
  k.For("row", x.size() / n, [&](const Expr& row) {
    const auto at = [&](const Expr& j) { return Plus({Times(row, n), j}); };
    const Expr squares = WriteSum(k, n, [&](const Expr& j) {
      return StrCat(k.Load(x, at(j)), " * ", k.Load(x, at(j)));
    });
    k.Line("const real rstd = 1 / sqrt@(", squares, " / ",
           k.Real(static_cast<double>(n)), " + ",
           k.Real(k.attrs().Float("eps")), ");");
    k.Store(k.out(1), row, "rstd");
    k.ForVectors("j", n, [&](const Expr& j) {
      k.Store(y, at(j),
              StrCat(k.Load(x, at(j)), " * rstd * ", k.Load(k.in(1), j)));
    });
  });
}

void WriteRmsNormGrad(Kernel& k) {
  const Tensor &x = k.in(0), &gamma = k.in(1), &dy = k.in(3), &dx = k.out(0);
  const int64_t n = x.shape().back();
  ClearParams(k);
  k.For("row", x.size() / n, [&](const Expr& row) {
    const auto at = [&](const Expr& j) { return Plus({Times(row, n), j}); };
    k.Line("const real rstd = ", k.Load(k.in(2), row), ";");
    Sums sums(k, {"product"}, n);
    k.ForVectors("j", n, [&](const Expr& j) {
      k.Line("const real slope = ", k.Load(dy, at(j)), " * ", k.Load(x, at(j)),
             ";");
      sums.Add(0, StrCat("slope * ", k.Load(gamma, j)));
      AddToParam(k, 1, j, "slope * rstd");
    });
    sums.Finish();
    k.Line("const real share = product * rstd * rstd / ",
           k.Real(static_cast<double>(n)), ";");
    k.ForVectors("j", n, [&](const Expr& j) {
      k.Store(dx, at(j),
              StrCat("rstd * (", k.Load(dy, at(j)), " * ", k.Load(gamma, j),
                     " - ", k.Load(x, at(j)), " * share)"));
    });
  });
}

// --- batch_norm: (N, C, rest...), over everything but C ---

namespace {

// Loops over the elements of a channel.
void ForChannel(Kernel& k, const Tensor& x, const Expr& channel,
                const std::function<void(const Expr& at)>& body) {
  const int64_t channels = x.shape()[1];
  const int64_t inner = x.size() / (x.shape()[0] * channels);
  k.For("n", x.shape()[0], [&](const Expr& n) {
    k.ForVectors("i", inner, [&](const Expr& i) {
      body(Plus({Times(n, channels * inner), Times(channel, inner), i}));
    });
  });
}

// Declares `name` and `name`_of_row for each name, the sums over a channel and over its part of
// one example; `body` adds to the latter.
void SumChannel(Kernel& k, const Tensor& x, const Expr& channel,
                const std::vector<std::string>& names,
                const std::function<void(Sums& sums, const Expr& at)>& body) {
  const int64_t channels = x.shape()[1];
  const int64_t inner = x.size() / (x.shape()[0] * channels);
  std::vector<LongSum> totals;
  for (const std::string& name : names) {
    totals.emplace_back(k, name, x.shape()[0]);
  }
  k.For("n", x.shape()[0], [&](const Expr& n) {
    std::vector<std::string> of_row;
    for (const std::string& name : names) of_row.push_back(name + "_of_row");
    Sums sums(k, of_row, inner);
    k.ForVectors("i", inner, [&](const Expr& i) {
      body(sums, Plus({Times(n, channels * inner), Times(channel, inner), i}));
    });
    sums.Finish();
    for (size_t i = 0; i < totals.size(); ++i) totals[i].Add(sums.name(i));
  });
}

double CountOfChannel(const Tensor& x) {
  return static_cast<double>(x.size() / x.shape()[1]);
}

}  // namespace

void WriteBatchNorm(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  const Expr count = k.Real(CountOfChannel(x));
  k.For("c", x.shape()[1], [&](const Expr& c) {
    SumChannel(k, x, c, {"mean"},
               [&](Sums& sums, const Expr& at) { sums.Add(0, k.Load(x, at)); });
    k.Line("mean /= ", count, ";");
    SumChannel(k, x, c, {"variance"}, [&](Sums& sums, const Expr& at) {
      k.Line("const real apart = ", k.Load(x, at), " - mean;");
      sums.Add(0, "apart * apart");
    });
    k.Line("variance /= ", count, ";");
    k.Store(k.out(1), c, "mean");
    k.Store(k.out(2), c, "variance");
    k.Line("const real rstd = 1 / sqrt@(variance + ",
           k.Real(k.attrs().Float("eps")), ");");
    k.Line("const real gamma = ", k.Load(k.in(1), c), ";");
    k.Line("const real beta = ", k.Load(k.in(2), c), ";");
    ForChannel(k, x, c, [&](const Expr& at) {
      k.Store(y, at,
              StrCat("(", k.Load(x, at), " - mean) * rstd * gamma + beta"));
    });
  });
}

void WriteBatchNormGrad(Kernel& k) {
  const Tensor &x = k.in(0), &dy = k.in(4), &dx = k.out(0);
  const Expr count = k.Real(CountOfChannel(x));
  k.For("c", x.shape()[1], [&](const Expr& c) {
    k.Line("const real mean = ", k.Load(k.in(2), c), ";");
    k.Line("const real rstd = 1 / sqrt@(", k.Load(k.in(3), c), " + ",
           k.Real(k.attrs().Float("eps")), ");");
    k.Line("const real gamma = ", k.Load(k.in(1), c), ";");
    SumChannel(k, x, c, {"dgamma", "dbeta"}, [&](Sums& sums, const Expr& at) {
      k.Line("const real slope = ", k.Load(dy, at), ";");
      sums.Add(0, StrCat("slope * ((", k.Load(x, at), " - mean) * rstd)"));
      sums.Add(1, "slope");
    });
    k.Store(k.out(1), c, "dgamma");
    k.Store(k.out(2), c, "dbeta");
    k.Line("const real mean_gn = dgamma / ", count, ";");
    k.Line("const real mean_g = dbeta / ", count, ";");
    ForChannel(k, x, c, [&](const Expr& at) {
      k.Line("const real normal = (", k.Load(x, at), " - mean) * rstd;");
      k.Store(dx, at,
              StrCat("gamma * rstd * (", k.Load(dy, at),
                     " - mean_g - normal * mean_gn)"));
    });
  });
}

// --- local_response_norm: one place of all channels at a time, in scratch memory ---

int64_t ScratchOfLocalResponseNorm(const Kernel& k) {
  return 3 * k.in(0).shape()[1];
}

namespace {

// For each position: scratch holds x of all channels from 0 on, and the bases of the powers
// from `channels` on.
void ForPlaces(
    Kernel& k,
    const std::function<void(const std::function<Expr(const Expr& c)>& at)>&
        body) {
  const Tensor& x = k.in(0);
  const int64_t channels = x.shape()[1];
  const int64_t inner = x.size() / (x.shape()[0] * channels);
  const ChannelWindow window = ChannelWindow::Of(k.Int("size"), channels);
  k.For("n", x.shape()[0], [&](const Expr& n) {
    k.For("i", inner, [&](const Expr& i) {
      const auto at = [&](const Expr& c) {
        return Plus({Times(n, channels * inner), Times(c, inner), i});
      };
      k.For("c", channels, [&](const Expr& c) {
        k.Line(kScratch, "[", c, "] = ", k.Load(x, at(c)), ";");
      });
      k.For("c", channels, [&](const Expr& c) {
        k.Line("real squares = 0;");
        k.Block(StrCat("for (dim_t w = ", c, " < ", window.before, " ? 0 : ", c,
                       " - ", window.before, "; w < ", channels, " && w <= ", c,
                       " + ", window.after, "; ++w)"),
                [&] {
                  k.Line("squares += ", kScratch, "[w] * ", kScratch, "[w];");
                });
        const double alpha = k.attrs().Float("alpha");
        k.Line(kScratch, "[", channels, " + ", c,
               "] = ", k.Real(k.attrs().Float("bias")), " + ",
               k.Real(alpha / static_cast<double>(k.Int("size"))),
               " * squares;");
      });
      body(at);
    });
  });
}

}  // namespace

void WriteLocalResponseNorm(Kernel& k) {
  const int64_t channels = k.in(0).shape()[1];
  ForPlaces(k, [&](const auto& at) {
    k.For("c", channels, [&](const Expr& c) {
      k.Store(k.out(0), at(c),
              StrCat(kScratch, "[", c, "] * pow@(", kScratch, "[", channels,
                     " + ", c, "], ", k.Real(-k.attrs().Float("beta")), ")"));
    });
  });
}

// y_j = x_j b_j^-beta, where d b_j / d x_k = 2 alpha / size x_k for k in j's window.
void WriteLocalResponseNormGrad(Kernel& k) {
  const int64_t channels = k.in(0).shape()[1];
  const double beta = k.attrs().Float("beta");
  const double slope =
      2 * k.attrs().Float("alpha") / static_cast<double>(k.Int("size")) * beta;
  const ChannelWindow window = ChannelWindow::Of(k.Int("size"), channels);
  ForPlaces(k, [&](const auto& at) {
    // From 2 * channels on: dy_j x_j b_j^(-beta - 1).
    k.For("c", channels, [&](const Expr& c) {
      k.Line(kScratch, "[", 2 * channels, " + ", c,
             "] = ", k.Load(k.in(1), at(c)), " * ", kScratch, "[", c,
             "] * pow@(", kScratch, "[", channels, " + ", c, "], ",
             k.Real(-beta - 1), ");");
    });
    k.For("c", channels, [&](const Expr& c) {
      k.Line("real sum = 0;");
      k.Block(
          StrCat("for (dim_t w = ", c, " < ", window.after, " ? 0 : ", c, " - ",
                 window.after, "; w < ", channels, " && w <= ", c, " + ",
                 window.before, "; ++w)"),
          [&] { k.Line("sum += ", kScratch, "[", 2 * channels, " + w];"); });
      k.Store(k.out(0), at(c),
              StrCat(k.Load(k.in(1), at(c)), " * pow@(", kScratch, "[",
                     channels, " + ", c, "], ", k.Real(-beta), ") - ",
                     k.Real(slope), " * ", kScratch, "[", c, "] * sum"));
    });
  });
}

}  // namespace stowage::compile

// Attention and its gradients, query by query, and rotary positions.
//
// The scores of one query are in scratch memory, so that a scalar kernel needs S numbers,
// whatever the batch and the number of queries.

#include "compile/attention.h"

#include <cmath>
#include <utility>

#include "compile/ops.h"
#include "compile/sums.h"

namespace stowage::compile {
namespace {

// Loops over all queries, with `low` and `high` of each.
void ForQueries(Kernel& k, const Heads& a,
                const std::function<void(const Expr& b, const Expr& h,
                                         const Expr& t)>& body) {
  k.For("b", a.batch, [&](const Expr& b) {
    k.For("h", a.heads, [&](const Expr& h) {
      k.For("t", a.queries, [&](const Expr& t) {
        WriteKeyRange(k, a, b, t, "low", "high");
        body(b, h, t);
      });
    });
  });
}

void ForKeys(Kernel& k, const std::function<void()>& body) {
  k.Block("for (dim_t s = low; s < high; ++s)", body);
}

// Declares the score of key `s`, and where scores have a softcap, `capped`, the part of it
// that the score without its bias is.
Expr WriteScore(Kernel& k, const Heads& a, const Expr& b, const Expr& h,
                const Expr& t) {
  const Expr dot = WriteSum(k, a.width, [&](const Expr& d) {
    return StrCat(k.Load(k.in(0), k.in(0).At({b, t, h, d})), " * ",
                  k.Load(k.in(1), k.in(1).At({b, "s", a.KeyHead(h), d})));
  });
  Expr score = StrCat(dot, " * ", k.Real(k.attrs().Float("scale")));
  if (a.softcap > 0) {
    const Expr cap = k.Real(a.softcap);
    k.Line("const real capped = tanh@(", score, " / ", cap, ");");
    score = StrCat("capped * ", cap);
  }
  if (a.optionals.bias != 0) {
    const Tensor& bias = k.in(a.optionals.bias);
    score += StrCat(" + ", k.Load(bias, a.BiasAt(bias, b, h, t, "s")));
  }
  return score;
}

}  // namespace

Heads::Heads(const Kernel& kernel, size_t always)
    : k(kernel),
      optionals(OptionalsBehind(
          always, kernel.num_inputs(),
          [&](size_t i) {
            return TensorType{kernel.in(i).dtype(), kernel.in(i).shape()};
          })),
      batch(k.in(0).shape()[0]),
      queries(k.in(0).shape()[1]),
      heads(k.in(0).shape()[2]),
      width(k.in(0).shape()[3]),
      keys(k.in(1).shape()[1]),
      group(heads / k.in(1).shape()[2]),
      band(BandOf(k.in(0).shape(), k.in(1).shape(), k.attrs())),
      softcap(k.attrs().FloatOr("softcap", 0)) {}

Expr Heads::KeyHead(const Expr& h) const {
  if (group == 1) return h;
  return k.in(1).shape()[2] == 1 ? "0" : StrCat("(", h, " / ", group, ")");
}

Expr Heads::BiasAt(const Tensor& bias, const Expr& b, const Expr& h,
                   const Expr& t, const Expr& s) const {
  const Shape& shape = bias.shape();
  return bias.At({shape[0] == 1 ? "0" : b, shape[1] == 1 ? "0" : h,
                  shape[2] == 1 ? "0" : t, s});
}

void WriteKeyRange(Kernel& k, const Heads& a, const Expr& b, const Expr& t,
                   const Expr& low, const Expr& high) {
  k.Line("dim_t ", low, " = ", Plus({t, StrCat(a.band.low)}), ";");
  k.Line("dim_t ", high, " = ", Plus({t, StrCat(a.band.high + 1)}), ";");
  k.Line("if (", low, " < 0) ", low, " = 0;");
  k.Line("if (", high, " > ", a.keys, ") ", high, " = ", a.keys, ";");
  if (a.optionals.key_lengths != 0) {
    const Expr length =
        k.LoadIndex(k.in(a.optionals.key_lengths), b, a.keys + 1);
    k.Line("if (", high, " > ", length, ") ", high, " = ", length, ";");
  }
  if (a.optionals.segments != 0) {
    const Tensor& segments = k.in(a.optionals.segments);
    const Expr begin =
        k.LoadIndex(segments, Plus({Times(b, 2 * a.queries), t}), a.keys + 1);
    const Expr end = k.LoadIndex(
        segments, Plus({Times(b, 2 * a.queries), StrCat(a.queries), t}),
        a.keys + 1);
    k.Line("if (", low, " < ", begin, ") ", low, " = ", begin, ";");
    k.Line("if (", high, " > ", end, ") ", high, " = ", end, ";");
  }
}

QkvGrad QkvGrad::Of(const Kernel& kernel) {
  if (kernel.op() == OpKind::kAttentionGrad) {
    return {kernel.out(0), kernel.out(1), kernel.out(2)};
  }
  const Tensor& all = kernel.out(0);
  int64_t first = 0;
  const auto part = [&](const Tensor& like) {
    const Shape& shape = like.shape();
    const int64_t row = all.shape()[2];
    Tensor tensor(StrCat("(", all.name(), " + ", first, ")"),
                  {all.dtype(), shape}, {shape[1] * row, row, shape[3], 1});
    first += shape[2] * shape[3];
    return tensor;
  };
  Tensor q = part(kernel.in(0));
  Tensor key = part(kernel.in(1));
  Tensor value = part(kernel.in(2));
  return {std::move(q), std::move(key), std::move(value)};
}

int64_t ScratchOfAttention(const Kernel& k) {
  return k.lanes() > 1 ? BlocksScratch(k, /*is_grad=*/false)
                       : k.in(1).shape()[1];
}
int64_t ScratchOfAttentionGrad(const Kernel& k) {
  return k.lanes() > 1 ? BlocksScratch(k, /*is_grad=*/true) : 0;
}

void WriteAttention(Kernel& k) {
  if (k.lanes() > 1) return WriteAttentionBlocks(k);
  const Heads a(k, kAttentionOperands);
  const Tensor &v = k.in(2), &o = k.out(0);
  ForQueries(k, a, [&](const Expr& b, const Expr& h, const Expr& t) {
    k.Line("real largest = -(real)INFINITY;");
    ForKeys(k, [&] {
      k.Line("const real score = ", WriteScore(k, a, b, h, t), ";");
      k.Line(kScratch, "[s] = score;");
      k.Line("largest = maximum@(largest, score);");
    });
    // All weights of a query without keys are 0.
    k.Line("const real base = isinf(largest) ? 0 : largest;");
    k.Line("real total = 0;");
    const Expr sums = k.Array("sums", {a.width});
    ForKeys(k, [&] {
      k.Line("const real p = exp@(", kScratch, "[s] - base);");
      k.Line("total += p;");
      k.For("d", a.width, [&](const Expr& d) {
        k.Line(sums, "[", d, "] += p * ",
               k.Load(v, v.At({b, "s", a.KeyHead(h), d})), ";");
      });
    });
    k.Store(k.out(1), a.Row(b, h, t), "largest + log@(total)");
    k.Line("const real share = total > 0 ? 1 / total : 0;");
    k.For("d", a.width, [&](const Expr& d) {
      k.Store(o, o.At({b, t, h, d}), StrCat(sums, "[", d, "] * share"));
    });
  });
}

namespace {

void Add(Kernel& k, const Tensor& to, const Expr& at, const Expr& value) {
  k.Line(to.name(), "[", at, "] += ", value, ";");
}

}  // namespace

void WriteAttentionGrad(Kernel& k) {
  if (k.lanes() > 1) return WriteAttentionGradBlocks(k);
  const Heads a(k, kAttentionGradOperands);
  const Tensor &q = k.in(0), &key = k.in(1), &v = k.in(2), &o = k.in(3),
               &d_o = k.in(5);
  const QkvGrad grad = QkvGrad::Of(k);
  for (size_t r = 0; r < k.num_outputs(); ++r) k.Clear(k.out(r));
  ForQueries(k, a, [&](const Expr& b, const Expr& h, const Expr& t) {
    k.Line("const real lse = ", k.Load(k.in(4), a.Row(b, h, t)), ";");
    k.Block("if (!isinf(lse))", [&] {
      const Expr delta = WriteSum(k, a.width, [&](const Expr& d) {
        return StrCat(k.Load(o, o.At({b, t, h, d})), " * ",
                      k.Load(d_o, d_o.At({b, t, h, d})));
      });
      ForKeys(k, [&] {
        const Expr g = a.KeyHead(h);
        k.Line("const real p = exp@(", WriteScore(k, a, b, h, t), " - lse);");
        const Expr dp = WriteSum(k, a.width, [&](const Expr& d) {
          return StrCat(k.Load(d_o, d_o.At({b, t, h, d})), " * ",
                        k.Load(v, v.At({b, "s", g, d})));
        });
        k.Line("const real ds = p * (", dp, " - ", delta, ") * ",
               k.Real(k.attrs().Float("scale")),
               a.softcap > 0 ? " * (1 - capped * capped)" : "", ";");
        k.For("d", a.width, [&](const Expr& d) {
          Add(k, grad.v, grad.v.At({b, "s", g, d}),
              StrCat("p * ", k.Load(d_o, d_o.At({b, t, h, d}))));
          Add(k, grad.q, grad.q.At({b, t, h, d}),
              StrCat("ds * ", k.Load(key, key.At({b, "s", g, d}))));
          Add(k, grad.k, grad.k.At({b, "s", g, d}),
              StrCat("ds * ", k.Load(q, q.At({b, t, h, d}))));
        });
      });
    });
  });
}

void WriteAttentionBiasGrad(Kernel& k) {
  const Heads a(k, kAttentionGradOperands);
  const Tensor &v = k.in(2), &o = k.in(3), &d_o = k.in(5), &dbias = k.out(0);
  k.Clear(dbias);
  ForQueries(k, a, [&](const Expr& b, const Expr& h, const Expr& t) {
    k.Line("const real lse = ", k.Load(k.in(4), a.Row(b, h, t)), ";");
    k.Block("if (!isinf(lse))", [&] {
      ForKeys(k, [&] {
        k.Line("const real p = exp@(", WriteScore(k, a, b, h, t), " - lse);");
        const Expr ds = WriteSum(k, a.width, [&](const Expr& d) {
          return StrCat(k.Load(d_o, d_o.At({b, t, h, d})), " * (",
                        k.Load(v, v.At({b, "s", a.KeyHead(h), d})), " - ",
                        k.Load(o, o.At({b, t, h, d})), ")");
        });
        Add(k, dbias, a.BiasAt(dbias, b, h, t, "s"), StrCat("p * ", ds));
      });
    });
  });
}

// Angles in double, without whole turns, as math/trigonometry.h.
void WriteRope(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  const int64_t dims = k.Int("dims"), pairs = dims / 2;
  const bool interleaved = k.Int("interleaved") != 0;
  const Shape& shape = x.shape();
  const bool is_inverse = k.Int("inverse") != 0;
  k.Line("static const double turns[", pairs, "] = {");
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const double power =
        -2 * static_cast<double>(pair) / static_cast<double>(dims);
    k.Line(
        "  ",
        StrCat(std::pow(k.attrs().Float("base"), power) / 6.283185307179586477),
        ",");
  }
  k.Line("};");
  // Without positions of each example, the batch shares the angles.
  const bool is_shared = k.num_inputs() < 2 || k.in(1).shape().rank() == 1;
  const int64_t batch = is_shared ? 1 : shape[0];
  k.For("b", batch, [&](const Expr& example) {
    const auto for_examples =
        [&](const std::function<void(const Expr&)>& body) {
          is_shared ? k.For("b", shape[0], body) : body(example);
        };
    k.For("t", shape[1], [&](const Expr& t) {
      Expr position = t;
      if (k.num_inputs() == 2) {
        const Tensor& positions = k.in(1);
        position = k.Load(positions, is_shared ? positions.At({t})
                                               : positions.At({example, t}));
      }
      k.Line("const double position = (double)", position, ";");
      k.For("pair", pairs, [&](const Expr& pair) {
        k.Line("const double turned = position * turns[", pair, "];");
        k.Line("const real angle = (real)(", is_inverse ? "-" : "",
               "(turned - rint(turned)) * 6.283185307179586477);");
        k.Line("const real cosine = cos@(angle), sine = sin@(angle);");
        for_examples([&](const Expr& b) {
          k.For("h", shape[2], [&](const Expr& h) {
            const Expr first = interleaved ? Times(pair, 2) : pair;
            const Expr second = Plus({first, StrCat(interleaved ? 1 : pairs)});
            k.Line("const real c0 = ", k.Load(x, x.At({b, t, h, first})), ";");
            k.Line("const real c1 = ", k.Load(x, x.At({b, t, h, second})), ";");
            k.Store(y, y.At({b, t, h, first}), "c0 * cosine - c1 * sine");
            k.Store(y, y.At({b, t, h, second}), "c1 * cosine + c0 * sine");
          });
        });
      });
      if (dims == shape[3]) return;
      for_examples([&](const Expr& b) {
        k.For("h", shape[2], [&](const Expr& h) {
          k.For("d", shape[3] - dims, [&](const Expr& d) {
            const Expr at = Plus({StrCat(dims), d});
            k.Store(y, y.At({b, t, h, at}), k.Load(x, x.At({b, t, h, at})));
          });
        });
      });
    });
  });
}

}  // namespace stowage::compile

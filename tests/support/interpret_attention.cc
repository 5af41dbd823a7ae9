// The definitions of attention and its gradients, query by query and key by key, and of rope.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

// One head of one batch entry. Positions are of (B, T, H, D) and (B, S, G, D).
class Head {
 public:
  // Behind `always` operands there may be a bias, of rank 4, and key lengths, of rank 1,
  // or segments, of rank 3.
  Head(const Call& c, int64_t batch, int64_t head, size_t always)
      : c_(c),
        q_(c.input(0)),
        k_(c.input(1)),
        batch_(batch),
        head_(head),
        group_(head / (q_.shape[2] / k_.shape[2])),
        keys_(k_.shape[1]) {
    for (size_t i = always; i < c.in.size(); ++i) {
      if (c.input(i).shape.rank() == 4) {
        bias_ = &c.input(i);
      } else if (c.input(i).shape.rank() == 3) {
        segments_ = &c.input(i);
      } else {
        keys_ = static_cast<int64_t>(c.input(i)[batch]);
      }
    }
  }

  int64_t Q(int64_t t, int64_t d) const {
    return Position(q_.shape, {batch_, t, head_, d});
  }
  int64_t KV(int64_t s, int64_t d) const {
    return Position(k_.shape, {batch_, s, group_, d});
  }
  int64_t Row(int64_t t) const {  // of (B, H, T)
    return (batch_ * q_.shape[2] + head_) * q_.shape[1] + t;
  }
  double Score(int64_t t, int64_t s) const {
    double sum = 0;
    for (int64_t d = 0; d < q_.shape[3]; ++d) sum += q_[Q(t, d)] * k_[KV(s, d)];
    sum *= c_.Float("scale");
    const double cap = c_.node.attrs.FloatOr("softcap", 0);
    if (cap > 0) sum = cap * std::tanh(sum / cap);
    return bias_ == nullptr ? sum : sum + (*bias_)[B(bias_->shape, t, s)];
  }
  // The derivative of a score by its product, times the scale.
  double Slope(int64_t t, int64_t s) const {
    const double cap = c_.node.attrs.FloatOr("softcap", 0);
    if (cap == 0) return c_.Float("scale");
    const double bias = bias_ == nullptr ? 0 : (*bias_)[B(bias_->shape, t, s)];
    const double bent = (Score(t, s) - bias) / cap;
    return c_.Float("scale") * (1 - bent * bent);
  }
  int64_t B(const Shape& shape, int64_t t, int64_t s) const {
    return Position(shape,
                    {shape[0] == 1 ? 0 : batch_, shape[1] == 1 ? 0 : head_,
                     shape[2] == 1 ? 0 : t, s});
  }
  // The keys that query t reads: a bias of -inf is a mask.
  std::vector<int64_t> Keys(int64_t t) const {
    const int64_t place = t + k_.shape[1] - q_.shape[1];
    const int64_t window = c_.Int("window");
    std::vector<int64_t> read;
    for (int64_t s = 0; s < keys_; ++s) {
      if (c_.Int("causal") == 1 && s > place) continue;
      if (window > 0 && std::abs(s - place) >= window) continue;
      if (segments_ != nullptr && !IsInSegment(t, s)) continue;
      if (bias_ != nullptr && (*bias_)[B(bias_->shape, t, s)] ==
                                  -std::numeric_limits<double>::infinity()) {
        continue;
      }
      read.push_back(s);
    }
    return read;
  }

 private:
  bool IsInSegment(int64_t t, int64_t s) const {
    const int64_t length = q_.shape[1];
    const auto begin =
        static_cast<int64_t>((*segments_)[2 * batch_ * length + t]);
    const auto end =
        static_cast<int64_t>((*segments_)[(2 * batch_ + 1) * length + t]);
    return begin <= s && s < end;
  }

  const Call& c_;
  const Array& q_;
  const Array& k_;
  int64_t batch_, head_, group_, keys_;
  const Array* bias_ = nullptr;
  const Array* segments_ = nullptr;
};

// Calls visit(head, t) for every query.
void ForQueries(const Call& c, size_t always,
                const std::function<void(const Head&, int64_t)>& visit) {
  const Shape& q = c.input(0).shape;
  for (int64_t b = 0; b < q[0]; ++b) {
    for (int64_t h = 0; h < q[2]; ++h) {
      const Head head(c, b, h, always);
      for (int64_t t = 0; t < q[1]; ++t) visit(head, t);
    }
  }
}

}  // namespace

void Attention(Call& c) {
  const Array& v = c.input(2);
  ForQueries(c, 3, [&](const Head& head, int64_t t) {
    double largest = -std::numeric_limits<double>::infinity();
    for (const int64_t s : head.Keys(t)) {
      largest = std::max(largest, head.Score(t, s));
    }
    double total = 0;
    for (const int64_t s : head.Keys(t)) {
      total += std::exp(head.Score(t, s) - largest);
    }
    c.out[1][head.Row(t)] = largest + std::log(total);
    for (const int64_t s : head.Keys(t)) {
      const double p = std::exp(head.Score(t, s) - largest) / total;
      for (int64_t d = 0; d < v.shape[3]; ++d) {
        c.out[0][head.Q(t, d)] += p * v[head.KV(s, d)];
      }
    }
  });
}

void AttentionGrad(Call& c) {
  const Array &q = c.input(0), &k = c.input(1), &v = c.input(2),
              &o = c.input(3), &lse = c.input(4), &d_o = c.input(5);
  ForQueries(c, 6, [&](const Head& head, int64_t t) {
    double delta = 0;  // o . d_o
    for (int64_t d = 0; d < q.shape[3]; ++d) {
      delta += o[head.Q(t, d)] * d_o[head.Q(t, d)];
    }
    for (const int64_t s : head.Keys(t)) {
      const double p = std::exp(head.Score(t, s) - lse[head.Row(t)]);
      double dp = 0;
      for (int64_t d = 0; d < q.shape[3]; ++d) {
        dp += d_o[head.Q(t, d)] * v[head.KV(s, d)];
        c.out[2][head.KV(s, d)] += p * d_o[head.Q(t, d)];
      }
      const double ds = p * (dp - delta) * head.Slope(t, s);
      for (int64_t d = 0; d < q.shape[3]; ++d) {
        c.out[0][head.Q(t, d)] += ds * k[head.KV(s, d)];
        c.out[1][head.KV(s, d)] += ds * q[head.Q(t, d)];
      }
    }
  });
}

// The three gradients, each row of one behind that of the other.
void AttentionQkvGrad(Call& c) {
  Call apart{c.node, c.in, {}, c.graph, c.rounding};
  for (size_t i = 0; i < 3; ++i) apart.out.emplace_back(c.input(i).shape);
  AttentionGrad(apart);
  const Shape& all = c.out[0].shape;
  int64_t first = 0;  // column
  for (const Array& part : apart.out) {
    const int64_t columns = part.shape[2] * part.shape[3];
    for (int64_t i = 0; i < part.size(); ++i) {
      c.out[0][i / columns * all[2] + first + i % columns] = part[i];
    }
    first += columns;
  }
}

void AttentionBiasGrad(Call& c) {
  const Array &v = c.input(2), &o = c.input(3), &lse = c.input(4),
              &d_o = c.input(5);
  ForQueries(c, 6, [&](const Head& head, int64_t t) {
    for (const int64_t s : head.Keys(t)) {
      double ds = 0;
      for (int64_t d = 0; d < v.shape[3]; ++d) {
        ds += d_o[head.Q(t, d)] * (v[head.KV(s, d)] - o[head.Q(t, d)]);
      }
      c.out[0][head.B(c.out[0].shape, t, s)] +=
          std::exp(head.Score(t, s) - lse[head.Row(t)]) * ds;
    }
  });
}

// --- rope: pairs of elements as complex numbers, times e^(i angle) --------------------

void Rope(Call& c) {
  const Array& x = c.input(0);
  const int64_t dims = c.Int("dims");
  const int64_t apart = c.Int("interleaved") != 0 ? 1 : dims / 2;
  c.out[0].data = x.data;
  for (int64_t i = 0; i < x.size(); ++i) {
    const Dims at = Coordinates(x.shape, i);
    if (at[3] >= dims / 2) continue;  // the number of a pair from here on
    auto position = static_cast<double>(at[1]);
    if (c.in.size() == 2) {
      const Array& positions = c.input(1);
      position =
          positions[positions.shape.rank() == 1 ? at[1]
                                                : at[0] * x.shape[1] + at[1]];
    }
    double angle =
        position / std::pow(c.Float("base"), 2.0 * static_cast<double>(at[3]) /
                                                 static_cast<double>(dims));
    if (c.Int("inverse") != 0) angle = -angle;
    const int64_t head = i - at[3];
    const int64_t first = head + (apart == 1 ? 2 * at[3] : at[3]);
    const std::complex<double> turned =
        std::complex<double>(x[first], x[first + apart]) *
        std::polar(1.0, angle);
    c.out[0][first] = turned.real();
    c.out[0][first + apart] = turned.imag();
  }
}

}  // namespace stowage::interpret

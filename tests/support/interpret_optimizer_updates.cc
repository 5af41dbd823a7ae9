// The definitions of optimizer updates: first those with states of f32 or f64, then those whose
// weights are split or whose moments have 8 or 16 bits.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

// The clip factor, operand `i`, if there is one.
double ScaleAt(const Call& c, size_t i) {
  return c.in.size() > i ? c.input(i)[0] : 1;
}

// Leaves the params and states as they are if the gradient's factor, operand `scale`, is
// infinite.
bool Skipped(Call& c, size_t scale) {
  if (!std::isinf(ScaleAt(c, scale))) return false;
  for (size_t i = 0; i < c.out.size(); ++i) c.out[i].data = c.input(i).data;
  return true;
}

}  // namespace

void SgdUpdate(Call& c) {
  if (Skipped(c, 3)) return;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double g = c.input(1)[i] * ScaleAt(c, 3);
    c.out[0][i] = w - c.input(2)[0] * (g + c.Float("decay") * w);
  }
}

void MomentumUpdate(Call& c) {
  if (Skipped(c, 4)) return;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double g = c.input(2)[i] * ScaleAt(c, 4);
    c.out[1][i] =
        c.Float("momentum") * c.input(1)[i] + g + c.Float("decay") * w;
    c.out[0][i] = w - c.input(3)[0] * c.out[1][i];
  }
}

void NesterovUpdate(Call& c) {
  if (Skipped(c, 4)) return;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double d = c.input(2)[i] * ScaleAt(c, 4) + c.Float("decay") * w;
    c.out[1][i] = c.Float("momentum") * c.input(1)[i] + d;
    c.out[0][i] = w - c.input(3)[0] * (d + c.Float("momentum") * c.out[1][i]);
  }
}

void RmsPropUpdate(Call& c) {
  if (Skipped(c, 4)) return;
  const double alpha = c.Float("alpha");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double d = c.input(2)[i] * ScaleAt(c, 4) + c.Float("decay") * w;
    const double v = alpha * c.input(1)[i] + (1 - alpha) * d * d;
    c.out[0][i] = w - c.input(3)[0] * d / (std::sqrt(v) + c.Float("eps"));
    c.out[1][i] = v;
  }
}

void AdagradUpdate(Call& c) {
  if (Skipped(c, 4)) return;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double d = c.input(2)[i] * ScaleAt(c, 4) + c.Float("decay") * w;
    const double v = c.input(1)[i] + d * d;
    c.out[0][i] = w - c.input(3)[0] * d / (std::sqrt(v) + c.Float("eps"));
    c.out[1][i] = v;
  }
}

void AdamUpdate(Call& c) {
  if (Skipped(c, 6)) return;
  const double lr = c.input(4)[0];
  const double step = c.input(5)[0];
  const double b1 = c.Float("beta1");
  const double b2 = c.Float("beta2");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double d = c.input(3)[i] * ScaleAt(c, 6) + c.Float("decay") * w;
    const double m = b1 * c.input(1)[i] + (1 - b1) * d;
    const double v = b2 * c.input(2)[i] + (1 - b2) * d * d;
    const double m_hat = m / (1 - std::pow(b1, step));
    const double v_hat = v / (1 - std::pow(b2, step));
    c.out[0][i] = w - lr * m_hat / (std::sqrt(v_hat) + c.Float("eps"));
    c.out[1][i] = m;
    c.out[2][i] = v;
  }
}

void AdamWUpdate(Call& c) {
  if (Skipped(c, 6)) return;
  const double lr = c.input(4)[0];
  const double step = c.input(5)[0];
  const double b1 = c.Float("beta1");
  const double b2 = c.Float("beta2");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double g = c.input(3)[i] * ScaleAt(c, 6);
    const double m = b1 * c.input(1)[i] + (1 - b1) * g;
    const double v = b2 * c.input(2)[i] + (1 - b2) * g * g;
    const double decayed = c.input(0)[i] * (1 - lr * c.Float("decay"));
    const double m_hat = m / (1 - std::pow(b1, step));
    const double v_hat = v / (1 - std::pow(b2, step));
    c.out[0][i] = decayed - lr * m_hat / (std::sqrt(v_hat) + c.Float("eps"));
    c.out[1][i] = m;
    c.out[2][i] = v;
  }
}

// Updates of split or low-precision numbers compute AdamW and momentum in double precision,
// round to f32, and then encode.

namespace {

constexpr int64_t kBlock = 256;

// --- Weights in two parts -----------------------------------------------------

// With the f32 number's bits as an integer, w is the nearest multiple of 2^16, the
// larger of two, and delta the rest, in units of 1 or of 2^8, to the nearest of which,
// the larger of two, the bits are rounded before.
constexpr uint32_t kUpper = 1 << 16;

uint32_t UnitOf(const Call& c) { return c.dtype(1) == DType::kU8 ? 1 << 8 : 1; }

// A byte is that of a signed number.
int32_t Signed(double byte) {
  return static_cast<int32_t>(byte >= 128 ? byte - 256 : byte);
}

double Join(double w, double delta, uint32_t unit) {
  const int32_t rest = unit == 1 ? static_cast<int32_t>(delta) : Signed(delta);
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(w)) +
                        static_cast<uint32_t>(rest) * unit;
  return std::bit_cast<float>(bits);
}

void Split(double master, uint32_t unit, double* w, double* delta) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(master));
  bits = (bits + unit / 2) / unit * unit;
  auto rest = static_cast<int32_t>(bits % kUpper);
  bits -= static_cast<uint32_t>(rest);
  if (rest >= static_cast<int32_t>(kUpper / 2)) {
    bits += kUpper;
    rest -= static_cast<int32_t>(kUpper);
  }
  *w = std::bit_cast<float>(bits);
  const int32_t in_units = rest / static_cast<int32_t>(unit);
  *delta = unit == 1 || in_units >= 0 ? in_units : in_units + 256;
}

// --- Moments in eight bits ----------------------------------------------------

// What bytes stand for. Dynamic: as bitsandbytes makes its table, sorted; the first
// moment's byte 0 is where the table has 0.
std::array<double, 256> Numbers8Bit(bool companded, bool is_first) {
  std::array<double, 256> numbers = {};
  if (companded) {
    for (int byte = 0; byte < 256; ++byte) {
      const double z = is_first ? Signed(byte) / 127.0 : byte / 255.0;
      numbers[static_cast<size_t>(byte)] =
          is_first ? z / (2 - std::abs(z)) : z * z;
    }
    return numbers;
  }
  std::vector<double> table = {0, 1};
  for (int decade = 0; decade < 7; ++decade) {
    const int items = (is_first ? 1 : 2) << decade;
    for (int k = 0; k < items; ++k) {
      const double low = 0.1 + 0.9 * k / items;
      const double high = 0.1 + 0.9 * (k + 1) / items;
      const double mean = std::pow(10.0, decade - 6) * (low + high) / 2;
      table.push_back(mean);
      if (is_first) table.push_back(-mean);
    }
  }
  std::sort(table.begin(), table.end());
  const auto zero = std::find(table.begin(), table.end(), 0.0) - table.begin();
  for (size_t i = 0; i < 256; ++i) {
    numbers[(i + 256 - static_cast<size_t>(zero)) % 256] = table[i];
  }
  return numbers;
}

// The byte whose number is nearest to x; of companded ones, nearest on the curve.
double Byte(const std::array<double, 256>& numbers, bool companded,
            bool is_first, double x) {
  const auto curve = [&](double y) {
    if (!companded) return y;
    return is_first ? 2 * y / (1 + std::abs(y)) : std::sqrt(y);
  };
  size_t nearest = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (size_t byte = 0; byte < 256; ++byte) {
    if (companded && is_first && byte == 128) continue;  // -128 / 127
    const double there = std::abs(curve(numbers[byte]) - curve(x));
    if (there >= distance) continue;
    distance = there;
    nearest = byte;
  }
  if (nearest == 0 && !is_first && x > 0) nearest = 1;
  return static_cast<double>(nearest);
}

struct Coded {
  bool companded, is_first;
  std::array<double, 256> numbers = Numbers8Bit(companded, is_first);

  Array Decode(const Array& bytes, const Array& scales) const {
    Array x(bytes.shape);
    for (int64_t i = 0; i < x.size(); ++i) {
      x[i] = scales[i / kBlock] * numbers.at(static_cast<size_t>(bytes[i]));
    }
    return x;
  }
  void Encode(const Array& x, Array* bytes, Array* scales) const {
    for (int64_t i = 0; i < x.size(); ++i) {
      double& scale = (*scales)[i / kBlock];
      scale = std::max(scale, std::abs(x[i]));
    }
    for (int64_t i = 0; i < x.size(); ++i) {
      const double scale = (*scales)[i / kBlock];
      (*bytes)[i] =
          Byte(numbers, companded, is_first, scale > 0 ? x[i] / scale : 0);
    }
  }
};

// --- Stochastic rounding --------------------------------------------------------------

// x in f32 becomes one of the two bf16 numbers around it: the farther from 0 where the
// 16 bits that it has more and the random ones make 2^16.
double RoundByChance(double x, uint32_t random) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  const uint32_t lower = bits / kUpper * kUpper;
  const bool up = bits % kUpper + random >= kUpper;
  return std::bit_cast<float>(up ? lower + kUpper : lower);
}

uint32_t RoundingWord(const Call& c, size_t step, int64_t element) {
  const int64_t i = c.Int("first") + element;
  const auto words =
      RandomWords(static_cast<uint64_t>(c.input(step + 1)[0]),
                  static_cast<uint64_t>(c.input(step)[0]),
                  static_cast<uint32_t>(c.Int("id")), i / 4, /*stream=*/1);
  return words.at(static_cast<size_t>(i % 4));
}

// --- The updates --------------------------------------------------------------

bool IsSplit(OpKind op) {
  return op == OpKind::kAdamWSplitUpdate ||
         op == OpKind::kAdamWBf16SplitUpdate ||
         op == OpKind::kAdamW8BitSplitUpdate ||
         op == OpKind::kMomentumBf16SplitUpdate;
}

Array LoadWeights(const Call& c) {
  Array w = c.input(0);
  if (!IsSplit(c.node.op)) return w;
  for (int64_t i = 0; i < w.size(); ++i) {
    w[i] = Join(w[i], c.input(1)[i], UnitOf(c));
  }
  return w;
}
void StoreWeights(const Array& w, Call& c) {
  for (int64_t i = 0; i < w.size(); ++i) {
    if (IsSplit(c.node.op)) {
      Split(w[i], UnitOf(c), &c.out[0][i], &c.out[1][i]);
    } else {
      c.out[0][i] = w[i];
    }
  }
}

// The gradient at `g`, times what may stand behind the other scalars.
Array Gradient(const Call& c, size_t g, size_t scale) {
  Array gradient = c.input(g);
  if (c.in.size() > scale) {
    for (double& x : gradient.data) x *= c.input(scale)[0];
  }
  return gradient;
}

void AdamW(Call& c) {
  const OpKind op = c.node.op;
  const bool is_coded =
      op == OpKind::kAdamW8BitUpdate || op == OpKind::kAdamW8BitSplitUpdate;
  const bool is_rounded =
      op == OpKind::kAdamWBf16Update || op == OpKind::kAdamWBf16SplitUpdate;
  const size_t first = IsSplit(op) ? 2 : 1;
  const size_t g = first + (is_coded ? 4 : 2);
  const size_t scale = g + (is_rounded ? 4 : 3);
  if (Skipped(c, scale)) return;
  const bool companded = is_coded && c.Int("companded") != 0;
  const Coded m_code = {companded, true}, v_code = {companded, false};

  Array w = LoadWeights(c);
  Array m = c.input(first), v = c.input(first + 1);
  if (is_coded) {
    m = m_code.Decode(m, c.input(first + 2));
    v = v_code.Decode(v, c.input(first + 3));
  }
  const Array gradient = Gradient(c, g, scale);
  const double lr = c.input(g + 1)[0], step = c.input(g + 2)[0];
  const double b1 = c.Float("beta1"), b2 = c.Float("beta2");
  for (int64_t i = 0; i < w.size(); ++i) {
    m[i] = b1 * m[i] + (1 - b1) * gradient[i];
    v[i] = b2 * v[i] + (1 - b2) * gradient[i] * gradient[i];
    const double m_hat = m[i] / (1 - std::pow(b1, step));
    const double v_hat = v[i] / (1 - std::pow(b2, step));
    w[i] = w[i] * (1 - lr * c.Float("decay")) -
           lr * m_hat / (std::sqrt(v_hat) + c.Float("eps"));
  }
  StoreWeights(w, c);
  if (is_coded) {
    m_code.Encode(m, &c.out[first], &c.out[first + 2]);
    v_code.Encode(v, &c.out[first + 1], &c.out[first + 3]);
    return;
  }
  for (int64_t i = 0; is_rounded && i < w.size(); ++i) {
    const uint32_t word = RoundingWord(c, g + 2, i);
    m[i] = RoundByChance(m[i], word % kUpper);
    v[i] = RoundByChance(v[i], word / kUpper);
  }
  c.out[first] = m;
  c.out[first + 1] = v;
}

void Momentum(Call& c) {
  const size_t first = IsSplit(c.node.op) ? 2 : 1;
  const size_t g = first + 1;
  if (Skipped(c, g + 4)) return;
  Array w = LoadWeights(c);
  const Array gradient = Gradient(c, g, g + 4);
  for (int64_t i = 0; i < w.size(); ++i) {
    const double velocity = c.Float("momentum") * c.input(first)[i] +
                            gradient[i] + c.Float("decay") * w[i];
    w[i] -= c.input(g + 1)[0] * velocity;
    c.out[first][i] =
        RoundByChance(velocity, RoundingWord(c, g + 2, i) % kUpper);
  }
  StoreWeights(w, c);
}

}  // namespace

void CompactUpdate(Call& c) {
  const OpKind op = c.node.op;
  if (op == OpKind::kJoinWeight) {
    for (int64_t i = 0; i < c.out[0].size(); ++i) {
      c.out[0][i] = Join(c.input(0)[i], c.input(1)[i], UnitOf(c));
    }
  } else if (op == OpKind::kSplitUpdate) {
    for (int64_t i = 0; i < c.out[0].size(); ++i) {
      Split(c.input(2)[i], UnitOf(c), &c.out[0][i], &c.out[1][i]);
    }
  } else if (op == OpKind::kMomentumBf16Update ||
             op == OpKind::kMomentumBf16SplitUpdate) {
    Momentum(c);
  } else {
    AdamW(c);
  }
}

}  // namespace stowage::interpret

#include "formats/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/result.h"
#include "base/strings.h"
#include "math/small_floats.h"

namespace stowage {
namespace {

constexpr int kGroup = 32, kGroups = 8;             // of Q4_K and Q5_K
constexpr int kSmallGroup = 16, kSmallGroups = 16;  // of Q6_K
constexpr int kMaxScale = 63;                       // six bits
constexpr double kStepOfSearch = 0.1;               // in codes

// The nearest integer in a range.
int Code(double value, int least, int most) {
  return static_cast<int>(
      std::clamp<double>(std::nearbyint(value), least, most));
}

uint16_t HalfBits(double value) {
  return math::FloatToHalf(static_cast<float>(value));
}
double AsHalf(double value) { return math::HalfToFloat(HalfBits(value)); }

void StoreScale(double value, uint8_t* to) {
  const uint16_t bits = HalfBits(value);
  std::memcpy(to, &bits, sizeof(bits));
}

// --- number i is scale q - minimum -------------------------------------------

// Weights of errors: the magnitude plus the root mean square of the group, so that large
// numbers have the largest weights and no weight is zero.
std::array<double, kGroup> WeightsOf(const float* x) {
  double squares = 0;
  for (int i = 0; i < kGroup; ++i) squares += double{x[i]} * x[i];
  const double mean = std::sqrt(squares / kGroup);
  std::array<double, kGroup> weights;
  for (int i = 0; i < kGroup; ++i) {
    weights[static_cast<size_t>(i)] = mean + std::abs(double{x[i]});
  }
  return weights;
}

struct Affine {
  double scale = 0, minimum = 0;  // both at least 0
};

class AffineFit {
 public:
  AffineFit(const float* x, int most) : x_(x), most_(most), w_(WeightsOf(x)) {
    for (int i = 0; i < kGroup; ++i) {
      sum_w_ += w_[static_cast<size_t>(i)];
      sum_x_ += w_[static_cast<size_t>(i)] * x[i];
    }
  }

  // Tries scales as if the range were wider by `first` codes, then in `steps` steps of
  // kStepOfSearch more.
  Affine Best(double first, int steps) {
    const auto [low, high] = std::minmax_element(x_, x_ + kGroup);
    double base = std::min(0.0, double{*low});
    const double top = *high;
    if (top == base) return {0, -base};
    Encode(most_ / (top - base), base);
    Affine best = {(top - base) / most_, -base};
    double least = ErrorOf(best);
    for (int step = 0; step <= steps; ++step) {
      Encode((most_ + first + kStepOfSearch * step) / (top - base), base);
      const Affine fit = LeastSquares();
      if (fit.scale <= 0) continue;
      const double error = ErrorOf(fit);
      if (error >= least) continue;
      least = error;
      best = fit;
      base = -fit.minimum;
      if (top <= base) break;
    }
    return best;
  }

 private:
  void Encode(double inverse, double base) {
    for (int i = 0; i < kGroup; ++i) {
      codes_[static_cast<size_t>(i)] = Code(inverse * (x_[i] - base), 0, most_);
    }
  }

  // The weighted least-squares scale and minimum for the codes; scale 0 if all codes are
  // equal.
  Affine LeastSquares() const {
    double sum_q = 0, sum_qq = 0, sum_qx = 0;
    for (size_t i = 0; i < kGroup; ++i) {
      const double wq = w_[i] * codes_[i];
      sum_q += wq;
      sum_qq += wq * codes_[i];
      sum_qx += wq * x_[i];
    }
    const double det = sum_w_ * sum_qq - sum_q * sum_q;
    if (det <= 0) return {};
    const double base = (sum_qq * sum_x_ - sum_q * sum_qx) / det;
    if (base > 0) return {sum_qx / sum_qq, 0};
    return {(sum_w_ * sum_qx - sum_x_ * sum_q) / det, -base};
  }

  double ErrorOf(const Affine& fit) const {
    double error = 0;
    for (size_t i = 0; i < kGroup; ++i) {
      const double difference = fit.scale * codes_[i] - fit.minimum - x_[i];
      error += w_[i] * difference * difference;
    }
    return error;
  }

  const float* const x_;
  const int most_;
  const std::array<double, kGroup> w_;
  double sum_w_ = 0, sum_x_ = 0;
  std::array<int, kGroup> codes_ = {};
};

// Stores six bits each, in the layout of math/weight_blocks.h.
void StoreScales(const std::array<int, kGroups>& scales,
                 const std::array<int, kGroups>& minima, uint8_t* to) {
  for (size_t g = 0; g < 4; ++g) {
    to[g] = static_cast<uint8_t>(scales[g] | scales[g + 4] >> 4 << 6);
    to[g + 4] = static_cast<uint8_t>(minima[g] | minima[g + 4] >> 4 << 6);
    to[g + 8] =
        static_cast<uint8_t>((scales[g + 4] & 15) | (minima[g + 4] & 15) << 4);
  }
}

// Stores the codes as nibbles, and their fifth bits in `high` unless it is null.
void StoreCodes(const std::array<int, kGroup * kGroups>& codes, uint8_t* high,
                uint8_t* nibbles) {
  if (high != nullptr) std::memset(high, 0, kGroup);
  for (size_t g = 0; g < kGroups; ++g) {
    uint8_t* const bytes = nibbles + g / 2 * kGroup;
    for (size_t j = 0; j < kGroup; ++j) {
      const int code = codes[g * kGroup + j];
      const int nibble = code & 15;
      bytes[j] =
          static_cast<uint8_t>(g % 2 == 0 ? nibble : bytes[j] | nibble << 4);
      if (high != nullptr) {
        high[j] = static_cast<uint8_t>(high[j] | code >> 4 << g);
      }
    }
  }
}

// A block with given scales and minima of groups: number i of group g is
// d scales[g] q - m minima[g].
class AffineBlock {
 public:
  AffineBlock(const float* numbers, int most,
              const std::array<Affine, kGroups>& fits)
      : x_(numbers), most_(most) {
    for (const Affine& fit : fits) {
      d_ = std::max(d_, fit.scale / kMaxScale);
      m_ = std::max(m_, fit.minimum / kMaxScale);
    }
    for (size_t g = 0; g < kGroups; ++g) {
      if (d_ > 0) scales_[g] = Code(fits[g].scale / d_, 0, kMaxScale);
      if (m_ > 0) minima_[g] = Code(fits[g].minimum / m_, 0, kMaxScale);
    }
  }

  // Computes the codes for d and m rounded to f16. Returns false if these are too large.
  bool Encode() {
    d_ = AsHalf(d_);
    m_ = AsHalf(m_);
    if (!std::isfinite(d_) || !std::isfinite(m_)) return false;
    error_ = 0;
    for (size_t g = 0; g < kGroups; ++g) {
      const double scale = d_ * scales_[g], minimum = m_ * minima_[g];
      for (size_t j = g * kGroup; j < (g + 1) * kGroup; ++j) {
        if (scale > 0) codes_[j] = Code((x_[j] + minimum) / scale, 0, most_);
        const double difference = scale * codes_[j] - minimum - x_[j];
        error_ += difference * difference;
      }
    }
    return true;
  }

  // Fits d and m to the codes by least squares. Returns false if there is no solution.
  bool Refit() {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (size_t j = 0; j < codes_.size(); ++j) {
      const double a = scales_[j / kGroup] * codes_[j];
      const double b = -minima_[j / kGroup];
      aa += a * a;
      ab += a * b;
      bb += b * b;
      ax += a * x_[j];
      bx += b * x_[j];
    }
    const double det = aa * bb - ab * ab;
    if (aa <= 0) return false;
    d_ = det > 0 ? (ax * bb - bx * ab) / det : ax / aa;
    m_ = det > 0 ? (bx * aa - ax * ab) / det : 0;
    return d_ > 0 && m_ >= 0;
  }

  double error() const { return error_; }

  void Store(uint8_t* block) const {
    StoreScale(d_, block);
    StoreScale(m_, block + 2);
    StoreScales(scales_, minima_, block + 4);
    uint8_t* const high = most_ == 15 ? nullptr : block + 16;
    StoreCodes(codes_, high, block + (most_ == 15 ? 16 : 48));
  }

 private:
  const float* x_;
  int most_;
  double d_ = 0, m_ = 0, error_ = 0;
  std::array<int, kGroups> scales_ = {}, minima_ = {};
  std::array<int, kGroup* kGroups> codes_ = {};
};

// A block of Q4_K, with a largest code `most` of 15, or of Q5_K, with 31. Returns false if
// a scale is too large for f16. Precondition: the numbers are finite.
bool AffineGroups(const float* numbers, int most, uint8_t* block) {
  // Ranges from one code narrower to one wider, or half of that for 32 codes.
  const double first = most == 15 ? -1.0 : -0.5;
  const int steps = most == 15 ? 20 : 15;
  std::array<Affine, kGroups> fits;
  for (size_t g = 0; g < kGroups; ++g) {
    fits[g] = AffineFit(numbers + g * kGroup, most).Best(first, steps);
  }
  AffineBlock best(numbers, most, fits);
  if (!best.Encode()) return false;
  for (AffineBlock next = best; next.Refit() && next.Encode();) {
    if (next.error() >= best.error()) break;
    best = next;
  }
  best.Store(block);
  return true;
}

// --- number i is scale q ------------------------------------------------------

// Groups with smaller magnitudes are zero.
constexpr double kZero = 1e-15;
constexpr double kNoise = 1e-12;  // of sums
constexpr int kHalf = 32;         // codes of either sign

// The scale, of either sign, for codes -32 to 31: the largest number gets code -32. Errors are
// weighted by squares.
double BestScale(const float* x) {
  constexpr int kSteps = 9;
  double largest = 0;
  for (int i = 0; i < kSmallGroup; ++i) {
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  }
  if (std::abs(largest) < kZero) return 0;
  double best = 0, scale = 0;
  const auto try_codes = [&](int step) {
    const double inverse = -(kHalf + kStepOfSearch * step) / largest;
    double sum_qx = 0, sum_qq = 0;
    for (int i = 0; i < kSmallGroup; ++i) {
      const double number = x[i];
      const int code = Code(inverse * number, -kHalf, kHalf - 1);
      const double wq = number * number * code;
      sum_qx += wq * number;
      sum_qq += wq * code;
    }
    // The reduction of the error by a least-squares fit.
    if (sum_qq > 0 && sum_qx * sum_qx / sum_qq > best * (1 + kNoise)) {
      best = sum_qx * sum_qx / sum_qq;
      scale = sum_qx / sum_qq;
    }
  };
  try_codes(
      0);  // of several that are as good, the one that all codes are used by
  for (int step = 1; step <= kSteps; ++step) {
    try_codes(-step);
    try_codes(step);
  }
  return scale;
}

// A block with given scales: number i of group g is d scales[g] (q - 32).
class SymmetricBlock {
 public:
  SymmetricBlock(const float* numbers,
                 const std::array<double, kSmallGroups>& scales)
      : x_(numbers) {
    const double steepest = *std::ranges::max_element(
        scales, {}, [](double s) { return std::abs(s); });
    d_ = steepest / -kSteepest;
    for (size_t g = 0; g < kSmallGroups; ++g) {
      scales_[g] = Code(scales[g] / d_, -kSteepest, kSteepest - 1);
    }
  }

  bool Encode() {
    d_ = AsHalf(d_);
    if (!std::isfinite(d_)) return false;
    error_ = 0;
    for (size_t j = 0; j < codes_.size(); ++j) {
      const double scale = d_ * scales_[j / kSmallGroup];
      if (scale != 0) codes_[j] = Code(x_[j] / scale, -kHalf, kHalf - 1);
      const double difference = scale * codes_[j] - x_[j];
      error_ += difference * difference;
    }
    return true;
  }

  bool Refit() {
    double aa = 0, ax = 0;
    for (size_t j = 0; j < codes_.size(); ++j) {
      const double a = scales_[j / kSmallGroup] * codes_[j];
      aa += a * a;
      ax += a * x_[j];
    }
    if (aa <= 0) return false;
    d_ = ax / aa;
    return true;
  }

  double error() const { return error_; }

  void Store(uint8_t* block) const {
    StoreScale(d_, block + 208);
    for (size_t g = 0; g < kSmallGroups; ++g) {
      block[192 + g] = static_cast<uint8_t>(static_cast<int8_t>(scales_[g]));
    }
    for (size_t at = 0; at < codes_.size(); ++at) {
      const int code = codes_[at] + kHalf;
      // In halves of 128 numbers, in quarters of 32.
      const size_t half = at / 128, group = at % 128 / 32, place = at % 32;
      uint8_t& nibble = block[half * 64 + group % 2 * 32 + place];
      uint8_t& high = block[128 + half * 32 + place];
      nibble = static_cast<uint8_t>(nibble | (code & 15) << (group / 2 * 4));
      high = static_cast<uint8_t>(high | code >> 4 << (2 * group));
    }
  }

 private:
  static constexpr int kSteepest = 128;
  const float* x_;
  double d_ = 0, error_ = 0;
  std::array<int, kSmallGroups> scales_ = {};
  std::array<int, kSmallGroup* kSmallGroups> codes_ = {};
};

// A block of Q6_K. Returns and requires the same.
bool SymmetricGroups(const float* numbers, uint8_t* block) {
  std::memset(block, 0, 210);
  std::array<double, kSmallGroups> scales;
  bool is_zero = true;
  for (size_t g = 0; g < kSmallGroups; ++g) {
    scales[g] = BestScale(numbers + g * kSmallGroup);
    is_zero = is_zero && scales[g] == 0;
  }
  if (is_zero) return true;
  SymmetricBlock best(numbers, scales);
  if (!best.Encode()) return false;
  for (SymmetricBlock next = best; next.Refit() && next.Encode();) {
    if (next.error() >= best.error()) break;
    best = next;
  }
  best.Store(block);
  return true;
}

constexpr int kNumbers = 32;  // of a block here

// Products and sums are rounded separately, as in ggml's package: this package is compiled
// without fused multiply-adds (BUILD).

// 1 / step, or 0 if that is not finite.
float Inverse(float step) {
  const float inverse = step == 0 ? 0.0f : 1.0f / step;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Stores a scale as f16. Returns false if it is too large.
bool StoreHalf(float value, uint8_t* to) {
  const uint16_t bits = math::FloatToHalf(value);
  std::memcpy(to, &bits, sizeof(bits));
  return std::isfinite(math::HalfToFloat(bits));
}

// The first number of largest magnitude.
float LargestOf(const float* x) {
  float largest = x[0];
  for (int i = 1; i < kNumbers; ++i) {
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  }
  return largest;
}

void StoreNibbles(const uint8_t* codes, uint8_t* nibbles) {
  for (int j = 0; j < kNumbers / 2; ++j) {
    nibbles[j] = static_cast<uint8_t>((codes[j] & 15) |
                                      (codes[j + kNumbers / 2] & 15) << 4);
  }
}

void StoreHighBits(const uint8_t* codes, uint8_t* to) {
  uint32_t high = 0;
  for (int j = 0; j < kNumbers; ++j) {
    high |= static_cast<uint32_t>(codes[j] >> 4) << j;
  }
  std::memcpy(to, &high, sizeof(high));
}

uint8_t CodeOf(float scaled, int most) {
  return static_cast<uint8_t>(
      std::clamp(static_cast<int>(scaled), 0, most));  // rounds towards zero
}

// Number i is d (q - half): the one of largest magnitude gets code 0.
bool CodeAround(const float* x, int half, uint8_t* to, uint8_t* codes) {
  const float d = LargestOf(x) / static_cast<float>(-half);
  const float inverse = Inverse(d);
  for (int j = 0; j < kNumbers; ++j) {
    codes[j] = CodeOf(x[j] * inverse + (static_cast<float>(half) + 0.5f),
                      2 * half - 1);
  }
  return StoreHalf(d, to);
}

// Number i is d q + m: the minimum gets code 0, the maximum the last.
bool CodeFrom(const float* x, int most, uint8_t* to, uint8_t* codes) {
  const auto [low, high] = std::minmax_element(x, x + kNumbers);
  const float m = *low;
  const float d = (*high - m) / static_cast<float>(most);
  if (!std::isfinite(d)) return false;
  const float inverse = Inverse(d);
  for (int j = 0; j < kNumbers; ++j) {
    codes[j] = CodeOf((x[j] - m) * inverse + 0.5f, most);
  }
  const bool fits = StoreHalf(d, to);
  return StoreHalf(m, to + 2) && fits;
}

// Encoders of one block; they return false if the numbers are too large.

bool Q4_0(const float* x, uint8_t* to) {
  uint8_t codes[kNumbers];
  const bool fits = CodeAround(x, 8, to, codes);
  StoreNibbles(codes, to + 2);
  return fits;
}

bool Q4_1(const float* x, uint8_t* to) {
  uint8_t codes[kNumbers];
  const bool fits = CodeFrom(x, 15, to, codes);
  StoreNibbles(codes, to + 4);
  return fits;
}

bool Q5_0(const float* x, uint8_t* to) {
  uint8_t codes[kNumbers];
  const bool fits = CodeAround(x, 16, to, codes);
  StoreHighBits(codes, to + 2);
  StoreNibbles(codes, to + 6);
  return fits;
}

bool Q5_1(const float* x, uint8_t* to) {
  uint8_t codes[kNumbers];
  const bool fits = CodeFrom(x, 31, to, codes);
  StoreHighBits(codes, to + 4);
  StoreNibbles(codes, to + 8);
  return fits;
}

bool Q8_0(const float* x, uint8_t* to) {
  const float d = std::abs(LargestOf(x)) / 127.0f;
  const float inverse = Inverse(d);
  for (int j = 0; j < kNumbers; ++j) {
    const float code = std::round(x[j] * inverse);
    to[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(code));
  }
  return StoreHalf(d, to);
}

bool F32(const float* x, uint8_t* to) {
  std::memcpy(to, x, sizeof(*x));
  return true;
}

bool F16(const float* x, uint8_t* to) { return StoreHalf(*x, to); }

bool BF16(const float* x, uint8_t* to) {
  const uint16_t bits = math::FloatToBFloat16(*x);
  std::memcpy(to, &bits, sizeof(bits));
  return std::isfinite(math::BFloat16ToFloat(bits));
}

bool Q4_K(const float* x, uint8_t* to) { return AffineGroups(x, 15, to); }
bool Q5_K(const float* x, uint8_t* to) { return AffineGroups(x, 31, to); }
bool Q6_K(const float* x, uint8_t* to) { return SymmetricGroups(x, to); }

using EncodeBlock = bool (*)(const float*, uint8_t*);

// Types that are only read.
constexpr EncodeBlock Q2_K = nullptr, Q3_K = nullptr, IQ4_NL = nullptr,
                      IQ4_XS = nullptr, TQ1_0 = nullptr, TQ2_0 = nullptr,
                      MXFP4 = nullptr;

EncodeBlock EncoderOf(WeightType type) {
  switch (type) {
#define STOWAGE_WEIGHT_TYPE(name, count, size) \
  case WeightType::k##name:                    \
    return name;
#include "ir/weight_types.def"
  }
  return nullptr;
}

}  // namespace

bool CanQuantize(WeightType type) { return EncoderOf(type) != nullptr; }

Status Quantize(WeightType type, std::span<const float> numbers,
                std::span<std::byte> to) {
  STOWAGE_CHECK(CanQuantize(type));
  STOWAGE_CHECK(BytesOf(type, std::ssize(numbers)) == std::ssize(to));
  const auto wrong = std::ranges::find_if(
      numbers, [](float number) { return !std::isfinite(number); });
  if (wrong != numbers.end()) {
    return Error{ErrorCode::kNotFinite,
                 StrCat("[quantize] number ", wrong - numbers.begin(), " is ",
                        *wrong, "; expected finite numbers")};
  }
  const BlockFormat& format = FormatOf(type);
  const EncodeBlock encode = EncoderOf(type);
  auto* bytes = reinterpret_cast<uint8_t*>(to.data());
  for (size_t at = 0; at < numbers.size();
       at += static_cast<size_t>(format.numbers), bytes += format.bytes) {
    if (encode(numbers.data() + at, bytes)) continue;
    const auto block = numbers.subspan(at, static_cast<size_t>(format.numbers));
    const auto largest = std::ranges::max_element(
        block, {}, [](float number) { return std::abs(number); });
    return InvalidArgumentError(
        "[quantize] number ",
        static_cast<int64_t>(at) + (largest - block.begin()), " is ", *largest,
        ", too large for ", format.name, "; F32 holds it");
  }
  return {};
}

}  // namespace stowage

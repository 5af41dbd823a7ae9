// constant, fill, iota.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "math/random.h"
#include "math/small_floats.h"

namespace stowage::cpu {

namespace {

StepCode RunConstant(const Launch& launch, ThreadPool&) noexcept {
  const std::string& data = launch.attrs->Data("data");
  std::memcpy(launch.outputs[0].data, data.data(), data.size());
  return StepCode::kOk;
}

template <typename T>
void FillAll(const TensorView& y, T value, ThreadPool& pool) {
  ParallelRanges(pool, y.size(), kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   std::fill(y.as<T>() + begin, y.as<T>() + end, value);
                 });
}

StepCode RunFill(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& y = launch.outputs[0];
  const double value = launch.attrs->Float("value");
  switch (y.dtype()) {
    case DType::kF16:
      FillAll(y, math::FloatToHalf(math::RoundToOddFloat(value)), pool);
      break;
    case DType::kBF16:
      FillAll(y, math::FloatToBFloat16(math::RoundToOddFloat(value)), pool);
      break;
    default:  // the op has checked that an integer type holds the value
      OnNumber(y.dtype(), [&](auto zero) {
        FillAll(y, static_cast<decltype(zero)>(value), pool);
      });
  }
  return StepCode::kOk;
}

// y[i] = f(i)
template <typename T, typename F>
void CountAll(const TensorView& y, ThreadPool& pool, const F& f) {
  ParallelRanges(pool, y.size(), kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) y.as<T>()[i] = f(i);
                 });
}

StepCode RunIota(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& y = launch.outputs[0];
  const double start = launch.attrs->Float("start");
  const double step = launch.attrs->Float("step");
  const auto at = [=](int64_t i) {
    return start + step * static_cast<double>(i);
  };
  switch (y.dtype()) {
    case DType::kF16:
      CountAll<uint16_t>(y, pool, [&](int64_t i) {
        return math::FloatToHalf(math::RoundToOddFloat(at(i)));
      });
      break;
    case DType::kBF16:
      CountAll<uint16_t>(y, pool, [&](int64_t i) {
        return math::FloatToBFloat16(math::RoundToOddFloat(at(i)));
      });
      break;
    default:
      OnNumber(y.dtype(), [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_integral_v<T>) {
          // The op has checked both ends; elements between them may wrap around.
          const auto first = static_cast<uint64_t>(static_cast<int64_t>(start));
          const auto by = static_cast<uint64_t>(static_cast<int64_t>(step));
          CountAll<T>(y, pool, [&](int64_t i) {
            return static_cast<T>(first + by * static_cast<uint64_t>(i));
          });
        } else {
          CountAll<T>(y, pool,
                      [&](int64_t i) { return static_cast<T>(at(i)); });
        }
      });
  }
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Constant = {.run = RunConstant,
                                      .supports = SupportsAll};
constinit const CpuKernel Fill = {.run = RunFill, .supports = SupportsAll};
constinit const CpuKernel Iota = {.run = RunIota, .supports = SupportsAll};

}  // namespace kernels

// random_uniform, random_normal: a function of the element's number (math/random.h).

namespace {

// `mask`: the bits of a word that form a fraction.
template <math::RandomStream kStream, typename T>
void Four(const math::Philox4& words, uint32_t mask, T* y) {
  if constexpr (kStream == math::RandomStream::kNormal) {
    math::NormalPair(words.word[0], words.word[1], &y[0], &y[1]);
    math::NormalPair(words.word[2], words.word[3], &y[2], &y[3]);
  } else {
    for (int i = 0; i < 4; ++i) {
      y[i] = math::Fraction < T,
      sizeof(T) == 8 ? 32 : 24 > (words.word[i] & mask);
    }
  }
}

template <math::RandomStream kStream>
StepCode RunRandom(const Launch& launch, ThreadPool& pool) noexcept {
  const math::PhiloxKey key = math::DropoutKey(
      *launch.inputs[0].as<const int64_t>(), launch.attrs->Int("id"));
  const int64_t step = *launch.inputs[1].as<const int64_t>();
  const TensorView& y = launch.outputs[0];
  const int64_t size = y.size();
  // Excess bits are truncated, not rounded: a fraction is below 1.
  const uint32_t mask = y.dtype() == DType::kF16    ? 0xFFE00000
                        : y.dtype() == DType::kBF16 ? 0xFF000000
                                                    : 0xFFFFFFFF;
  OnFloat(ComputedIn(y.dtype()), [&](auto zero) {
    using T = decltype(zero);
    ParallelRanges(
        pool, CeilDiv(size, 4), kChunkElements / 16,
        [&](int64_t begin, int64_t end) {
          for (int64_t quad = begin; quad < end; ++quad) {
            T numbers[4];
            Four<kStream>(
                math::Philox4x32(math::RandomCounter(kStream, step, quad), key),
                mask, numbers);
            const int64_t count = std::min<int64_t>(4, size - 4 * quad);
            if constexpr (std::is_same_v<T, float>) {
              if (IsHalf(y.dtype())) {
                Narrow(y.dtype(), count, numbers,
                       y.data + 4 * quad * SizeOf(y.dtype()));
                continue;
              }
            }
            std::copy_n(numbers, count, y.as<T>() + 4 * quad);
          }
        });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel RandomUniform = {
    .run = RunRandom<math::RandomStream::kUniform>, .supports = SupportsAll};
constinit const CpuKernel RandomNormal = {
    .run = RunRandom<math::RandomStream::kNormal>, .supports = SupportsAll};

}  // namespace kernels

// dropout: the mask is computed where it is used (math/random.h), never stored.

namespace {

// Counters worked on side by side, one a lane. Words stand in 64 bits, where
// compilers find the widening multiplication.
constexpr int kQuads = 16;
constexpr int kBlock = 4 * kQuads;  // elements

struct Lanes {
  uint64_t word[4][kQuads];
};

void Round(Lanes& x, uint64_t key0, uint64_t key1) {
  constexpr uint64_t kLow = 0xFFFFFFFF;
  for (int lane = 0; lane < kQuads; ++lane) {
    const uint64_t product0 = math::kPhiloxMultiplier0 * x.word[0][lane];
    const uint64_t product1 = math::kPhiloxMultiplier1 * x.word[2][lane];
    x.word[0][lane] = (product1 >> 32) ^ x.word[1][lane] ^ key0;
    x.word[1][lane] = product1 & kLow;
    x.word[2][lane] = (product0 >> 32) ^ x.word[3][lane] ^ key1;
    x.word[3][lane] = product0 & kLow;
  }
}

// The random words of elements 4 * quad to 4 * quad + kBlock - 1:
// math::Philox4x32, lane by lane.
void RandomWords(math::PhiloxKey key, int64_t step, int64_t quad,
                 uint32_t* words) {
  Lanes x;
  for (int lane = 0; lane < kQuads; ++lane) {
    const math::Philox4 counter = math::DropoutCounter(step, quad + lane);
    for (int i = 0; i < 4; ++i) x.word[i][lane] = counter.word[i];
  }
  for (int round = 0; round < math::kPhiloxRounds; ++round) {
    Round(x, key.word[0], key.word[1]);
    key.word[0] += math::kPhiloxWeyl0;
    key.word[1] += math::kPhiloxWeyl1;
  }
  for (int lane = 0; lane < kQuads; ++lane) {
    for (int i = 0; i < 4; ++i) {
      words[4 * lane + i] = static_cast<uint32_t>(x.word[i][lane]);
    }
  }
}

StepCode RunDropout(const Launch& launch, ThreadPool& pool) noexcept {
  const double p = launch.attrs->Float("p");
  const math::PhiloxKey key = math::DropoutKey(
      *launch.inputs[1].as<const int64_t>(), launch.attrs->Int("id"));
  const int64_t step = *launch.inputs[2].as<const int64_t>();
  const uint64_t threshold = math::DropoutThreshold(p);
  // Seed and step are not walked over.
  Launch elementwise = launch;
  elementwise.inputs = launch.inputs.first(1);
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    const T scale = static_cast<T>(1 / (1 - p));
    Elementwise<T, T>(
        elementwise, pool, [&](int64_t n, int64_t index, T* y, const T* x) {
          uint32_t words[kBlock];
          int64_t i = 0;
          while (i < n) {
            const int64_t quad = (index + i) / 4;
            RandomWords(key, step, quad, words);
            const int64_t skipped = (index + i) - 4 * quad;
            const int64_t count = std::min(n - i, kBlock - skipped);
            for (int64_t j = 0; j < count; ++j) {
              y[i + j] =
                  words[skipped + j] >= threshold ? x[i + j] * scale : T(0);
            }
            i += count;
          }
        });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Dropout = {.run = RunDropout,
                                     .supports = SupportsAll};

}  // namespace kernels

}  // namespace stowage::cpu

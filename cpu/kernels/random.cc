// random_uniform, random_normal: a function of the element's number (math/random.h).

#include "math/random.h"

#include <algorithm>
#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/half_floats.h"
#include "math/philox.h"

namespace stowage::cpu {
namespace {

// `mask`: the bits of a word that make a fraction.
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
  // What the type does not hold is cut off, not rounded: a fraction is below 1.
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
}  // namespace stowage::cpu

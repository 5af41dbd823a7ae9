// dropout: the mask is computed where it is used (math/philox.h), never stored.

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "math/philox.h"

namespace stowage::cpu {
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

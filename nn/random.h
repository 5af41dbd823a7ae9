#ifndef STOWAGE_NN_RANDOM_H_
#define STOWAGE_NN_RANDOM_H_

// Numbers for drawing batches: SplitMix64 (Steele, Lea & Flood 2014) started
// from a seed and a step, so that a draw depends on these two alone.
//
//   SplitMix64 random(seed, step);
//   int64_t start = random.Below(100);

#include <cstdint>

namespace stowage {

class SplitMix64 {
 public:
  SplitMix64(uint64_t seed, uint64_t step) : state_(seed) {
    state_ = Next() + step;
    state_ = Next();
  }

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// In [0, bound), each with a probability that is 1/bound to within 2^-31.
  /// Precondition: 1 <= bound < 2^31.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>((Next() >> 32) * static_cast<uint64_t>(bound) >>
                                32);
  }

 private:
  uint64_t state_;
};

}  // namespace stowage

#endif  // STOWAGE_NN_RANDOM_H_

#ifndef STOWAGE_GPU_ATTENTION_ALGORITHMS_H_
#define STOWAGE_GPU_ATTENTION_ALGORITHMS_H_

// The algorithms in which attention of 16 bits and its gradient are computed on tensor cores. All
// of them round alike, but none need add in the order of another: an algorithm is chosen once, and
// kept (gpu/attention_autotuner.h).
//
//   AttentionAlgorithms ways = {AttentionAlgorithm::kWarps};
//   ways.Add(AttentionAlgorithm::kWarpgroups);
//   ways.first() == AttentionAlgorithm::kWarps;
//
// A new algorithm is a name here, a row of the table in known_attention_algorithms.cc, and its functions
// in rows of the tables in gpu/kernels/attention.cu.cc.

#include <bit>
#include <cstdint>
#include <initializer_list>

namespace stowage::gpu {

/// In this order the earlier one is taken of two that are as fast.
enum class AttentionAlgorithm : uint8_t {
  kWarps,         // products of warps (mma.sync), which any device has
  kWarpgroups,    // products of warpgroups (wgmma)
  kFiveProducts,  // of the gradient alone: products of warps, each made once
};
inline constexpr int kNumAttentionAlgorithms = 3;

/// A set of algorithms.
class AttentionAlgorithms {
 public:
  constexpr AttentionAlgorithms() = default;
  constexpr AttentionAlgorithms(
      std::initializer_list<AttentionAlgorithm> ways) {
    for (const AttentionAlgorithm way : ways) Add(way);
  }

  constexpr void Add(AttentionAlgorithm way) { bits_ |= Bit(way); }
  constexpr bool Has(AttentionAlgorithm way) const {
    return (bits_ & Bit(way)) != 0;
  }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr int size() const { return std::popcount(bits_); }
  /// Precondition: not empty.
  constexpr AttentionAlgorithm first() const {
    return static_cast<AttentionAlgorithm>(std::countr_zero(bits_));
  }
  constexpr AttentionAlgorithms operator&(AttentionAlgorithms other) const {
    other.bits_ &= bits_;
    return other;
  }
  /// The set as a number.
  constexpr uint32_t bits() const { return bits_; }

  friend constexpr bool operator==(AttentionAlgorithms,
                                   AttentionAlgorithms) = default;

 private:
  static constexpr uint32_t Bit(AttentionAlgorithm way) {
    return uint32_t{1} << static_cast<uint32_t>(way);
  }
  uint32_t bits_ = 0;
};

/// All that there are.
inline constexpr AttentionAlgorithms kAllAttentionAlgorithms = {
    AttentionAlgorithm::kWarps, AttentionAlgorithm::kWarpgroups,
    AttentionAlgorithm::kFiveProducts};
static_assert(kAllAttentionAlgorithms.size() == kNumAttentionAlgorithms);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ATTENTION_ALGORITHMS_H_

#ifndef STOWAGE_GPU_ATTENTION_WAYS_H_
#define STOWAGE_GPU_ATTENTION_WAYS_H_

// The ways in which attention of 16 bits and its gradient are computed on tensor cores. All
// of them round alike, but none need add in the order of another: a way is chosen once, and
// kept (gpu/attention_chooser.h).
//
//   AttentionWays ways = {AttentionWay::kWarps};
//   ways.Add(AttentionWay::kWarpgroups);
//   ways.first() == AttentionWay::kWarps;
//
// A new way is a name here, a row of the table in known_attention_ways.cc, and its functions
// in rows of the tables in gpu/kernels/attention.cu.cc.

#include <bit>
#include <cstdint>
#include <initializer_list>

namespace stowage::gpu {

/// In this order the earlier one is taken of two that are as fast.
enum class AttentionWay : uint8_t {
  kWarps,         // products of warps (mma.sync), which any device has
  kWarpgroups,    // products of warpgroups (wgmma)
  kFiveProducts,  // of the gradient alone: products of warps, each made once
};
inline constexpr int kNumAttentionWays = 3;

/// A set of ways.
class AttentionWays {
 public:
  constexpr AttentionWays() = default;
  constexpr AttentionWays(std::initializer_list<AttentionWay> ways) {
    for (const AttentionWay way : ways) Add(way);
  }

  constexpr void Add(AttentionWay way) { bits_ |= Bit(way); }
  constexpr bool Has(AttentionWay way) const { return (bits_ & Bit(way)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr int size() const { return std::popcount(bits_); }
  /// Precondition: not empty.
  constexpr AttentionWay first() const {
    return static_cast<AttentionWay>(std::countr_zero(bits_));
  }
  constexpr AttentionWays operator&(AttentionWays other) const {
    other.bits_ &= bits_;
    return other;
  }
  /// The set as a number.
  constexpr uint32_t bits() const { return bits_; }

  friend constexpr bool operator==(AttentionWays, AttentionWays) = default;

 private:
  static constexpr uint32_t Bit(AttentionWay way) {
    return uint32_t{1} << static_cast<uint32_t>(way);
  }
  uint32_t bits_ = 0;
};

/// All that there are.
inline constexpr AttentionWays kAllAttentionWays = {
    AttentionWay::kWarps, AttentionWay::kWarpgroups,
    AttentionWay::kFiveProducts};
static_assert(kAllAttentionWays.size() == kNumAttentionWays);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ATTENTION_WAYS_H_

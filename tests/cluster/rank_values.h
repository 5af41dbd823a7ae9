#ifndef STOWAGE_TESTS_CLUSTER_RANK_VALUES_H_
#define STOWAGE_TESTS_CLUSTER_RANK_VALUES_H_

// Provides values that differ between ranks, for tests of the order of addition. The magnitudes of
// floats span a factor of 2^20, so nearly every addition rounds, and sums depend on the order.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "data/batching.h"

namespace stowage::cluster {

/// Returns `count` pseudorandom values of rank `rank`.
template <typename T>
std::vector<T> RankValues(int rank, size_t count) {
  SplitMix64 random(/*seed=*/7, static_cast<uint64_t>(rank));
  std::vector<T> values(count);
  for (T& value : values) {
    const auto drawn = static_cast<T>(random.Below(2'000'001)) - T{1'000'000};
    value = drawn;
    if constexpr (std::is_floating_point_v<T>) {
      value = drawn / static_cast<T>(1 + random.Below(1 << 20));
    }
  }
  return values;
}

/// Returns the sums of the values of `ranks` ranks, added in rank order.
template <typename T>
std::vector<T> SumsInRankOrder(int ranks, size_t count) {
  std::vector<T> sums = RankValues<T>(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<T> more = RankValues<T>(rank, count);
    for (size_t i = 0; i < count; ++i) sums[i] += more[i];
  }
  return sums;
}

}  // namespace stowage::cluster

#endif  // STOWAGE_TESTS_CLUSTER_RANK_VALUES_H_

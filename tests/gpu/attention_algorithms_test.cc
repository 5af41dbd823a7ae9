#include <doctest/doctest.h>

#include <utility>

#include "gpu/attention_autotuner.h"
#include "gpu/device.h"
#include "gpu/queue.h"

namespace stowage::gpu {
namespace {

TEST_CASE("a set of ways knows its members, the earliest first") {
  AttentionAlgorithms ways;
  CHECK(ways.empty());
  CHECK(ways.size() == 0);
  ways.Add(AttentionAlgorithm::kWarpgroups);
  CHECK(ways.Has(AttentionAlgorithm::kWarpgroups));
  CHECK_FALSE(ways.Has(AttentionAlgorithm::kWarps));
  CHECK(ways.first() == AttentionAlgorithm::kWarpgroups);
  ways.Add(AttentionAlgorithm::kWarps);
  CHECK(ways.size() == 2);
  CHECK(ways.first() == AttentionAlgorithm::kWarps);
  CHECK(ways != kAllAttentionAlgorithms);
  ways.Add(AttentionAlgorithm::kFiveProducts);
  CHECK(ways == kAllAttentionAlgorithms);
  CHECK((ways & AttentionAlgorithms{AttentionAlgorithm::kWarpgroups}) ==
        AttentionAlgorithms{AttentionAlgorithm::kWarpgroups});
  CHECK((AttentionAlgorithms{AttentionAlgorithm::kWarps} &
         AttentionAlgorithms{AttentionAlgorithm::kWarpgroups})
            .empty());
}

constexpr AttentionAlgorithms kWarps = {AttentionAlgorithm::kWarps};
constexpr AttentionAlgorithms kWarpgroups = {AttentionAlgorithm::kWarpgroups};
constexpr AttentionAlgorithms kOfAny = {AttentionAlgorithm::kWarps,
                                        AttentionAlgorithm::kFiveProducts};

DeviceTraits Of(int major, int minor) {
  DeviceTraits traits;
  traits.major = major;
  traits.minor = minor;
  traits.tensor_maps = true;
  return traits;
}

TEST_CASE("a device has the ways of its compute capability") {
  const DeviceTraits hopper = Of(9, 0);
  CHECK(AttentionAlgorithmsOf(hopper, kAllAttentionAlgorithms) ==
        kAllAttentionAlgorithms);
  CHECK(AttentionAlgorithmsOf(hopper, kWarpgroups) == kWarpgroups);
  for (const auto& [major, minor] :
       {std::pair(8, 0), std::pair(8, 9), std::pair(10, 0), std::pair(12, 0)}) {
    const DeviceTraits other = Of(major, minor);
    CHECK(AttentionAlgorithmsOf(other, kAllAttentionAlgorithms) == kOfAny);
    CHECK(AttentionAlgorithmsOf(other, kWarpgroups).empty());
  }
  DeviceTraits old = hopper;
  old.tensor_maps = false;
  CHECK(AttentionAlgorithmsOf(old, kAllAttentionAlgorithms) == kOfAny);
}

TEST_CASE("unasked, a way is taken that a device has shown right") {
  for (const int major : {8, 9, 10, 12}) {
    CHECK(AttentionAlgorithmsOf(Of(major, 0), {}) == kWarps);
  }
}

TEST_CASE("a way is called by what computes it") {
  CHECK(AttentionAlgorithmName(AttentionAlgorithm::kWarps) == "warps");
  CHECK(AttentionAlgorithmName(AttentionAlgorithm::kWarpgroups) ==
        "warpgroups");
  CHECK(AttentionAlgorithmName(AttentionAlgorithm::kFiveProducts) ==
        "five products");
}

}  // namespace
}  // namespace stowage::gpu

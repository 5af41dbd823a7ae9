#include "gpu/known_attention_ways.h"

#include <doctest/doctest.h>

#include <utility>

#include "gpu/attention_ways.h"
#include "gpu/device.h"

namespace stowage::gpu {
namespace {

constexpr AttentionWays kWarps = {AttentionWay::kWarps};
constexpr AttentionWays kWarpgroups = {AttentionWay::kWarpgroups};
constexpr AttentionWays kOfAny = {AttentionWay::kWarps,
                                  AttentionWay::kFiveProducts};

DeviceTraits Of(int major, int minor) {
  DeviceTraits traits;
  traits.major = major;
  traits.minor = minor;
  traits.tensor_maps = true;
  return traits;
}

TEST_CASE("a device has the ways of its compute capability") {
  const DeviceTraits hopper = Of(9, 0);
  CHECK(AttentionWaysOf(hopper, kAllAttentionWays) == kAllAttentionWays);
  CHECK(AttentionWaysOf(hopper, kWarpgroups) == kWarpgroups);
  for (const auto& [major, minor] :
       {std::pair(8, 0), std::pair(8, 9), std::pair(10, 0), std::pair(12, 0)}) {
    const DeviceTraits other = Of(major, minor);
    CHECK(AttentionWaysOf(other, kAllAttentionWays) == kOfAny);
    CHECK(AttentionWaysOf(other, kWarpgroups).empty());
  }
  DeviceTraits old = hopper;
  old.tensor_maps = false;
  CHECK(AttentionWaysOf(old, kAllAttentionWays) == kOfAny);
}

TEST_CASE("unasked, a way is taken that a device has shown right") {
  for (const int major : {8, 9, 10, 12}) {
    CHECK(AttentionWaysOf(Of(major, 0), {}) == kWarps);
  }
}

TEST_CASE("a way is called by what computes it") {
  CHECK(AttentionWayName(AttentionWay::kWarps) == "warps");
  CHECK(AttentionWayName(AttentionWay::kWarpgroups) == "warpgroups");
  CHECK(AttentionWayName(AttentionWay::kFiveProducts) == "five products");
}

}  // namespace
}  // namespace stowage::gpu

#include "gpu/attention_ways.h"

#include <doctest/doctest.h>

namespace stowage::gpu {
namespace {

TEST_CASE("a set of ways knows its members, the earliest first") {
  AttentionWays ways;
  CHECK(ways.empty());
  CHECK(ways.size() == 0);
  ways.Add(AttentionWay::kWarpgroups);
  CHECK(ways.Has(AttentionWay::kWarpgroups));
  CHECK_FALSE(ways.Has(AttentionWay::kWarps));
  CHECK(ways.first() == AttentionWay::kWarpgroups);
  ways.Add(AttentionWay::kWarps);
  CHECK(ways.size() == 2);
  CHECK(ways.first() == AttentionWay::kWarps);
  CHECK(ways != kAllAttentionWays);
  ways.Add(AttentionWay::kFiveProducts);
  CHECK(ways == kAllAttentionWays);
  CHECK((ways & AttentionWays{AttentionWay::kWarpgroups}) ==
        AttentionWays{AttentionWay::kWarpgroups});
  CHECK((AttentionWays{AttentionWay::kWarps} &
         AttentionWays{AttentionWay::kWarpgroups})
            .empty());
}

}  // namespace
}  // namespace stowage::gpu

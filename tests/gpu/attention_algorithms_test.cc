#include "gpu/attention_algorithms.h"

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace stowage::gpu

#include "planner/fit/min_cut.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/support/random_graph.h"

namespace stowage::fit {
namespace {

struct TestEdge {
  int from, to;
  int64_t capacity;
};

// The cheapest of all sets of vertices with the source and without the sink.
int64_t CheapestCut(int vertices, const std::vector<TestEdge>& edges) {
  int64_t best = MinCut::kInfinite;
  for (unsigned set = 0; set < 1u << vertices; ++set) {
    if ((set & 1) == 0 || (set >> 1 & 1) != 0) continue;  // 0 source, 1 sink
    int64_t cost = 0;
    for (const TestEdge& edge : edges) {
      if ((set >> edge.from & 1) != 0 && (set >> edge.to & 1) == 0) {
        cost = std::min(cost + edge.capacity, MinCut::kInfinite);
      }
    }
    best = std::min(best, cost);
  }
  return best;
}

TEST_CASE("a cut costs as little as the cheapest of all, and is one") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    INFO("seed ", seed);
    testing::Rng rng(seed);
    const int vertices = 2 + static_cast<int>(rng.Below(8));
    std::vector<TestEdge> edges;
    for (int64_t k = rng.Below(25); k > 0; --k) {
      edges.push_back({static_cast<int>(rng.Below(vertices)),
                       static_cast<int>(rng.Below(vertices)),
                       rng.Below(6) == 0 ? MinCut::kInfinite : rng.Below(9)});
    }
    MinCut network(vertices);
    for (const TestEdge& e : edges) network.AddEdge(e.from, e.to, e.capacity);
    const int64_t cost = network.Solve(0, 1);
    const int64_t cheapest = CheapestCut(vertices, edges);
    if (cheapest >= MinCut::kInfinite) {
      CHECK(cost >= MinCut::kInfinite);
      continue;
    }
    CHECK(cost == cheapest);
    int64_t crossing = 0;
    for (const TestEdge& e : edges) {
      if (network.is_source_side(e.from) && !network.is_source_side(e.to)) {
        crossing += e.capacity;
      }
    }
    CHECK(crossing == cost);
    CHECK(network.is_source_side(0));
    CHECK(!network.is_source_side(1));
  }
}

}  // namespace
}  // namespace stowage::fit

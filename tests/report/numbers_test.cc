#include "report/numbers.h"

#include <doctest/doctest.h>

#include "tests/report/example.h"

namespace stowage {
namespace {

TEST_CASE("the figures of a plan laid by hand are those worked out by hand") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  CHECK(report.graph_name == "example <1>");
  CHECK(report.params == 4);
  CHECK(report.arena == 80);
  CHECK(report.lower_bound == 80);
  CHECK(report.no_reuse == 96);
  CHECK(report.saved() == 16);
  CHECK(report.saved_percent() == doctest::Approx(100.0 * 16 / 96));
  CHECK(report.fragmentation_percent() == 0);
  CHECK(report.saved_over_caching() == (2 << 20) - 80);
  CHECK(report.saved_over_caching_percent() ==
        doctest::Approx(100.0 * ((2 << 20) - 80) / (2 << 20)));
  CHECK(report.views == 7);
  CHECK(report.in_place == 3);
  CHECK(report.packer == "by hand");
  CHECK(report.order == "given");
  CHECK(report.optimal);
  CHECK(report.peak_node == "\"loss\"");
}

TEST_CASE("addresses count from the arena's first byte") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  REQUIRE(report.buffers.size() == 6);
  const Bytes expected[] = {0, 16, 32, 48, 32, 64};
  for (size_t i = 0; i < 6; ++i) {
    INFO(report.buffers[i].name);
    CHECK(report.buffers[i].address == expected[i]);
  }
}

TEST_CASE("live bytes follow births and deaths in each region") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  REQUIRE(report.live.size() == 3);
  for (const RegionBytes& live : report.live) {
    CHECK(live.weights == 16);
    CHECK(live.state == 0);
    CHECK(live.io == 16);
  }
  CHECK(report.live[0].activations == 16);
  CHECK(report.live[1].activations == 32);
  CHECK(report.live[2].activations == 20);
  CHECK(report.live[0].workspace == 0);
  CHECK(report.live[2].workspace == 16);
}

TEST_CASE("the live set of the peak comes largest first") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  // "h" is dead at time 2; "loss", of four bytes, comes last.
  CHECK(report.peak_live == std::vector<int32_t>{0, 1, 3, 5, 4});
}

TEST_CASE("nodes carry their op, phase and cost") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  REQUIRE(report.nodes.size() == 3);
  CHECK(report.nodes[0].op == "mul");
  CHECK(report.nodes[1].op == "relu");
  CHECK(report.nodes[2].op == "reduce_sum");
  CHECK(report.nodes[1].label == "\"r & s\"");
  CHECK(report.nodes[0].phase == Phase::kForward);
  CHECK(report.nodes[0].flops == 4);
  CHECK(report.flops ==
        report.nodes[0].flops + report.nodes[1].flops + report.nodes[2].flops);
}

TEST_CASE("a share of nothing is nothing") {
  CHECK(Report::Percent(5, 0) == 0);
  CHECK(Report::Percent(1, 4) == 25);
}

}  // namespace
}  // namespace stowage

#include "report/numbers.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/report/example.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

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

Report Example() {
  return MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
}

// The same, with a span of 112 bytes instead of 48.
Report Larger() {
  Plan plan = testing::ExamplePlan();
  plan.regions.activations += 64;
  plan.buffers.pop_back();
  plan.workspace_of[2] = -1;
  return MakeReport(testing::ExampleGraph(), plan);
}

TEST_CASE("two plans stand beside each other with their differences") {
  const Report a = Example();
  const Report b = Larger();
  const std::string text = ComparisonText({"a.plan", &a}, {"b.plan", &b});
  CHECK(text.find("| Figure             |          a.plan |          b.plan |"
                  "         difference |\n") != text.npos);
  CHECK(text.find("| arena              |            80 B |           144 B |"
                  "      +64 B, 80.0 % |\n") != text.npos);
  CHECK(text.find("| saved              |            16 B |           -48 B |"
                  "    -64 B, -400.0 % |\n") != text.npos);
  CHECK(text.find("| state              |             0 B |             0 B |"
                  "                0 B |\n") != text.npos);
  CHECK(text.find("| buffers            |               6 |               5 |"
                  "                 -1 |\n") != text.npos);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    CHECK(end - at == 79);
    at = end + 1;
  }
}

TEST_CASE("as JSON: both plans' figures, and the second less the first") {
  const Report a = Example();
  const Report b = Larger();
  const Json json = ComparisonJson({"a.plan", &a}, {"b.plan", &b});
  REQUIRE(json["plans"].size() == 2);
  CHECK(json["plans"][0]["name"] == "a.plan");
  const Json figures = FiguresJson(b, b.peak_live.size());
  for (const auto& [name, value] : figures.items()) {
    CHECK(json["plans"][1][name] == value);
  }
  CHECK(json["difference"]["arena_bytes"] == 64);
  CHECK(json["difference"]["saved_bytes"] == -64);
  CHECK(json["difference"]["buffers"] == -1);
  CHECK(json["difference"]["nodes"] == 0);
}

}  // namespace
}  // namespace stowage

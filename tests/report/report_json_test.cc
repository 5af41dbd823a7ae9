#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "report/numbers.h"
#include "report/traffic.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

TEST_CASE("the JSON report parses back to the plan's figures, in exact bytes") {
  const Plan plan = testing::ExamplePlan();
  const Json json =
      Json::parse(ToJson(MakeReport(testing::ExampleGraph(), plan)));
  CHECK(json["graph"] == plan.graph_name);
  CHECK(json["params"] == 4);
  CHECK(json["arena_bytes"] == plan.arena_bytes());
  CHECK(json["lower_bound_bytes"] == plan.lower_bound);
  CHECK(json["no_reuse_bytes"] == plan.no_reuse);
  CHECK(json["caching_allocator_bytes"] == plan.caching_allocator);
  CHECK(json["saved_bytes"] == plan.saved());
  CHECK(json["regions"] == Json({{"weights", 16},
                                 {"state", 0},
                                 {"io", 16},
                                 {"activations", 32},
                                 {"workspace", 16}}));
  CHECK(json["nodes"] == 3);
  CHECK(json["buffers"] == 6);
  CHECK(json["views"] == plan.views);
  CHECK(json["in_place"] == plan.in_place);
  CHECK(json["peak_time"] == 2);
  CHECK(json["peak_node"] == "\"loss\"");
  CHECK(json["packer"] == plan.packer);
  CHECK(json["order"] == "given");
  CHECK(json["optimal"] == true);
  REQUIRE(json["peak_live"].size() == 5);
  CHECK(json["peak_live"][4] ==
        Json({{"name", "loss"}, {"bytes", 4}, {"region", "activations"}}));
  REQUIRE(json["timeline"].size() == plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    const Json& row = json["timeline"][i];
    CHECK(row["name"] == buffer.name);
    CHECK(row["region"] == RegionName(buffer.region));
    CHECK(row["address"] == plan.AddressOf(buffer));
    CHECK(row["bytes"] == buffer.size);
    CHECK(row["lower"] == buffer.lower);
    CHECK(row["upper"] == buffer.upper);
  }
}

TEST_CASE("the figures alone name as many live buffers as asked") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  CHECK(FiguresJson(report, 2)["peak_live"].size() == 2);
  CHECK(FiguresJson(report, 99)["peak_live"].size() == 5);
}

TEST_CASE("a name that is no UTF-8 still gives JSON") {
  Plan plan = testing::ExamplePlan();
  plan.buffers[0].name = "\xff\xfe";
  const std::string text = ToJson(MakeReport(testing::ExampleGraph(), plan));
  CHECK(Json::accept(text));
}

TEST_CASE(
    "traffic as JSON has its families, and seconds where a device is named") {
  const TrafficRow products{.family = "products",
                            .launches = 2,
                            .read = 300,
                            .written = 40,
                            .flops = 5000,
                            .seconds = 0.5};
  Traffic traffic;
  traffic.families = {products};
  traffic.total = products;
  const Json row = {{"launches", 2},
                    {"read_bytes", 300},
                    {"written_bytes", 40},
                    {"flops", 5000.0}};
  Json json = TrafficJson(traffic);
  CHECK(json["families"] == Json({{"products", row}}));
  CHECK(json["total"] == row);
  CHECK(json["total_bytes"] == 340);
  CHECK(json["without_products_and_attention"]["launches"] == 0);
  CHECK_FALSE(json.contains("device"));
  traffic.device = RatedDevice{.name = "d", .bytes_per_second = 680};
  json = TrafficJson(traffic);
  CHECK(json["total"]["roofline_seconds"] == 0.5);
  CHECK(json["device"]["name"] == "d");
  CHECK(json["device"]["bytes_per_second"] == 680.0);
}

TEST_CASE("the trace has one slice and one counter sample for each node") {
  const Json trace = Json::parse(ToChromeTrace(
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan())));
  std::vector<Json> slices, counters;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices.push_back(event);
    if (event["ph"] == "C") counters.push_back(event);
  }
  REQUIRE(slices.size() == 3);
  REQUIRE(counters.size() == 3);
  CHECK(slices[1]["name"] == "\"r & s\"");
  CHECK(slices[1]["ts"] == 1);
  CHECK(slices[1]["dur"] == 1);
  CHECK(slices[1]["args"]["op"] == "relu");
  CHECK(counters[2]["ts"] == 2);
  CHECK(counters[2]["args"] == Json({{"weights", 16},
                                     {"state", 0},
                                     {"io", 16},
                                     {"activations", 20},
                                     {"workspace", 16}}));
}

}  // namespace
}  // namespace stowage

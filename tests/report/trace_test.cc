#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "report/numbers.h"
#include "report/traffic.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

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

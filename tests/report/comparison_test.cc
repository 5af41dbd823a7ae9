#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "report/numbers.h"
#include "report/report_json.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

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

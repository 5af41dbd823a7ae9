#include "report/html.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "planner/plan_memory.h"
#include "report/numbers.h"
#include "report/text.h"
#include "tests/planner/fit/steps.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

Page ExamplePage() {
  return {.title = "example <1>",
          .programs = {DescribeProgram("step", testing::ExampleGraph(),
                                       testing::ExamplePlan())}};
}

// What stands between two marks.
std::string Between(const std::string& text, std::string_view from,
                    std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  const size_t start = at + from.size();
  return text.substr(start, text.find(to, start) - start);
}

Json DataOf(const std::string& html) {
  return Json::parse(Between(
      html, "<script type=\"application/json\" id=\"plans\">", "</script>"));
}

TEST_CASE("the page holds what the report counted") {
  const Page page = ExamplePage();
  const std::string html = ToHtml(page);
  CHECK(html.starts_with("<!DOCTYPE html>\n"));
  CHECK(html.ends_with("</html>\n"));
  CHECK(html.find("<title>Stowage: example &lt;1&gt;</title>") != html.npos);
  CHECK(html.find("{{") == html.npos);
  const Json data = DataOf(html);
  CHECK(data["title"] == "example <1>");
  REQUIRE(data["programs"].size() == 1);
  const Json& program = data["programs"][0];
  const Json figures = FiguresJson(page.programs[0].report, 0);
  for (const auto& [name, figure] : figures.items()) {
    CHECK(program["figures"][name] == figure);
  }
  CHECK(program["live"] == Json({32 + 16, 32 + 32, 32 + 36}));
  REQUIRE(program["nodes"].size() == 3);
  CHECK(program["nodes"][1]["label"] == "\"r & s\"");
  CHECK(program["nodes"][1]["op"] == "relu");
  CHECK(program["nodes"][1]["phase"] == "forward");
  REQUIRE(program["buffers"].size() == 6);
  const Json& buffer = program["buffers"][3];
  CHECK(buffer["name"] == "r & s");
  CHECK(buffer["region"] == "activations");
  CHECK(buffer["kind"] == "temporary");
  CHECK(buffer["address"] == 48);
  CHECK(buffer["bytes"] == 16);
  CHECK(buffer["lower"] == 1);
  CHECK(buffer["upper"] == 3);
  CHECK(buffer["readers"] == Json({2}));
  CHECK(buffer["values"][0]["type"] == "f32(4)");
  CHECK(buffer["values"][0]["made"] == 1);
  CHECK(buffer["values"][0]["source"].get<std::string>().starts_with(
      "tests/report/example.cc:"));
}

TEST_CASE("without scripts, the tables are there, line by line") {
  const Page page = ExamplePage();
  const std::string tables = Between(ToHtml(page), "<pre>\n", "</pre>");
  CHECK(tables.find("\n| lower bound ") != tables.npos);
  CHECK(tables.find("memory plan of &quot;example &lt;1&gt;&quot;") !=
        tables.npos);
  const std::string plain = SummaryTable(page.programs[0].report) +
                            PeakTable(page.programs[0].report, 25);
  CHECK(std::ranges::count(tables, '\n') >= std::ranges::count(plain, '\n'));
}

TEST_CASE("the page needs no network, and names cannot end its script") {
  Page page = ExamplePage();
  page.programs[0].report.buffers[0].name = "</script><!--";
  const std::string html = ToHtml(page);
  for (const std::string_view part :
       {"http:", "https:", "//cdn", " src=", "@import", "url(", "<link",
        "</script><!--"}) {
    INFO(part);
    CHECK(html.find(part) == html.npos);
  }
  CHECK(DataOf(html)["programs"][0]["buffers"][0]["name"] == "</script><!--");
}

TEST_CASE("losses are told step by step, or as means of equally many") {
  Page page = ExamplePage();
  CHECK(DataOf(ToHtml(page))["losses"] == Json::array());
  for (int step = 1; step <= 2000; ++step) {
    page.losses.push_back({.step = step, .loss = 1.0 / step});
  }
  Json data = DataOf(ToHtml(page));
  CHECK(data["steps_a_point"] == 1);
  REQUIRE(data["losses"].size() == 2000);
  CHECK(data["losses"][1] == Json({{"step", 2}, {"loss", 0.5}}));
  page.losses.push_back({.step = 2001, .loss = 0.25});
  page.held_out_loss = 0.125;
  data = DataOf(ToHtml(page));
  CHECK(data["steps_a_point"] == 2);
  REQUIRE(data["losses"].size() == 1001);
  CHECK(data["losses"][0] == Json({{"step", 2}, {"loss", 0.75}}));
  CHECK(data["losses"][1000] == Json({{"step", 2001}, {"loss", 0.25}}));
  CHECK(data["last_loss"] == 0.25);
  CHECK(data["held_out_loss"] == 0.125);
  page.losses.back().loss = std::numeric_limits<double>::quiet_NaN();
  CHECK(DataOf(ToHtml(page))["last_loss"].is_null());
}

TEST_CASE("the page of gpt2-124m's step is below 2 MB") {
  const Graph step = testing::StepOf("gpt2-124m", {.batch = 4, .seq = 1024});
  const Result<Plan> plan = PlanMemory(step, {});
  REQUIRE(plan.ok());
  const std::string html =
      ToHtml({.title = "gpt2-124m",
              .programs = {DescribeProgram("step", step, *plan)}});
  CHECK(html.size() < 2000000);
}

}  // namespace
}  // namespace stowage

#include "report/svg.h"

#include <doctest/doctest.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "report/numbers.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

using packing::Packing;
using packing::Problem;

int Count(std::string_view text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// Why `xml` is not well formed; empty when it is. Knows what we write: elements
// with quoted attributes and the five entities.
std::string XmlError(std::string_view xml) {
  std::vector<std::string> open;
  size_t at = 0;
  const auto entity_is_known = [&](size_t from) {
    for (const std::string_view known :
         {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      if (xml.substr(from).starts_with(known)) return true;
    }
    return false;
  };
  while (at < xml.size()) {
    if (xml[at] == '&' && !entity_is_known(at)) return "a bare &";
    if (xml[at] == '>') return "a bare >";
    if (xml[at] != '<') {
      ++at;
      continue;
    }
    const bool closing = xml[at + 1] == '/';
    size_t end = at + 1;
    bool quoted = false;
    while (end < xml.size() && (quoted || xml[end] != '>')) {
      if (xml[end] == '<') return "a < inside a tag";
      if (xml[end] == '"') quoted = !quoted;
      ++end;
    }
    if (end == xml.size()) return "a tag without an end";
    size_t name_end = at + 1 + closing;
    while (std::isalnum(static_cast<unsigned char>(xml[name_end]))) ++name_end;
    const std::string name(
        xml.substr(at + 1 + closing, name_end - at - 1 - closing));
    if (closing) {
      if (open.empty() || open.back() != name)
        return "</" + name + "> closes nothing";
      open.pop_back();
    } else if (xml[end - 1] != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

TEST_CASE("the checker of this test finds what is broken") {
  CHECK(XmlError("<a b=\"c>\"><d/>&lt;</a>").empty());
  CHECK(XmlError("<a><b></a></b>") != "");
  CHECK(XmlError("<a>&</a>") != "");
  CHECK(XmlError("<a") != "");
  CHECK(XmlError("<a>") != "");
}

TEST_CASE("the image is well-formed XML with one rectangle per buffer") {
  const Plan plan = testing::ExamplePlan();
  const std::string svg = ToSvg(MakeReport(testing::ExampleGraph(), plan));
  CHECK(XmlError(svg) == "");
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(Count(svg, "<rect class=\"buffer\"") == 6);
  CHECK(Count(svg, "class=\"peak\"") == 1);
}

TEST_CASE("each rectangle tells its buffer's name, bytes and lifetime") {
  const std::string svg =
      ToSvg(MakeReport(testing::ExampleGraph(), testing::ExamplePlan()));
  CHECK(svg.find("<title>r &amp; s\nactivations, 16 B (16 bytes) at 48\n"
                 "lives [1, 3)</title>") != std::string::npos);
}

TEST_CASE("rectangles of a step do not overlap where its buffers do not") {
  // 1090 units for 3 nodes, 520 for 80 bytes: "h" covers [32, 48) in [0, 2).
  const std::string svg =
      ToSvg(MakeReport(testing::ExampleGraph(), testing::ExamplePlan()));
  CHECK(svg.find("x=\"90.00\" y=\"294.00\" width=\"726.67\" "
                 "height=\"104.00\"") != std::string::npos);
}

TEST_CASE("a plan of 2,000 buffers gives an image of moderate size") {
  Plan plan = testing::ExamplePlan();
  for (int i = 0; i < 2000; ++i) {
    plan.buffers.push_back(plan.buffers[2]);
    plan.buffers.back().name = StrCat("h.", i);
  }
  const std::string svg = ToSvg(MakeReport(testing::ExampleGraph(), plan));
  CHECK(Count(svg, "<rect class=\"buffer\"") == 2006);
  CHECK(svg.size() < 700000);
}

TEST_CASE("shapes follow each other, and their texts are escaped") {
  Canvas canvas(100, 50);
  canvas.Text({1, 2}, "fill=\"red\"", "a < b");
  canvas.Line("grid", {0, 1}, {2, 3}, "#ddd");
  canvas.Line("peak", {0, 1}, {2, 3}, "#ddd", "stroke-width=\"2\"");
  canvas.Rectangle("key", {.x = 1, .y = 2, .width = 3, .height = 4}, "blue");
  canvas.Rectangle("buffer", {.x = 1, .y = 2, .width = 3, .height = 4}, "blue",
                   "r & s\nsecond\tline");
  canvas.Polygon("live", {{0, 0}, {1, 0.5}}, "fill=\"red\"", "");
  canvas.Polyline("found", {{0, 0}, {1, 0.5}}, "red");
  const std::string svg = canvas.Finish();
  CHECK(
      svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" "
                      "viewBox=\"0 0 100 50\" width=\"100\" height=\"50\""));
  CHECK(svg.ends_with(
      "<text x=\"1.00\" y=\"2.00\" fill=\"red\">a &lt; b</text>\n"
      "<line class=\"grid\" x1=\"0.00\" x2=\"2.00\" y1=\"1.00\" y2=\"3.00\" "
      "stroke=\"#ddd\"/>\n"
      "<line class=\"peak\" x1=\"0.00\" x2=\"2.00\" y1=\"1.00\" y2=\"3.00\" "
      "stroke=\"#ddd\" stroke-width=\"2\"/>\n"
      "<rect class=\"key\" x=\"1.00\" y=\"2.00\" width=\"3.00\" "
      "height=\"4.00\" fill=\"blue\"/>\n"
      "<rect class=\"buffer\" x=\"1.00\" y=\"2.00\" width=\"3.00\" "
      "height=\"4.00\" fill=\"blue\"><title>r &amp; s\nsecond "
      "line</title></rect>\n"
      "<polygon class=\"live\" points=\"0.00,0.00 1.00,0.50\" "
      "fill=\"red\"/>\n"
      "<polyline class=\"found\" points=\"0.00,0.00 1.00,0.50\" fill=\"none\" "
      "stroke=\"red\"/>\n"
      "</svg>\n"));
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

TEST_CASE("a frontier is a stair of marks, above what is proven") {
  const std::vector<FrontierMark> marks = {
      {.budget = 100, .percent = 0, .least_percent = 0, .note = "as it is"},
      {.budget = 50, .percent = 100, .least_percent = {}, .note = "a < b"},
      {.budget = 25, .percent = 100, .least_percent = 0, .note = ""}};
  const std::string svg =
      FrontierToSvg({.title = "x & y", .cost = "more time"}, marks);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  // 780 units for 100 bytes from 80 on, 400 for 100 % from 470 up.
  CHECK(Has(svg,
            "<rect class=\"mark\" x=\"857.00\" y=\"467.00\" "
            "width=\"6.00\" height=\"6.00\" fill=\"#4e79a7\">"
            "<title>as it is</title></rect>"));
  CHECK(Has(svg, "x=\"467.00\" y=\"67.00\""));
  CHECK(Has(svg, "<title>a &lt; b</title>"));
  CHECK(Has(svg,
            "<polyline class=\"found\" points=\"860.00,470.00 860.00,70.00 "
            "470.00,70.00 470.00,70.00 275.00,70.00\""));
  CHECK(Has(svg,
            "<polyline class=\"bound\" points=\"860.00,470.00 "
            "275.00,470.00\""));
  CHECK(Has(svg, ">x &amp; y</text>"));
  CHECK(Has(svg, "more time upwards"));
}

TEST_CASE("no marks and free ones are drawn, too") {
  for (const std::vector<FrontierMark>& marks :
       {std::vector<FrontierMark>{},
        std::vector<FrontierMark>{{.budget = 0, .percent = 0}}}) {
    const std::string svg = FrontierToSvg({"", ""}, marks);
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(!Has(svg, "nan"));
    CHECK(!Has(svg, "inf"));
    CHECK(!Has(svg, "class=\"bound\""));
  }
}

TEST_CASE("every buffer is a rectangle where the packing has it") {
  const Problem problem{
      .buffers = {{.id = "a&b", .lower = 10, .upper = 12, .size = 10},
                  {.id = "", .lower = 10, .upper = 15, .size = 20},
                  {.id = "none", .lower = 10, .upper = 15, .size = 0},
                  {.lower = 12, .upper = 15, .size = 8, .offset = 20}}};
  const Packing packing{.solution = {{20, 0, 0, 20}, 30},
                        .lower_bound = 30,
                        .optimal = true,
                        .packer = "greedy: size"};
  const std::string svg = ToSvg(problem, packing);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(Count(svg, "<rect class=\"buffer\"") == 3);
  // The plot is 1090 wide for 5 times and 560 high for 30 bytes, from (90, 64).
  CHECK(Has(svg,
            "<rect class=\"buffer\" x=\"90.00\" y=\"64.00\" width=\"436.00\" "
            "height=\"186.67\""));
  CHECK(Has(svg,
            "<rect class=\"buffer\" x=\"90.00\" y=\"250.67\" "
            "width=\"1090.00\" height=\"373.33\""));
  CHECK(Has(svg,
            "<title>&quot;a&amp;b&quot;\n10 B (10 bytes) at 20\nlives "
            "[10, 12)</title>"));
  CHECK(Has(svg, "<title>#3\n8 B (8 bytes) at 20, fixed\nlives [12, 15)"));
  CHECK(Has(svg, "height 30 bytes, lower bound 30: optimal; greedy: size"));
  CHECK(!Has(svg, "class=\"capacity\""));
}

TEST_CASE("a capacity is a line of its own, in the image") {
  Problem problem{.buffers = {{.lower = 0, .upper = 1, .size = 10}},
                  .capacity = 20};
  const auto packing = Pack(problem);
  REQUIRE(packing.ok());
  const std::string svg = ToSvg(problem, *packing);
  CHECK(Has(svg,
            "<line class=\"capacity\" x1=\"90.00\" x2=\"1180.00\" "
            "y1=\"64.00\""));
  CHECK(Has(svg, "y=\"344.00\" width=\"1090.00\" height=\"280.00\""));
}

TEST_CASE("nothing is drawn of nothing") {
  const std::string svg = ToSvg({}, {});
  CHECK(Count(svg, "<rect class=\"buffer\"") == 0);
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(!Has(svg, "nan"));
}

}  // namespace
}  // namespace stowage

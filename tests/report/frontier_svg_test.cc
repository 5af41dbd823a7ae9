#include "report/frontier_svg.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace stowage {
namespace {

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

}  // namespace
}  // namespace stowage

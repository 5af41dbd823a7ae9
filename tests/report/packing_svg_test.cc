#include "report/packing_svg.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "planner/packing/packer.h"
#include "planner/packing/problem.h"

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

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
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

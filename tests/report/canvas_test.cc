#include <doctest/doctest.h>

#include <string>

#include "report/svg.h"

namespace stowage {
namespace {

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

}  // namespace
}  // namespace stowage

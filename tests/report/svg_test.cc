#include "report/svg.h"

#include <doctest/doctest.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "report/numbers.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

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

}  // namespace
}  // namespace stowage

#include "report/text.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "report/numbers.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("the table gives each figure with its formula") {
  const std::string table =
      SummaryTable(MakeReport(testing::ExampleGraph(), testing::ExamplePlan()));
  for (const char* line : {
           "| memory plan of \"example <1>\" ",
           "| 3 nodes, 6 buffers, 7 views, 3 written in place ",
           "| weights           |       16 B |  20.0 % | params, once for all "
           "programs    |",
           "| state             |        0 B |   0.0 % | ",
           "| activations       |       32 B |  40.0 % | ",
           "| workspace         |       16 B |  20.0 % | ",
           "| arena             |       80 B |         | sum of the regions = "
           "allocated   |",
           "| lower bound       |       80 B |         | ",
           "| fragmentation     |        0 B |   0.0 % | arena / lower bound - "
           "1          |",
           "| saved             |       16 B |  16.7 % | (no reuse - arena) / "
           "no reuse    |",
           "| saved over it     |    2.0 MiB | 100.0 % | ",
       }) {
    INFO(line);
    CHECK(table.find(line) != std::string::npos);
  }
}

TEST_CASE("a caching allocator that does better shows as a negative saving") {
  Plan plan = testing::ExamplePlan();
  plan.caching_allocator = 64;
  const std::string table =
      SummaryTable(MakeReport(testing::ExampleGraph(), plan));
  CHECK(table.find("| saved over it     |      -16 B | -25.0 % | ") !=
        std::string::npos);
}

TEST_CASE("the table's lines are of one width") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  for (const std::string& line : Lines(SummaryTable(report))) {
    INFO(line);
    CHECK(line.size() == 79);
  }
  for (const std::string& line : Lines(PeakTable(report, 2))) {
    INFO(line);
    CHECK(line.size() == 79);
  }
}

TEST_CASE("the peak's table sums up what it leaves out") {
  const std::string table =
      PeakTable(MakeReport(testing::ExampleGraph(), testing::ExamplePlan()), 3);
  CHECK(table.find("| peak: time 2 of 3, \"loss\" ") != std::string::npos);
  CHECK(table.find("| r & s                             |       16 B | [1, 3) "
                   "      | activations |") != std::string::npos);
  CHECK(table.find("| and 2 more, 20 B ") != std::string::npos);
}

TEST_CASE("the whole report is table, peak and map") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  const std::string text = ToText(report);
  CHECK(text.starts_with(SummaryTable(report)));
  CHECK(text.find("| peak: time 2") != std::string::npos);
  CHECK(text.find("  A  h ") != std::string::npos);
}

}  // namespace
}  // namespace stowage

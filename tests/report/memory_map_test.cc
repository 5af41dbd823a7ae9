#include <doctest/doctest.h>

#include <sstream>

#include "report/details.h"
#include "report/numbers.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

TEST_CASE("the map of a plan laid by hand is the image drawn by hand") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  // Five rows of 16 bytes, three columns of one node.
  CHECK(MemoryMap(report, {.rows = 5}) ==
        "       64 B |..C\n"
        "       48 B |.BB\n"
        "       32 B |AAD\n"
        "       16 B |iii\n"
        "        0 B |www\n"
        "            +---\n"
        "       time  0 3\n"
        "\n"
        "  A  h                                        16 B  [0, 2)         "
        "activations\n"
        "  B  r & s                                    16 B  [1, 3)         "
        "activations\n"
        "  C  workspace of \"loss\"                      16 B  [2, 3)         "
        "workspace\n"
        "  D  loss                                      4 B  [2, 3)         "
        "activations\n"
        "  w weights; i inputs; . free\n");
}

TEST_CASE("buffers without a letter show what they are") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  CHECK(MemoryMap(report, {.rows = 5, .letters = 1}) ==
        "       64 B |..~\n"
        "       48 B |.++\n"
        "       32 B |AA+\n"
        "       16 B |iii\n"
        "        0 B |www\n"
        "            +---\n"
        "       time  0 3\n"
        "\n"
        "  A  h                                        16 B  [0, 2)         "
        "activations\n"
        "  w weights; i inputs; + other activations and gradients; "
        "~ workspace; . free\n");
}

TEST_CASE("a cell that is mostly free shows as free") {
  Plan plan = testing::ExamplePlan();
  plan.regions.workspace += 20;  // two rows of 50 bytes
  // The upper row holds nothing at time 0, 14 of its 50 bytes at time 1, and
  // 14 and 16 at time 2.
  const std::string map =
      MemoryMap(MakeReport(testing::ExampleGraph(), plan), {.rows = 2});
  CHECK(map.starts_with("       50 B |..C\n        0 B |www\n"));
}

TEST_CASE("no line of the default map is longer than 80 characters") {
  Plan plan = testing::ExamplePlan();
  plan.buffers[2].name = std::string(200, 'n');
  std::istringstream lines(
      MemoryMap(MakeReport(testing::ExampleGraph(), plan)));
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 80);
  }
}

TEST_CASE("an empty arena has no map") { CHECK(MemoryMap(Report{}).empty()); }

}  // namespace
}  // namespace stowage

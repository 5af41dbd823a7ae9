#include "planner/packing/packer.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "planner/packing/part.h"
#include "planner/packing/problem.h"

namespace stowage::packing {
namespace {

constexpr Bytes kMax = std::numeric_limits<Bytes>::max();

TEST_CASE("Every malformed problem is refused by name") {
  struct Row {
    Problem problem;
    const char* message;
  };
  const Row rows[] = {
      {{.buffers = {{.id = "x", .lower = 3, .upper = 3, .size = 1}}},
       "[pack] buffer \"x\" has the lifetime [3, 3); upper must be above "
       "lower"},
      {{.buffers = {{.lower = 3, .upper = 2, .size = 1}}},
       "[pack] buffer #0 has the lifetime [3, 2); upper must be above lower"},
      {{.buffers = {{.id = "x", .upper = 1, .size = -1}}},
       "[pack] buffer \"x\" has the size -1; a size must be 0 or more"},
      {{.buffers = {{.id = "x", .upper = 1, .alignment = 0}}},
       "[pack] buffer \"x\" has the alignment 0; an alignment must be 1 or "
       "more"},
      {{.buffers = {{.id = "x", .upper = 1, .offset = -8}}},
       "[pack] buffer \"x\" is fixed at offset -8; an offset must be 0 or "
       "more"},
      {{.buffers = {{.id = "x", .upper = 1, .alignment = 8, .offset = 12}}},
       "[pack] buffer \"x\" is fixed at offset 12, which is no multiple of its "
       "alignment 8"},
      {{.buffers = {{.id = "x", .upper = 1, .size = 2, .offset = kMax - 1}}},
       "[pack] buffer \"x\" ends at offset 9223372036854775806 + size 2, which "
       "with padding does not fit 64 bits"},
      {{.buffers = {{.id = "x",
                     .upper = 1,
                     .size = kMax - 62,
                     .alignment = 64,
                     .offset = 0}}},
       "[pack] buffer \"x\" ends at offset 0 + size 9223372036854775745, which "
       "with padding does not fit 64 bits"},
      {{.buffers = {{.id = "x", .upper = 1, .size = kMax - 1},
                    {.id = "y", .lower = 5, .upper = 6, .size = 2}}},
       "[pack] buffer \"y\" takes the sum of sizes and padding past 64 bits: "
       "its size is 2, its alignment 1"},
      {{.buffers = {{.id = "x", .upper = 1, .size = kMax / 2 + 1, .offset = 0},
                    {.id = "y",
                     .lower = 1,
                     .upper = 2,
                     .size = kMax / 2 + 1,
                     .offset = 0}}},
       "[pack] buffer \"y\" takes the sum of sizes and padding past 64 bits: "
       "its size is 4611686018427387904, its alignment 1"},
      {{.buffers = {{.id = "x", .upper = 1, .size = kMax - 6},
                    {.id = "y", .upper = 1, .size = 0, .alignment = 8}}},
       "[pack] buffer \"y\" takes the sum of sizes and padding past 64 bits: "
       "its size is 0, its alignment 8"},
      {{.buffers = {{.id = "x", .upper = 1}, {.id = "x", .upper = 1}}},
       "[pack] buffer \"x\" at index 1 has the id of an earlier buffer; ids "
       "must be unique or empty"},
      {{.buffers =
            {{.id = "x", .lower = 0, .upper = 3, .size = 4, .offset = 4},
             {.id = "y", .lower = 2, .upper = 5, .size = 5, .offset = 0}}},
       "[pack] buffer \"y\" is fixed at [0, 5) and lives in [2, 5), where it "
       "overlaps \"x\" fixed at [4, 8), which lives in [0, 3)"},
      {{.buffers =
            {{.id = "x", .lower = 0, .upper = 3, .size = 4, .offset = 0},
             {.id = "y", .lower = 2, .upper = 5, .size = 5, .offset = 3}}},
       "[pack] buffer \"y\" is fixed at [3, 8) and lives in [2, 5), where it "
       "overlaps \"x\" fixed at [0, 4), which lives in [0, 3)"},
      {{.buffers = {}, .capacity = -1},
       "[pack] capacity -1 is negative; it must be 0 or more bytes"},
  };
  for (const Row& row : rows) {
    const std::string message = row.message;
    CAPTURE(message);
    for (const Packer packer : {Packer::kLinear, Packer::kGreedy}) {
      const auto packing = Pack(row.problem, {.packer = packer});
      REQUIRE(!packing.ok());
      CHECK(packing.error().code == ErrorCode::kInvalidArgument);
      CHECK(packing.error().message == row.message);
    }
  }
}

TEST_CASE("What is only nearly malformed is packed") {
  const Problem problem{
      .buffers =
          {{.upper = 1},  // ids may be empty, and twice
           {.upper = 1},
           {.id = "f", .upper = 2, .size = 4, .offset = 4},
           {.id = "below", .upper = 2, .size = 4, .offset = 0},
           {.id = "later", .lower = 2, .upper = 3, .size = 6, .offset = 2},
           {.id = "nothing", .upper = 2, .size = 0, .offset = 5}},
      .capacity = 8};
  CHECK(Pack(problem).ok());
  const Problem full{.buffers = {{.upper = 1, .size = kMax - 9},
                                 {.lower = 1, .upper = 2, .size = 9}}};
  const auto packing = Pack(full);
  REQUIRE(packing.ok());
  CHECK(packing->solution.height == kMax - 9);
  const Problem eternal{
      .buffers = {{.lower = std::numeric_limits<Time>::min(),
                   .upper = std::numeric_limits<Time>::max(),
                   .size = kMax - 63,
                   .alignment = 64,
                   .offset = 0},
                  {.lower = std::numeric_limits<Time>::max() - 1,
                   .upper = std::numeric_limits<Time>::max()}}};
  CHECK(Pack(eternal).ok());
}

TEST_CASE("Packers are known by name") {
  CHECK(PackerName(Packer::kLinear) == std::string("linear"));
  CHECK(PackerName(Packer::kGreedy) == std::string("greedy"));
  CHECK(PackerName(Packer::kBest) == std::string("best"));
  CHECK(ParsePacker("best").value() == Packer::kBest);
  CHECK(ParsePacker("linear").value() == Packer::kLinear);
  CHECK(ParsePacker("greedy").value() == Packer::kGreedy);
  const auto none = ParsePacker("Greedy");
  REQUIRE(!none.ok());
  CHECK(
      none.error().message ==
      "[pack] there is no packer \"Greedy\"; expected one of: linear, greedy, "
      "best");
}

TEST_CASE("No buffers pack into nothing") {
  for (const Packer packer : {Packer::kLinear, Packer::kGreedy}) {
    const auto packing = Pack(Problem{.capacity = 0}, {.packer = packer});
    REQUIRE(packing.ok());
    CHECK(packing->solution.offsets.empty());
    CHECK(packing->solution.height == 0);
    CHECK(packing->optimal);
  }
}

TEST_CASE("Linear packing puts one buffer after the other") {
  const Problem problem{
      .buffers = {{.lower = 0, .upper = 1, .size = 5},
                  {.lower = 1, .upper = 2, .size = 3, .alignment = 4},
                  {.lower = 9, .upper = 10, .size = 0, .alignment = 64},
                  {.lower = 2, .upper = 3, .size = 2}}};
  const auto packing = Pack(problem, {.packer = Packer::kLinear});
  REQUIRE(packing.ok());
  CHECK(packing->solution.offsets == std::vector<Bytes>{0, 8, 0, 11});
  CHECK(packing->solution.height == 13);
  CHECK(packing->lower_bound == 5);
  CHECK(!packing->optimal);
  CHECK(packing->packer == "linear");
}

TEST_CASE("Linear packing goes around the fixed buffers, whenever they live") {
  // Fixed: [2, 4) and [7, 9). Free: 3 bytes fit between them, 1 below, the
  // last above.
  const Problem problem{
      .buffers = {
          {.id = "g", .lower = 50, .upper = 51, .size = 2, .offset = 7},
          {.id = "a", .lower = 0, .upper = 1, .size = 1},
          {.id = "b", .lower = 0, .upper = 1, .size = 3},
          {.id = "f", .lower = 60, .upper = 61, .size = 2, .offset = 2},
          {.id = "c", .lower = 0, .upper = 1, .size = 1, .alignment = 2}}};
  const Solution solution = PackLinearly(problem);
  CHECK(solution.offsets == std::vector<Bytes>{7, 0, 4, 2, 10});
  CHECK(solution.height == 11);
}

TEST_CASE("A capacity that cannot hold the peak names the peak") {
  Problem problem{
      .buffers = {{.id = "h1", .lower = 0, .upper = 4, .size = 2048},
                  {.id = "h2", .lower = 2, .upper = 6, .size = 4096},
                  {.id = "s", .lower = 2, .upper = 3, .size = 8},
                  {.id = "t", .lower = 2, .upper = 3, .size = 8},
                  {.id = "u", .lower = 7, .upper = 8, .size = 3}},
      .capacity = 6159};
  const auto packing = Pack(problem);
  REQUIRE(!packing.ok());
  CHECK(packing.error().code == ErrorCode::kBudgetTooSmall);
  CHECK(
      packing.error().message ==
      "[pack] no packing fits the capacity of 6.0 KiB (6159 bytes): it is "
      "below the lower bound of 6.0 KiB (6160 bytes), the bytes alive at time "
      "2; largest live: \"h2\" 4.0 KiB, \"h1\" 2.0 KiB, \"s\" 8 B and 1 more; "
      "the greedy: pressure packer reaches 6.0 KiB (6160 bytes)");
  problem.capacity = 6160;
  REQUIRE(Pack(problem).ok());
  CHECK(Pack(problem)->solution.height == 6160);
  CHECK(Pack(problem)->optimal);
}

TEST_CASE("A capacity below a fixed end names the fixed buffer") {
  const Problem problem{
      .buffers = {{.id = "w", .upper = 1, .size = 4, .offset = 96},
                  {.id = "x", .upper = 1, .size = 4}},
      .capacity = 64};
  const auto packing = Pack(problem);
  REQUIRE(!packing.ok());
  CHECK(packing.error().message ==
        "[pack] no packing fits the capacity of 64 B: it is below the lower "
        "bound of 100 B, the end of buffer \"w\", fixed at offset 96 with 4 "
        "bytes; the greedy: pressure packer reaches 100 B");
}

TEST_CASE("A capacity that only this packer misses says so") {
  const Problem problem{
      .buffers = {{.id = "a", .lower = 0, .upper = 1, .size = 30},
                  {.id = "b", .lower = 1, .upper = 2, .size = 30}},
      .capacity = 59};
  const auto packing = Pack(problem, {.packer = Packer::kLinear});
  REQUIRE(!packing.ok());
  CHECK(packing.error().code == ErrorCode::kBudgetTooSmall);
  CHECK(
      packing.error().message ==
      "[pack] the linear packer does not fit the capacity of 59 B: it reaches "
      "60 B; the lower bound is 30 B, so a better packing may exist; raise "
      "the capacity to the height reached");
  CHECK(Pack(problem).ok());
}

}  // namespace
}  // namespace stowage::packing

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

void CheckEqual(const Problem& a, const Problem& b) {
  REQUIRE(a.buffers.size() == b.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    CHECK(a.buffers[i].id == b.buffers[i].id);
    CHECK(a.buffers[i].lower == b.buffers[i].lower);
    CHECK(a.buffers[i].upper == b.buffers[i].upper);
    CHECK(a.buffers[i].size == b.buffers[i].size);
    CHECK(a.buffers[i].alignment == b.buffers[i].alignment);
    CHECK(a.buffers[i].offset == b.buffers[i].offset);
  }
}

TEST_CASE("Four columns are enough") {
  const auto problem =
      ParseProblemCsv("id,lower,upper,size\na,0,3,4\nb,-3,9,0\n");
  REQUIRE(problem.ok());
  CheckEqual(*problem,
             {.buffers = {{.id = "a", .lower = 0, .upper = 3, .size = 4},
                          {.id = "b", .lower = -3, .upper = 9}}});
}

TEST_CASE("Columns may come in any order, lines end in CRLF or not at all") {
  const auto problem = ParseProblemCsv(
      "size,offset,id,upper,alignment,lower\r\n"
      "4,8,a,3,2,0\r\n"
      "\r\n"
      "6,,b,4,,1\r\n"
      "\n"
      "7,,\"c,\"\"\n\",5,64,2");
  REQUIRE(problem.ok());
  CheckEqual(*problem,
             {.buffers = {{.id = "a",
                           .lower = 0,
                           .upper = 3,
                           .size = 4,
                           .alignment = 2,
                           .offset = 8},
                          {.id = "b", .lower = 1, .upper = 4, .size = 6},
                          {.id = "c,\"\n",
                           .lower = 2,
                           .upper = 5,
                           .size = 7,
                           .alignment = 64}}});
}

TEST_CASE("A header alone is a problem without buffers") {
  const auto problem = ParseProblemCsv("id,lower,upper,size");
  REQUIRE(problem.ok());
  CHECK(problem->buffers.empty());
}

TEST_CASE("Every malformed line is refused with its number and column") {
  const std::string h = "id,lower,upper,size\n";
  const std::string all = "id,lower,upper,size,alignment,offset\n";
  struct Row {
    std::string text;
    const char* message;
  };
  const Row rows[] = {
      {"",
       "[csv] line 1: the file is empty; expected the header "
       "id,lower,upper,size[,alignment][,offset]"},
      {"\n\r\n",
       "[csv] line 1: the file is empty; expected the header "
       "id,lower,upper,size[,alignment][,offset]"},
      {"a,0,3,4\n",
       "[csv] line 1: the header has the unknown column \"a\"; expected "
       "id,lower,upper,size[,alignment][,offset] in any order"},
      {"id,lower,upper\n",
       "[csv] line 1: the header lacks the column \"size\"; expected "
       "id,lower,upper,size[,alignment][,offset] in any order"},
      {"id,lower,id\n", "[csv] line 1: the header has the column \"id\" twice"},
      {h + "a,0,3\n", "[csv] line 2: it has 3 fields; the header has 4"},
      {h + "\n\na,0,3,4,5\n",
       "[csv] line 4: it has 5 fields; the header has 4"},
      {h + "a,0,3,4\nb,x,3,4\n",
       "[csv] line 3: column \"lower\": \"x\" is no whole number"},
      {h + "a,0,,4\n",
       "[csv] line 2: column \"upper\": \"\" is no whole number"},
      {h + "a,0,3, 4\n",
       "[csv] line 2: column \"size\": \" 4\" is no whole number"},
      {h + "a,0,3,4.0\n",
       "[csv] line 2: column \"size\": \"4.0\" is no whole number"},
      {h + "a,0,+3,4\n",
       "[csv] line 2: column \"upper\": \"+3\" is no whole number"},
      {h + "a,0,3,0x4\n",
       "[csv] line 2: column \"size\": \"0x4\" is no whole number"},
      {h + "a,0,3,9223372036854775808\n",
       "[csv] line 2: column \"size\": 9223372036854775808 does not fit 64 "
       "bits"},
      {h + "a,-9223372036854775809,3,4\n",
       "[csv] line 2: column \"lower\": -9223372036854775809 does not fit 64 "
       "bits"},
      {h + "a,3,3,4\n",
       "[csv] line 2: column \"upper\": 3 is not above lower, 3"},
      {h + "a,0,3,-4\n", "[csv] line 2: column \"size\": -4 is negative"},
      {all + "a,0,3,4,0,\n",
       "[csv] line 2: column \"alignment\": 0 is below 1"},
      {all + "a,0,3,4,1,-2\n",
       "[csv] line 2: column \"offset\": -2 is negative"},
      {all + "a,0,3,4,8,12\n",
       "[csv] line 2: column \"offset\": 12 is no multiple of the alignment 8"},
      {all + "a,0,3,4,1,9223372036854775804\n",
       "[csv] line 2: column \"offset\": 9223372036854775804 + size 4 does not "
       "fit 64 bits"},
      {h + "a,0,3,4\nb,0,3,4\na,5,6,1\n",
       "[csv] line 4: column \"id\": \"a\" was used before, on line 2"},
      {h + "a\"b,0,3,4\n",
       "[csv] line 2: a quote stands inside a field; put the whole field in "
       "quotes and double those inside"},
      {h + "\"a\nb\"c,0,3,4\n",
       "[csv] line 3: a quoted field goes on after its closing quote"},
      {h + "\"a,0,3,4\n", "[csv] line 2: a quoted field is never closed"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto problem = ParseProblemCsv(row.text);
    REQUIRE(!problem.ok());
    CHECK(problem.error().code == ErrorCode::kInvalidArgument);
    CHECK(problem.error().message == row.message);
  }
}

TEST_CASE("Ids may be empty, but not used twice otherwise") {
  CHECK(ParseProblemCsv("id,lower,upper,size\n,0,1,1\n,0,1,1\n").ok());
}

TEST_CASE("A problem is written in six columns") {
  const Problem problem{
      .buffers = {
          {.id = "w",
           .lower = 0,
           .upper = 9,
           .size = 4096,
           .alignment = 64,
           .offset = 0},
          {.id = "loss, \"scaled\"", .lower = -1, .upper = 8, .size = 4}}};
  CHECK(FormatProblemCsv(problem) ==
        "id,lower,upper,size,alignment,offset\n"
        "w,0,9,4096,64,0\n"
        "\"loss, \"\"scaled\"\"\",-1,8,4,1,\n");
  CHECK(FormatPackingCsv(problem, {.offsets = {0, 4096}, .height = 4100}) ==
        "id,lower,upper,size,alignment,offset\n"
        "w,0,9,4096,64,0\n"
        "\"loss, \"\"scaled\"\"\",-1,8,4,1,4096\n");
}

TEST_CASE("What is written reads back equal") {
  std::mt19937_64 random(3);
  const char alphabet[] = "ab,\"\r\n ";
  for (int round = 0; round < 3000; ++round) {
    Problem problem = RandomProblem(random, 12);
    for (Buffer& b : problem.buffers) {
      for (int k = Uniform(random, 0, 3); k > 0 && !b.id.empty(); --k) {
        b.id += alphabet[Uniform(random, 0, 6)];
      }
    }
    const auto parsed = ParseProblemCsv(FormatProblemCsv(problem));
    REQUIRE(parsed.ok());
    CheckEqual(*parsed, problem);
  }
}

TEST_CASE("A packing is read with its offsets as its own, good or bad") {
  const std::string text =
      "id,lower,upper,size,alignment,offset\n"
      "a,0,3,4,1,0\n"
      "b,2,4,4,8,4\n";
  const auto packed = ParsePackingCsv(text);
  REQUIRE(packed.ok());
  CHECK(!packed->problem.buffers[1].offset);
  CHECK(packed->solution.offsets == std::vector<Bytes>{0, 4});
  CHECK(packed->solution.height == 8);
  const auto violations = Validate(packed->problem, packed->solution);
  REQUIRE(violations.size() == 1);
  CHECK(violations[0].kind == ViolationKind::kMisaligned);
  CHECK(FormatPackingCsv(packed->problem, packed->solution) == text);

  const auto without =
      ParsePackingCsv("id,lower,upper,size,offset\na,0,3,4,0\nb,3,4,4,\n");
  REQUIRE(!without.ok());
  CHECK(without.error().message ==
        "[csv] line 3: column \"offset\": buffer \"b\" has none; a packing "
        "gives every buffer one");
  CHECK(!ParsePackingCsv("id,lower,upper,size\na,0,3,4\n").ok());
}

TEST_CASE("No mangled text is more than an error") {
  std::mt19937_64 random(4);
  const std::string good =
      "id,lower,upper,size,alignment,offset\r\na,0,3,4,1,0\n\"b,\"\"\",2,4,4,8,"
      "\n";
  const char alphabet[] = "ab,\"\r\n 0-9";
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (int k = Uniform(random, 1, 4); k > 0 && !text.empty(); --k) {
      const size_t at = Uniform(random, 0, text.size() - 1);
      switch (Uniform(random, 0, 2)) {
        case 0:
          text[at] = alphabet[Uniform(random, 0, 9)];
          break;
        case 1:
          text.erase(at, Uniform(random, 1, 5));
          break;
        case 2:
          text.insert(at, 1, alphabet[Uniform(random, 0, 9)]);
          break;
      }
    }
    const auto problem = ParseProblemCsv(text);
    if (problem.ok()) {
      const auto again = ParseProblemCsv(FormatProblemCsv(*problem));
      REQUIRE(again.ok());
      CheckEqual(*again, *problem);
    } else {
      CHECK(problem.error().message.rfind("[csv] line ", 0) == 0);
      CHECK(problem.error().message.find('\n') == std::string::npos);
    }
  }
}

}  // namespace
}  // namespace stowage::packing

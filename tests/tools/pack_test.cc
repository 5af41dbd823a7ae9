#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "base/strings.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

// a and c may share; b lives through both.
constexpr char kThree[] =
    "id,lower,upper,size\n"
    "a,0,2,10\n"
    "b,0,5,20\n"
    "c,2,5,8\n";

TEST_CASE("pack --json has every field") {
  const Outcome outcome =
      RunStowage({"pack", WriteTemp("three.csv", kThree), "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json["buffers"] == 3);
  CHECK(json["total_bytes"] == 38);
  CHECK(json["lower_bound"] == 30);
  CHECK(json["height"] == 30);
  CHECK(json["capacity"].is_null());
  CHECK(json["fits"] == true);
  CHECK(json["optimal"] == true);
  CHECK(json["packer"].is_string());
  CHECK(json["seconds"] >= 0);
  CHECK(json["valid"] == true);
}

TEST_CASE("the best packer searches, with and without a time limit") {
  const std::string csv = WriteTemp("three.csv", kThree);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"pack", csv, "--packer", "best", "--json"},
        {"pack", csv, "--packer", "best", "--time-limit", "5", "--json"}}) {
    const Outcome outcome = RunStowage(arguments);
    REQUIRE(outcome.exit_code == 0);
    const Json json = Json::parse(outcome.out);
    CHECK(json["packer"].get<std::string>().rfind("best: ", 0) == 0);
    CHECK(json["optimal"] == true);
    CHECK(json["height"] == json["lower_bound"]);
  }
}

TEST_CASE("what is packed is never written over, nor one file twice") {
  const std::string csv = WriteTemp("three.csv", kThree);
  const Outcome over = RunStowage({"pack", csv, "-o", csv});
  CHECK(over.exit_code == 2);
  CHECK(
      over.err.find("is what the file reads; an input is never written over") !=
      std::string::npos);
  CHECK(ReadAll(csv) == kThree);
  const std::string out = TempPath("out");
  const Outcome twice = RunStowage({"pack", csv, "-o", out, "--svg", out});
  CHECK(twice.exit_code == 2);
  CHECK(
      twice.err.find("is what --output writes; give each a file of its own") !=
      std::string::npos);
}

TEST_CASE("the linear packer reuses nothing") {
  const Outcome outcome = RunStowage(
      {"pack", WriteTemp("three.csv", kThree), "--packer", "linear", "--json"});
  const Json json = Json::parse(outcome.out);
  CHECK(json["height"] == 38);
  CHECK(json["optimal"] == false);
}

TEST_CASE("a packing that was written is valid, and not once it is changed") {
  const std::string in = WriteTemp("three.csv", kThree);
  const std::string out = TempPath("packed.csv");
  REQUIRE(RunStowage({"pack", in, "-o", out}).exit_code == 0);
  const Outcome valid = RunStowage({"check", out});
  CHECK(valid.exit_code == 0);
  CHECK(valid.out == "valid: packing of 3 buffers, height 30\n");

  const std::string bad = WriteTemp("bad.csv",
                                    "id,lower,upper,size,offset\n"
                                    "a,0,2,10,0\n"
                                    "b,0,5,20,9\n");
  const Outcome overlap = RunStowage({"check", bad});
  CHECK(overlap.exit_code == 1);
  CHECK(overlap.out.find("\"a\"") != std::string::npos);
  CHECK(overlap.out.find("\"b\"") != std::string::npos);
  CHECK(overlap.err == "stowage: not valid: packing of 2 buffers, height 29\n");
}

TEST_CASE("a capacity is kept or refused") {
  const std::string in = WriteTemp("three.csv", kThree);
  CHECK(RunStowage({"pack", in, "--capacity", "30"}).exit_code == 0);
  const Outcome refused = RunStowage({"pack", in, "--capacity", "29"});
  CHECK(refused.exit_code == 1);
  CHECK(refused.out.empty());
  CHECK(
      refused.err.starts_with("stowage: [pack] no packing fits the capacity "));
  const Outcome json = RunStowage({"pack", in, "--capacity", "29", "--json"});
  CHECK(json.exit_code == 1);
  const Json object = Json::parse(json.out);
  CHECK(object["fits"] == false);
  CHECK(object["capacity"] == 29);
  CHECK(object["height"] == 30);
}

TEST_CASE("pack --svg draws every buffer, and the capacity") {
  const std::string svg = TempPath("packing.svg");
  REQUIRE(RunStowage({"pack", WriteTemp("three.csv", kThree), "--svg", svg,
                      "--capacity", "40"})
              .exit_code == 0);
  const std::string drawn = ReadAll(svg);
  CHECK(drawn.starts_with("<svg "));
  CHECK(drawn.find("<title>&quot;c&quot;\n8 B (8 bytes) at ") !=
        std::string::npos);
  CHECK(drawn.find("class=\"capacity\"") != std::string::npos);
}

TEST_CASE("one buffer of as many bytes as there can be is packed") {
  const Outcome outcome =
      RunStowage({"pack",
                  WriteTemp("most.csv",
                            "id,lower,upper,size\na,0,2,9223372036854775807\n"),
                  "--json"});
  CHECK(outcome.exit_code == 0);
  CHECK(Json::parse(outcome.out)["height"] == 9223372036854775807);
}

TEST_CASE("a fixed offset stays") {
  const std::string in = WriteTemp("fixed.csv",
                                   "id,lower,upper,size,alignment,offset\n"
                                   "a,0,2,10,1,100\n"
                                   "b,0,5,20,64,\n");
  const std::string out = TempPath("fixed_packed.csv");
  REQUIRE(RunStowage({"pack", in, "-o", out}).exit_code == 0);
  CHECK(ReadAll(out).find("a,0,2,10,1,100\n") != std::string::npos);
}

// Sanitizers take more memory than there is.
TEST_CASE("where there is no more memory, it says so" *
          doctest::skip(STOWAGE_SANITIZER_HAS_MALLOC)) {
  std::string csv = "id,lower,upper,size\n";
  for (int k = 0; k < 400'000; ++k)
    csv += StrCat(k, ",", k, ",", k + 9, ",64\n");
  const std::string in = WriteTemp("many.csv", csv);
  const std::string err = TempPath("stderr");
  const int status = std::system(
      StrCat("ulimit -v 60000; tools/stowage pack ", in, " 2> ", err).c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(ReadAll(err).starts_with("stowage: [memory] "));
}

TEST_CASE("bad input exits 2 and says what is wrong") {
  const std::string good = WriteTemp("three.csv", kThree);
  struct Row {
    const char* csv;
    std::string message;
  };
  const Row rows[] = {
      {"", "[csv] line 1: the file is empty"},
      {"id,lower,upper\na,0,1\n", "the header lacks the column \"size\""},
      {"id,lower,upper,size\na,3,3,1\n",
       "[csv] line 2: column \"upper\": 3 is not above lower, 3"},
      {"id,lower,upper,size\na,3,2,1\n",
       "[csv] line 2: column \"upper\": 2 is not above lower, 3"},
      {"id,lower,upper,size\na,0,1,1\na,0,1,1\n",
       "[csv] line 3: column \"id\": \"a\" was used before, on line 2"},
      {"id,lower,upper,size\na,0,1,-1\n", "-1 is negative"},
      {"id,lower,upper,size\na,0,1,x\n", "\"x\" is no whole number"},
      {"id,lower,upper,size\na,0,1,99999999999999999999\n",
       "does not fit 64 bits"},
      {"id,lower,upper,size\na,0,1,9223372036854775807\nb,0,1,2\n",
       "past 64 bits"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage({"pack", WriteTemp("row.csv", row.csv)});
    INFO(row.message);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
  const std::vector<std::string> more[] = {
      {"pack", "/nowhere/x.csv"},
      {"pack", good, "--capacity", "0"},
      {"pack", good, "--capacity", "wide"},
      {"pack", good, "--time-limit", "1"},
      {"pack", good, "--packer", "best", "--time-limit", "0"},
      {"pack", good, "--packer", "best", "--time-limit", "nan"},
      {"pack", good, "-o", "/nowhere/x.csv"},
      {"check", good},  // offsets are missing
  };
  for (const std::vector<std::string>& arguments : more) {
    const Outcome outcome = RunStowage(arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(!outcome.err.empty());
  }
}

}  // namespace
}  // namespace stowage::testing

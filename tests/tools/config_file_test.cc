#include <doctest/doctest.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"
#include "tools/options.h"

namespace stowage::tools {
namespace {

using Strings = std::vector<std::string>;
using namespace stowage::testing;  // NOLINT(google-build-using-namespace)

TEST_CASE("a file has strings, numbers, booleans and arrays of these") {
  const auto entries = ParseConfig(
      "# a run\n"
      "model = \"gpt-nano\"  # a name\n"
      "data='a#b, \\c.txt'\n"
      "\n"
      "lr = +3e-4\r\n"
      "steps = 1_000\n"
      "\"json\" = true\n"
      "no-decay = [ \"*.bias\", # these\n"
      "  'ln*',\n"
      "]\n"
      "[ train ]\n"
      "min-lr = -0.5\n"
      "title = \"tab\\t\\\"quoted\\\"\"");
  REQUIRE_MESSAGE(entries.ok(), entries.error().message);
  struct Row {
    const char *table, *key;
    Strings values;
    int64_t line;
  };
  const Row rows[] = {{"", "model", {"gpt-nano"}, 2},
                      {"", "data", {"a#b, \\c.txt"}, 3},
                      {"", "lr", {"3e-4"}, 5},
                      {"", "steps", {"1000"}, 6},
                      {"", "json", {"true"}, 7},
                      {"", "no-decay", {"*.bias", "ln*"}, 8},
                      {"train", "min-lr", {"-0.5"}, 12},
                      {"train", "title", {"tab\t\"quoted\""}, 13}};
  REQUIRE(entries->size() == std::size(rows));
  for (size_t i = 0; i < entries->size(); ++i) {
    const ConfigEntry& entry = (*entries)[i];
    CHECK(entry.table == rows[i].table);
    CHECK(entry.key == rows[i].key);
    CHECK(entry.values == rows[i].values);
    CHECK(entry.line == rows[i].line);
    CHECK(entry.is_boolean == (entry.key == "json"));
    CHECK(entry.is_array == (entry.key == "no-decay"));
  }
}

TEST_CASE("what is no TOML, or is not read, is an error of its line") {
  struct Row {
    const char *text, *message;
  };
  const Row rows[] = {
      {"lr 3", "line 1: expected = behind the key \"lr\""},
      {"\nlr = ", "line 2: the value of \"lr\" is \"\""},
      {"lr = 1 2", "line 1: expected the end of the line instead of \"2\""},
      {"lr = fast", "the value of \"lr\" is \"fast\""},
      {"lr = 0x10", "the value of \"lr\" is \"0x10\""},
      {"lr = 1__0", "the value of \"lr\" is \"1__0\""},
      {"day = 1979-05-27", "the value of \"day\" is \"1979-05-27\""},
      {"a.b = 1", "dotted keys are not read; write [a]"},
      {"[a", "expected ] behind the table's name \"a\""},
      {"[[a]]", "arrays of tables are not read"},
      {"a = [[1]]", "arrays in arrays are not read"},
      {"a = [1\n2]", "line 2: expected , or ] in the array of \"a\""},
      {"a = \"b", "a string has no end: \"b\""},
      {"a = \"\\x\"", "the escape \"\\x\" is not read"},
      {"a = \"\"\"b\"\"\"", "strings of several lines are not read"},
      {"a = {b = 1}", "the value of \"a\" is \"{b\""},
      {"= 1", "expected a key instead of \"= 1\""},
      {"a = 1\n\na = 2", "line 3: key \"a\" is there twice, first in line 1"},
  };
  for (const Row& row : rows) {
    const auto entries = ParseConfig(row.text);
    INFO(row.text);
    REQUIRE(!entries.ok());
    INFO(entries.error().message);
    CHECK(entries.error().message.find(row.message) != std::string::npos);
  }
}

TEST_CASE("the nearest name is the one of the fewest changes") {
  const Strings names = {"--lr", "--clip-norm", "--weight-decay", "--seed"};
  CHECK(NearestName("--clipnorm", names) == "--clip-norm");
  CHECK(NearestName("--weight_decay", names) == "--weight-decay");
  CHECK(NearestName("--weight", names) == "--weight-decay");  // it begins so
  CHECK(NearestName("--lr", names) == "--lr");
  CHECK(NearestName("--something-else", names).empty());
  CHECK(DidYouMean("--sed", names) == "; did you mean --seed?");
  CHECK(DidYouMean("--something-else", names).empty());
}

TEST_CASE("a run reads its flags from a file, and those of the line count") {
  const std::string file = WriteTemp("run.toml",
                                     "lr = 0.25\n"
                                     "schedule = \"constant\"\n"
                                     "no-decay = [\"*.bias\"]\n"
                                     "[optimization]\n"
                                     "clip-norm = 1.5\n"
                                     "[train]\n"
                                     "stop-at = 4\n"
                                     "json = true\n"
                                     "[plan]\n"
                                     "pareto = true\n");
  const Outcome outcome = RunStowage(Mlp({"--config", file}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::vector<Json> lines = JsonLines(outcome.out);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0]["lr"] == 0.25);
  CHECK(lines[0]["grad_norm"].is_number());
  const std::vector<Json> other =
      TrainMlp({"--lr", "0.5", StrCat("--config=", file), "--stop-at", "2"});
  REQUIRE(other.size() == 3);
  CHECK(other[0]["lr"] == 0.5);
  // What excludes a flag of the file takes its place, too.
  const std::string steps = WriteTemp("steps.toml", "epochs = 2\n");
  CHECK(TrainMlp({"--config", steps, "--steps", "3"}).size() == 4);
}

TEST_CASE("required flags may be in the file, and false is no flag") {
  const std::string data = WriteTemp("rows.csv", SomeDigits());
  const std::string file =
      WriteTemp("all.toml", StrCat("model = \"mlp\"\ndata = \"", data,
                                   "\"\nbatch = 8\nsteps = 2\ndevice = "
                                   "\"cpu\"\njson = false\nsample = 0\n"));
  const Outcome outcome = RunStowage({"train", "--config", file});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("mlp, 2 steps on cpu") == 0);
}

TEST_CASE("a file that sets what there is not is refused, with its line") {
  struct Row {
    const char *text, *message;
  };
  const Row rows[] = {
      {"lr = 1\nclip_norm = 1\n",
       "[config] line 2: train has no flag --clip_norm that a file could set; "
       "did you mean --clip-norm?"},
      {"config = \"a\"\n", "train has no flag --config that a file could set"},
      {"[trian]\nlr = 1\n",
       "line 2: table \"trian\" is no subcommand and no group of flags; did "
       "you mean train?"},
      {"lr = [1, 2]\n", "line 1: --lr takes one value, and no array"},
      {"json = 1\n", "--json takes true or false, and no other value"},
      {"lr = true\n", "--lr takes one value, and no true or false"},
      {"lr = \"fast\"\n", "--lr: \"fast\" is no number"},
      {"lr =\n", "[config] line 1: the value of \"lr\" is \"\""},
  };
  for (const Row& row : rows) {
    const std::string file = WriteTemp("bad.toml", row.text);
    const Outcome outcome = RunStowage(Mlp({"--config", file}));
    INFO(row.message, " / ", outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
  const Outcome missing =
      RunStowage(Mlp({"--config", TempPath("not_there.toml")}));
  CHECK(missing.exit_code == 2);
  CHECK(missing.err.find("not_there.toml") != std::string::npos);
}

}  // namespace
}  // namespace stowage::tools

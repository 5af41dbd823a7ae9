#ifndef STOWAGE_TESTS_TOOLS_STOWAGE_JSON_H_
#define STOWAGE_TESTS_TOOLS_STOWAGE_JSON_H_

// Runs `stowage` with JSON output, and provides inputs that several tests of the command share. A
// plan is one JSON object, and a training run prints one object per line.
//
//   const Json plan = PlanAsJson({"--model", "mlp"});
//   CHECK(plan["arena_bytes"] > 0);
//   const std::vector<Json> lines = TrainMlp({"--steps", "2"});
//   CHECK(lines.back()["done"] == true);

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {

using Json = nlohmann::json;

/// Parses each line as JSON. Throws if a line is not JSON, which fails the test.
inline std::vector<nlohmann::json> JsonLines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

/// Returns whether `last`, the last line of a run, reports 0 heap allocations in its steps. Under a
/// sanitizer with its own malloc, the number must be null instead.
inline bool AllocatedNothing(const nlohmann::json& last) {
  const nlohmann::json& allocations = last.at("heap_allocations_in_steps");
  return STOWAGE_SANITIZER_HAS_MALLOC ? allocations.is_null()
                                      : allocations == 0;
}

/// Returns the output of `stowage plan ARGUMENTS --json`. Fails the running doctest case if the
/// command fails.
inline Json PlanAsJson(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const Outcome outcome = RunStowage(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

/// Writes a tokenizer.json for the tiny models of tests/goldens/pretrained, and returns its path.
/// Its 57 tokens are the letters, a space, a full stop, a newline, "th" and "he". `added` lists
/// additional tokens.
inline std::string LettersTokenizer(
    const nlohmann::json& added = nlohmann::json::array()) {
  nlohmann::json vocabulary = nlohmann::json::object();
  const auto add = [&](const std::string& token) {
    vocabulary[token] = vocabulary.size();
  };
  for (char c = 'a'; c <= 'z'; ++c) add(std::string(1, c));
  for (char c = 'A'; c <= 'Z'; ++c) add(std::string(1, c));
  for (const char* token : {"\u0120", ".", "\u010a", "th", "he"}) add(token);
  const nlohmann::json file = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"t h", "h e"}}}}};
  return WriteTemp("tokenizer.json", file.dump());
}

/// Returns arguments that train the model "mlp" on a few digits, followed by `more`. Training runs
/// for six steps unless `more` has --steps.
inline std::vector<std::string> Mlp(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"train",
                                        "--model",
                                        "mlp",
                                        "--data",
                                        WriteTemp("digits.csv", SomeDigits()),
                                        "--batch",
                                        "8",
                                        "--device",
                                        "cpu"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  if (std::ranges::find(more, "--steps") == more.end()) {
    arguments.insert(arguments.end(), {"--steps", "6"});
  }
  return arguments;
}

/// Trains with the arguments of Mlp(more), and returns the lines that the command prints. Fails the
/// running doctest case if the command fails.
inline std::vector<Json> TrainMlp(std::vector<std::string> more) {
  more.push_back("--json");
  const Outcome outcome = RunStowage(Mlp(more));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return JsonLines(outcome.out);
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_STOWAGE_JSON_H_

#ifndef STOWAGE_TESTS_TOOLS_STOWAGE_JSON_H_
#define STOWAGE_TESTS_TOOLS_STOWAGE_JSON_H_

// Runs of `stowage` whose output is JSON, and inputs that several tests of the command share:
// a plan (one object), a training (an object a line), a tokenizer of letters.
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

/// One object a line. Throws where a line is not JSON, which fails the test.
inline std::vector<nlohmann::json> JsonLines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

/// Whether `last`, the last line of a run, has counted no allocation in its steps. Where
/// malloc is a sanitizer's, nothing is counted.
inline bool AllocatedNothing(const nlohmann::json& last) {
  const nlohmann::json& allocations = last.at("heap_allocations_in_steps");
  return STOWAGE_SANITIZER_HAS_MALLOC ? allocations.is_null()
                                      : allocations == 0;
}

/// The output of `stowage plan ARGUMENTS --json`, which must succeed.
inline Json PlanAsJson(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const Outcome outcome = RunStowage(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

/// The path of a tokenizer.json for the tiny models of tests/goldens/pretrained. Its 57 tokens
/// are letters, a space, a full stop, a newline, "th" and "he"; `added` lists further ones.
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

/// Arguments that train the small model on a few digits, for six steps unless `more` has
/// --steps.
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

/// The lines that a training with these arguments prints; it must succeed.
inline std::vector<Json> TrainMlp(std::vector<std::string> more) {
  more.push_back("--json");
  const Outcome outcome = RunStowage(Mlp(more));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return JsonLines(outcome.out);
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_STOWAGE_JSON_H_

#ifndef STOWAGE_TESTS_TOOLS_TRAIN_MLP_H_
#define STOWAGE_TESTS_TOOLS_TRAIN_MLP_H_

// `stowage train` of a small model on a few digits, and what it prints.
//
//   const std::vector<Json> lines = TrainMlp({"--steps", "2"});
//   CHECK(lines.back()["done"] == true);

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/json_lines.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {

using Json = nlohmann::json;

// The arguments: six steps of the small model, unless `more` says how many.
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

inline std::vector<Json> TrainMlp(std::vector<std::string> more) {
  more.push_back("--json");
  const Outcome outcome = RunStowage(Mlp(more));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return JsonLines(outcome.out);
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_TRAIN_MLP_H_

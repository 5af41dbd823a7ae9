#ifndef STOWAGE_TESTS_TOOLS_JSON_LINES_H_
#define STOWAGE_TESTS_TOOLS_JSON_LINES_H_

// What a command prints with --json where it prints as it goes: an object a line.
//
//   const double loss = JsonLines(outcome.out).back()["validation_loss"];

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/sanitizers.h"

namespace stowage::testing {

/// What is no JSON throws, and so fails the test.
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

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_JSON_LINES_H_

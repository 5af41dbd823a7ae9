#ifndef STOWAGE_TESTS_TOOLS_JSON_LINES_H_
#define STOWAGE_TESTS_TOOLS_JSON_LINES_H_

// What a command prints with --json where it prints as it goes: an object a line.
//
//   const double loss = JsonLines(outcome.out).back()["validation_loss"];

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

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

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_JSON_LINES_H_

#ifndef STOWAGE_TESTS_TOOLS_PLAN_AS_JSON_H_
#define STOWAGE_TESTS_TOOLS_PLAN_AS_JSON_H_

// What `stowage plan --json` prints (doctest checks).
//
//   const Json plan = PlanAsJson({"--model", "mlp"});
//   CHECK(plan["arena_bytes"] > 0);

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/run_stowage.h"

namespace stowage::testing {

using Json = nlohmann::json;

inline Json PlanAsJson(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const Outcome outcome = RunStowage(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_PLAN_AS_JSON_H_

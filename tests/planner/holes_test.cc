#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/lifetimes.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage {
namespace {

constexpr Region kOwn = Region::kActivations;

// Of nine nodes, so that results live until time 10.
Plan PlanWith(std::vector<PlannedBuffer> buffers) {
  Plan plan;
  plan.alignment = 16;
  plan.workspace_of.assign(9, -1);
  plan.buffers = std::move(buffers);
  return plan;
}

// "x+16" of what lies within x, 16 bytes from its first; "" of what stays.
std::string Within(const Plan& plan, std::string_view name) {
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.name != name) continue;
    if (buffer.within < 0) return "";
    CHECK(buffer.region == Region::kOutside);
    return plan.buffers[static_cast<size_t>(buffer.within)].name + "+" +
           std::to_string(buffer.offset);
  }
  return "none of this name";
}

TEST_CASE("what is made later lies in a dead operand, side by side") {
  Plan plan = PlanWith({{"x", Region::kOutside, 0, 40, 0, 4},
                        {"kept", Region::kOutside, 0, 64, 0, 10},
                        {"large", kOwn, 0, 48, 5, 6},
                        {"a", kOwn, 0, 16, 5, 10},
                        {"b", kOwn, 0, 12, 4, 9},
                        {"c", kOwn, 0, 12, 6, 10},
                        {"d", kOwn, 0, 12, 9, 10},
                        {"early", kOwn, 0, 4, 3, 5},
                        {"narrow", kOwn, 0, 8, 6, 7},
                        {"scratch", Region::kWorkspace, 0, 4, 5, 6}});
  PlaceInHoles(&plan);
  CHECK(Within(plan, "large") == "");  // x has 40 bytes
  CHECK(Within(plan, "a") == "x+0");
  CHECK(Within(plan, "b") == "x+16");
  CHECK(Within(plan, "c") == "");      // 8 are left, padding counted
  CHECK(Within(plan, "d") == "x+16");  // where b was
  CHECK(Within(plan, "early") == "");  // x is read at 3
  CHECK(Within(plan, "narrow") == "x+32");
  CHECK(Within(plan, "scratch") == "");
}

TEST_CASE(
    "what dies before a result is written lies there, if nowhere smaller") {
  Plan plan = PlanWith({{"unread", Region::kOutside, 0, 48, 0, 0},
                        {"y", Region::kOutside, 0, 32, 7, 10},
                        {"before", kOwn, 0, 16, 0, 7},
                        {"beyond", kOwn, 0, 32, 1, 8},
                        {"third", kOwn, 0, 16, 2, 6}});
  PlaceInHoles(&plan);
  CHECK(Within(plan, "beyond") == "unread+0");
  CHECK(Within(plan, "before") == "y+0");
  CHECK(Within(plan, "third") == "y+16");
  CHECK(IsDyingOperand(plan, plan.buffers[0]));
  CHECK_FALSE(IsDyingOperand(plan, plan.buffers[1]));
  CHECK_FALSE(IsDyingOperand(plan, plan.buffers[2]));
}

}  // namespace
}  // namespace stowage

// tools/judge_plan.py runs plans of loops and branches byte by byte, at the addresses of
// every trip. The validator runs a body once, over places of its own making. They agree.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "report/plan_json.h"
#include "tests/support/instances.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/random_graph.h"

namespace stowage::testing {
namespace {

std::filesystem::path Folder() {
  const char* const folder = std::getenv("TEST_TMPDIR");
  return folder != nullptr ? folder : std::filesystem::temp_directory_path();
}

// What judge_plan.py says of the plan files "0.plan", "1.plan", ...: a line each, empty
// where a plan is sound.
std::vector<std::string> Judge(size_t count) {
  const std::string out = (Folder() / "verdicts").string();
  const int status = std::system(
      StrCat("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tools python3 -c '",
             "import json, judge_plan\n", "for k in range(", count, "):\n",
             "    plan = json.load(open(f\"", Folder().string(),
             "/{k}.plan\"))\n",
             "    print((judge_plan.Judge(plan).judge() + [\"\"])[0])\n",
             "' >'", out, "' 2>&1")
          .c_str());
  std::vector<std::string> lines;
  std::ifstream in(out);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  REQUIRE_MESSAGE(lines.size() == count, lines.back());
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  return lines;
}

// The plan itself, or that of some body in it, at any depth.
struct Place {
  Plan* plan = nullptr;
  std::vector<int32_t>* second_of = nullptr;
};
Place SomePlace(Plan* plan, Rng* rng) {
  Place place{.plan = plan};
  while (!place.plan->bodies.empty() && rng->Below(4) > 0) {
    BodyPlan& body = place.plan->bodies[static_cast<size_t>(
        rng->Below(static_cast<int64_t>(place.plan->bodies.size())))];
    place = {&body.plan, &body.second_of};
  }
  return place;
}

// One thing that may be wrong: of a slot, of a value, or of what a loop carries.
void Corrupt(const Place& place, Rng* rng) {
  const auto below = [&](size_t n) {
    return static_cast<size_t>(rng->Below(static_cast<int64_t>(n)));
  };
  Plan& plan = *place.plan;
  if (plan.buffers.empty()) return;
  PlannedBuffer& slot = plan.buffers[below(plan.buffers.size())];
  const PlannedBuffer& other = plan.buffers[below(plan.buffers.size())];
  switch (rng->Below(10)) {
    case 0:
      slot.offset += plan.alignment;
      break;
    case 1:
      slot.offset = other.offset;
      break;
    case 2:
      slot.region = other.region;
      break;
    case 3:
      slot.size /= 2;
      break;
    case 4:
      slot.upper -= 1;
      break;
    case 5:
      slot.size += plan.alignment;
      break;
    case 6:
      plan.buffer_of[below(plan.buffer_of.size())] =
          static_cast<int32_t>(below(plan.buffers.size()));
      break;
    case 7:
      slot.region = Region::kOutside;
      slot.within = static_cast<int32_t>(below(plan.buffers.size()));
      if (rng->Below(2) == 0) slot.offset = 0;
      break;
    case 8:
      slot.upper = other.upper;
      slot.lower = std::min(slot.lower, slot.upper);
      break;
    default:
      if (place.second_of == nullptr || place.second_of->empty()) break;
      (*place.second_of)[below(place.second_of->size())] =
          static_cast<int32_t>(below(plan.buffers.size() + 1)) - 1;
  }
}

TEST_CASE(
    "1,000 corrupted plans are judged as a run byte by byte judges them") {
  constexpr int kChanges = 10;
  std::vector<std::string> ours;  // what the validator says first
  for (uint64_t seed = 0; seed < Instances(100u); ++seed) {
    const Graph graph = MakeRandomControlFlow(seed);
    // Small slots, lest all that is wrong be padding.
    const Result<Plan> good = PlanMemory(graph, {.alignment = 16});
    REQUIRE_MESSAGE(good.ok(), good.error().message);
    Rng rng(seed);
    for (int k = 0; k <= kChanges; ++k) {
      Plan plan = *good;
      if (k > 0) Corrupt(SomePlace(&plan, &rng), &rng);
      const std::string text = PlanToJson(plan, graph);
      std::ofstream(Folder() / StrCat(ours.size(), ".plan")) << text;
      if (k == 0) {
        const Result<PlanFile> read = PlanFromJson(text);
        REQUIRE_MESSAGE(read.ok(), read.error().message);
        CHECK(PlanToJson(read->plan, read->graph) == text);
      }
      const std::vector<std::string> wrong = ValidatePlan(graph, plan);
      ours.push_back(wrong.empty() ? "" : wrong.front());
    }
  }
  const std::vector<std::string> theirs = Judge(ours.size());
  int wrong = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    INFO("seed ", i / (kChanges + 1), ", change ", i % (kChanges + 1));
    CHECK_MESSAGE(ours[i].empty() == theirs[i].empty(),
                  StrCat("validator: ", ours[i], "; judge: ", theirs[i]));
    if (i % (kChanges + 1) == 0) CHECK(ours[i].empty());
    wrong += ours[i].empty() ? 0 : 1;
  }
  const int all = static_cast<int>(ours.size());
  CHECK(wrong > all / 3);
  CHECK(wrong < all * 9 / 10);
}

}  // namespace
}  // namespace stowage::testing

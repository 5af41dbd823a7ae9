#include "train/step_planner.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/packing/problem.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "report/plan_json.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/files.h"
#include "train/plan_cache.h"
#include "train/training.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

using testing::NewFolder;
using testing::StepsOf;
using testing::TinyGpt;

Graph StepFor(int64_t batch) {
  return StepsOf(TinyGpt, batch)(1, Sampling::kAll).value().graph;
}

// The training step of a batch of four, in one micro-batch or more.
StepQuestion Question(const PlanCache& cache) {
  return {.build = StepsOf(TinyGpt, 4),
          .sources =
              [] {
                return std::vector{StepFor(4), TinyGpt(2)};
              },
          .fit = {.optimizations = NoOptimizations(), .effort = 0.1},
          .budget = Bytes{1} << 30,
          .cache = cache};
}

PlannedStep PlanOf(StepQuestion question) {
  Result<PlannedStep> planned = StepPlanner(std::move(question)).Plan();
  REQUIRE_MESSAGE(planned.ok(), planned.error().message);
  return *std::move(planned);
}

CacheUse UseOf(StepQuestion question) {
  return PlanOf(std::move(question)).cache;
}

// Half of what the step takes as it is, by all optimizations.
StepQuestion TightQuestion(const PlanCache& cache) {
  StepQuestion question = Question(cache);
  question.fit.optimizations = {.micro_batches = {1, 2}};
  question.budget = PlanOf(Question(PlanCache())).step.plan.arena_bytes() / 2;
  return question;
}

void CheckSame(const PlannedStep& a, const PlannedStep& b) {
  CHECK(Equal(a.step.graph, b.step.graph));
  CHECK(PlanToJson(a.step.plan, a.step.graph) ==
        PlanToJson(b.step.plan, b.step.graph));
  CHECK(a.step.price.micro_batches == b.step.price.micro_batches);
  CHECK(a.step.price.host.values == b.step.price.host.values);
  CHECK(a.step.price.extra_flops == b.step.price.extra_flops);
  CHECK(a.step.price.extra_cost == b.step.price.extra_cost);
  CHECK(a.step.flops == b.step.flops);
  CHECK(a.step.recomputed.size() == b.step.recomputed.size());
}

TEST_CASE(
    "the same question is planned once: here, and by whom has the folder") {
  const std::string folder = NewFolder("step_planner");
  const PlanCache cache(folder);
  const PlannedStep first = PlanOf(TightQuestion(cache));
  CHECK(first.cache == CacheUse::kMiss);
  CHECK(first.cache_note == "");
  CHECK_FALSE(first.step.passes.empty());

  StepQuestion again = TightQuestion(cache);
  again.build = [](int64_t, Sampling) -> Result<SampledStep> {
    return Error{ErrorCode::kInvalidArgument, "it was planned again"};
  };
  for (const PlanCache& each : {cache, PlanCache(folder)}) {
    again.cache = each;
    const PlannedStep second = PlanOf(again);
    CHECK(second.cache == CacheUse::kHit);
    CHECK(second.cache_note == "");
    CHECK(second.step.passes.empty());
    CheckSame(first, second);
  }
}

TEST_CASE("without a cache nothing is kept, and that is said") {
  StepQuestion question = Question(PlanCache());
  question.cache.reset();
  CHECK(UseOf(question) == CacheUse::kOff);
  CHECK(UseOf(question) == CacheUse::kOff);
}

OpTimes SomeTimes(double seconds) {
  const Graph step = StepFor(1);
  OpTimes times;
  times.Add(
      step, 1 << 20,
      std::vector<double>(static_cast<size_t>(step.num_nodes()), seconds));
  return times;
}

// The layout that a plan of `graph` has, or, with as many bytes of each kind, that
// with two slots of the region in each other's place.
WeightLayout LayoutOf(const Graph& graph, std::optional<Region> swapped = {}) {
  Plan plan = PlanMemory(graph).value();
  if (!swapped) return WeightLayout::FromForward(graph, plan);
  for (PlannedBuffer& a : plan.buffers) {
    for (PlannedBuffer& b : plan.buffers) {
      if (&a == &b || a.region != *swapped || b.region != *swapped) continue;
      if (a.size != b.size) continue;
      std::swap(a.offset, b.offset);
      return WeightLayout::FromForward(graph, plan);
    }
  }
  FAIL("no two slots of the region have one size");
  return WeightLayout::FromForward(graph, plan);
}

TEST_CASE("a question with any other ingredient is another question") {
  using Change = std::function<void(StepQuestion*)>;
  const std::pair<const char*, Change> changes[] = {
      {"graph",
       [](StepQuestion* q) {
         q->build = StepsOf(TinyGpt, 5);
         q->sources = [] { return std::vector{StepFor(5), TinyGpt(2)}; };
       }},
      {"model of a micro-batch",
       [](StepQuestion* q) {
         q->sources = [] { return std::vector{StepFor(4), TinyGpt(3)}; };
       }},
      {"budget", [](StepQuestion* q) { q->budget = (Bytes{1} << 30) + 1; }},
      {"no budget", [](StepQuestion* q) { q->budget.reset(); }},
      {"micro_batches",
       [](StepQuestion* q) {
         q->fit.optimizations.micro_batches = {1, 2};
       }},
      {"recompute",
       [](StepQuestion* q) {
         q->fit.optimizations.recompute = Recompute::kCheap;
       }},
      {"kept",
       [](StepQuestion* q) {
         q->fit.optimizations.always_kept = {"embedding"};
       }},
      {"recomputed",
       [](StepQuestion* q) {
         q->fit.optimizations.always_recomputed = {"embedding"};
       }},
      {"offload",
       [](StepQuestion* q) {
         q->fit.optimizations.offload = OffloadChoice::kAuto;
       }},
      {"order",
       [](StepQuestion* q) {
         q->fit.optimizations.order = NodeOrder::kMemory;
       }},
      {"packer", [](StepQuestion* q) { q->fit.plan.packer = Packer::kBest; }},
      {"alignment", [](StepQuestion* q) { q->fit.plan.alignment = 512; }},
      {"in place", [](StepQuestion* q) { q->fit.plan.in_place = false; }},
      {"weight layout",
       [](StepQuestion* q) { q->fit.plan.weights = LayoutOf(TinyGpt(4)); }},
      {"places of weights",
       [](StepQuestion* q) {
         q->fit.plan.weights = LayoutOf(TinyGpt(4), Region::kWeights);
       }},
      {"layout of states",
       [](StepQuestion* q) { q->fit.plan.weights = LayoutOf(StepFor(4)); }},
      {"places of states",
       [](StepQuestion* q) {
         q->fit.plan.weights = LayoutOf(StepFor(4), Region::kState);
       }},
      {"other weight layout",
       [](StepQuestion* q) {
         const Graph model = TinyGpt(4);
         q->fit.plan.weights = WeightLayout::FromForward(
             model, PlanMemory(model, {.alignment = 1024}).value());
       }},
      {"scratch",
       [](StepQuestion* q) {
         q->fit.plan.device.workspace = [](const Graph&, const Node& node) {
           return node.op == OpKind::kMatMul ? Bytes{512} : Bytes{0};
         };
       }},
      {"reserve",
       [](StepQuestion* q) {
         q->fit.plan.device.reserve = [](const Graph&, Bytes) {
           return Bytes{512};
         };
       }},
      {"op times", [](StepQuestion* q) { q->op_times = SomeTimes(1e-6); }},
      {"other op times",
       [](StepQuestion* q) { q->op_times = SomeTimes(2e-6); }},
      {"cost of copies", [](StepQuestion* q) { q->fit.cost_per_byte = 1; }},
      {"effort", [](StepQuestion* q) { q->fit.effort = 0.2; }},
      {"settings", [](StepQuestion* q) { q->settings = "sums"; }},
  };
  // One cache for all, so that none is taken for another either.
  const PlanCache cache;
  REQUIRE(UseOf(Question(cache)) == CacheUse::kMiss);
  for (const auto& changed : changes) {
    CAPTURE(changed.first);
    StepQuestion question = Question(cache);
    changed.second(&question);
    CHECK(UseOf(question) == CacheUse::kMiss);
    CHECK(UseOf(question) == CacheUse::kHit);
  }
  CHECK(UseOf(Question(cache)) == CacheUse::kHit);
}

TEST_CASE("costs that are a function cannot be compared, and are not cached") {
  StepQuestion question = Question(PlanCache());
  question.fit.cost = [](const Graph& graph) {
    return std::vector<double>(static_cast<size_t>(graph.num_nodes()), 1.0);
  };
  CHECK(UseOf(question) == CacheUse::kOff);
  CHECK(UseOf(question) == CacheUse::kOff);
}

// The largest file is the step's.
std::string LargestFile(const std::string& folder) {
  std::string path;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (path.empty() || entry.file_size() > fs::file_size(path)) {
      path = entry.path().string();
    }
  }
  return path;
}

TEST_CASE("a damaged entry is planned anew, said, and repaired") {
  const std::string folder = NewFolder("step_planner");
  const PlannedStep first = PlanOf(Question(PlanCache(folder)));
  {
    std::fstream file(LargestFile(folder),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-100, std::ios::end);
    file << "damage";
  }
  const PlannedStep second = PlanOf(Question(PlanCache(folder)));
  CHECK(second.cache == CacheUse::kMiss);
  CHECK(second.cache_note.starts_with("[plan cache] \""));
  CHECK(second.cache_note.ends_with("; it is planned anew"));
  CheckSame(first, second);
  CHECK(UseOf(Question(PlanCache(folder))) == CacheUse::kHit);
}

TEST_CASE("an entry that is whole but no step is planned anew, and repaired") {
  const std::string folder = NewFolder("step_planner");
  UseOf(Question(PlanCache(folder)));
  const std::string path = LargestFile(folder);
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  // "stowage-plan-cache 2 <bytes of key> ...", a line; then the key.
  const size_t line = bytes.find('\n') + 1;
  const size_t key_bytes = std::stoull(bytes.substr(21));
  REQUIRE(
      PlanCache(folder).Store(bytes.substr(line, key_bytes), "nonsense").ok());
  const PlannedStep again = PlanOf(Question(PlanCache(folder)));
  CHECK(again.cache == CacheUse::kMiss);
  CHECK(again.cache_note.starts_with("[plan cache] "));
  CHECK(again.cache_note.ends_with("; it is planned anew"));
  CHECK(UseOf(Question(PlanCache(folder))) == CacheUse::kHit);
}

TEST_CASE("a folder that cannot be written is said, and the step is planned") {
  const std::string file = NewFolder("step_planner");
  std::ofstream(file) << "a file";
  const PlanCache cache(file + "/folder");
  const PlannedStep first = PlanOf(Question(cache));
  CHECK(first.cache == CacheUse::kMiss);
  CHECK(first.cache_note.starts_with("[plan cache] cannot make the folder "));
  CHECK(UseOf(Question(cache)) == CacheUse::kHit);
}

TEST_CASE("with a deadline the cache is off: it is not the same twice") {
  const PlanCache cache;
  StepQuestion question = Question(cache);
  question.fit.plan.packer = Packer::kBest;
  question.fit.plan.deadline = packing::Clock::now() + std::chrono::hours(1);
  CHECK(UseOf(question) == CacheUse::kOff);
  CHECK(UseOf(question) == CacheUse::kOff);
}

TEST_CASE("the smallest budget is found once, whatever the budget asked for") {
  const std::string folder = NewFolder("step_planner");
  const Result<Bytes> first =
      StepPlanner(TightQuestion(PlanCache(folder))).SmallestBudget();
  REQUIRE(first.ok());
  StepQuestion uncached = TightQuestion(PlanCache());
  uncached.cache.reset();
  CHECK(*first == StepPlanner(uncached).SmallestBudget().value());

  StepQuestion again = TightQuestion(PlanCache(folder));
  again.budget.reset();
  again.build = [](int64_t, Sampling) -> Result<SampledStep> {
    return Error{ErrorCode::kInvalidArgument, "it was searched again"};
  };
  const Result<Bytes> second = StepPlanner(again).SmallestBudget();
  REQUIRE_MESSAGE(second.ok(), second.error().message);
  CHECK(*second == *first);
}

TEST_CASE("a refusal is no plan, and is not kept") {
  StepQuestion question = Question(PlanCache());
  question.budget = 1;
  for (int i = 0; i < 2; ++i) {
    const Result<PlannedStep> planned = StepPlanner(question).Plan();
    REQUIRE_FALSE(planned.ok());
    CHECK(planned.error().code == ErrorCode::kBudgetTooSmall);
  }
}

// The rate is written before each step, whatever its schedule: there is no field
// of a training's description for it, and so none in the key.
TEST_CASE("a learning rate is an input of the step; decays are of its graph") {
  const PlanCache cache;
  const auto plan = [&](AdamW optimizer) {
    Result<TrainingPlanner> planner = TrainingPlanner::Make(
        {.model = [](int64_t batch) -> Result<Graph> { return TinyGpt(batch); },
         .batch = 4,
         .training = {.optimizer = optimizer},
         .optimizations = NoOptimizations(),
         .cache = cache},
        {});
    REQUIRE_MESSAGE(planner.ok(), planner.error().message);
    Result<TrainingPlan> plan = planner->Plan();
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    return *std::move(plan);
  };
  const TrainingPlan first = plan(AdamW{});
  CHECK(first.cache == CacheUse::kMiss);
  const std::optional<ValueId> rate = first.step.graph.Find("lr");
  REQUIRE(rate.has_value());
  CHECK(first.step.graph.value(*rate).role == Role::kInput);
  CHECK(plan(AdamW{}).cache == CacheUse::kHit);
  AdamW other;
  other.decay += 0.5;
  CHECK(plan(other).cache == CacheUse::kMiss);
}

}  // namespace
}  // namespace stowage

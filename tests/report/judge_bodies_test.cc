// tools/judge_plan.py runs plans of loops and branches byte by byte, at the addresses of
// every iteration. The validator runs a body once, over places of its own making. They agree.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/lifetimes.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "report/plan_json.h"
#include "tests/support/instances.h"
#include "tests/support/looped_blocks.h"
#include "tests/support/offload_values_in_bodies.h"
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
  switch (rng->Below(11)) {
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
    case 9: {
      if (plan.host_workspace_of.empty()) break;
      int32_t& on_host =
          plan.host_workspace_of[below(plan.host_workspace_of.size())];
      on_host = static_cast<int32_t>(below(plan.buffers.size() + 1)) - 1;
      break;
    }
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
    Graph graph = MakeRandomControlFlow(seed);
    if (seed % 2 == 1) graph = OffloadValuesInBodies(graph, seed);
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

TEST_CASE(
    "steps fitted by what runs again in bodies are sound to both judges") {
  std::vector<std::string> ours;
  size_t in_bodies = 0;
  for (uint64_t seed = 0; seed < Instances(30u); ++seed) {
    const bool is_random = seed >= 3;
    const Result<Graph> step = BuildTrainStep(
        is_random
            ? MakeRandomControlFlow(seed)
            : MakeLoopedBlocks({.rows = 16, .in = static_cast<BlocksIn>(seed)}),
        "loss", {.optimizer = Sgd{}});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    StepFitter fitter(OfGraph(*step),
                      {.plan = {.alignment = 16},
                       .optimizations = {.offload = OffloadChoice::kNone},
                       .effort = 0.05});
    const Result<Bytes> smallest = fitter.SmallestBudget();
    REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
    const Result<FittedStep> fitted = fitter.Fit(*smallest);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    for (const RecomputedNode& recomputed : fitted->recomputed) {
      in_bodies += recomputed.name.find('@') != std::string::npos;
    }
    std::ofstream(Folder() / StrCat(ours.size(), ".plan"))
        << PlanToJson(fitted->plan, fitted->graph);
    const std::vector<std::string> wrong =
        ValidatePlan(fitted->graph, fitted->plan);
    ours.push_back(wrong.empty() ? "" : wrong.front());
  }
  CHECK(in_bodies > 0);
  const std::vector<std::string> theirs = Judge(ours.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    INFO("seed ", i);
    CHECK(ours[i] == "");
    CHECK(theirs[i] == "");
  }
}

Value Wide(Value x) { return Copy(BroadcastTo(Reshape(x, {1, 4}), {2, 4})); }

// A cond with operands that die in it, `wide`, `idle` and, if it were not read behind
// it, `kept`, and with some that do not: `twice`, and a part of `large`. In its first
// body, `r` lies where the result will, and could where `idle` was, which has four bytes
// more; then `own` lies where `wide` was.
constexpr size_t kWide = 0, kKept = 1, kTwice = 2, kPart = 4, kIdle = 5;
Graph BranchSample() {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value flag = g.Input("flag", DType::kBool, {});
  const Value wide = g.Name("wide", Wide(x));
  const Value kept = g.Name("kept", Tanh(x));
  const Value twice = g.Name("twice", Sin(x));
  const Value large = g.Name("large", Wide(Cos(x)));
  const Value part = Reshape(Slice(large, 0, 0, 1), {4});
  const Value idle = g.Name("idle", Exp(g.Input("longer", DType::kF32, {5})));
  const std::vector<Value> y =
      Cond(g, flag, {wide, kept, twice, twice, part, idle},
           {[](CondBody& body) {
              GraphBuilder& b = body.builder();
              const Value r = b.Name("r", ReduceSum(body.operand(kWide), {0}));
              return std::vector{ReduceSum(b.Name("own", Wide(r)), {0})};
            },
            [](CondBody& body) {
              return std::vector{ReduceSum(body.operand(kWide), {0})};
            }});
  g.Output("y", y[0]);
  g.Output("z", Add(kept, x));
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// A loop of which each iteration leaves a slice, `out`, which it writes once `a` is dead.
Graph LoopSample() {
  GraphBuilder g("net");
  const Value xs = g.Input("xs", DType::kF32, {2, 1, 4});
  const Value w = g.Input("w", DType::kF32, {4, 4});
  const LoopResults run =
      Loop(g, 2, {.sliced = {xs}, .whole = {w}}, [](LoopBody& body) {
        GraphBuilder& b = body.builder();
        const Value a = b.Name("a", Tanh(body.sliced(0)));
        const Value m = MatMul(a, body.whole(0));
        body.Stack(b.Name("out", MatMul(m, body.whole(0))));
      });
  g.Output("y", run.stacked[0]);
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// A loop that keeps a value on the host in each iteration, and one that is there across it.
Graph HostSample() {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value xs = g.Input("xs", DType::kF32, {3, 4});
  const Value outer = g.Name("outer", Offload(x));
  const LoopResults run = Loop(g, 3, {.sliced = {xs}}, [](LoopBody& body) {
    const Value a = Tanh(body.sliced(0));
    const Value kept = Offload(a);
    const Value b = Sin(a);
    body.Sum(Add(b, Reload(kept)));
  });
  g.Output("y", Add(run.summed[0], Reload(outer)));
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

TEST_CASE("both judges know what may die in a branch, and what may lie there") {
  const Graph branches = BranchSample();
  const Graph loop = LoopSample();
  const Graph host = HostSample();
  const auto is_cond = [](const Node& node) {
    return node.op == OpKind::kCond;
  };
  const Node& cond = *std::ranges::find_if(branches.nodes(), is_cond);
  // The slot of a value, of what a body is handed, and of what it makes.
  const auto slot = [](Plan& plan, ValueId id) -> PlannedBuffer& {
    return plan
        .buffers[static_cast<size_t>(plan.buffer_of[static_cast<size_t>(id)])];
  };
  const auto leaf = [&](Plan& plan, size_t body, size_t i) -> PlannedBuffer& {
    return slot(plan.bodies[body].plan, LeavesOf(*BodiesOf(cond)[body])[i]);
  };
  const auto made = [&](Plan& plan, const char* name) -> PlannedBuffer& {
    return slot(plan.bodies[0].plan, *BodiesOf(cond)[0]->Find(name));
  };
  const auto in_loop = [&](Plan& plan, const char* name) -> PlannedBuffer& {
    return slot(plan.bodies[0].plan, *BodiesOf(loop.node(0))[0]->Find(name));
  };
  // Of the node with the body that keeps something on the host.
  const auto room = [](Plan& plan) -> int32_t& {
    return plan.host_workspace_of[static_cast<size_t>(plan.bodies[0].node)];
  };
  const auto room_slot = [&](Plan& plan) -> PlannedBuffer& {
    return plan.buffers[static_cast<size_t>(room(plan))];
  };
  const auto end_of = [&](size_t body) {
    return Time{BodiesOf(cond)[body]->num_nodes()} + 1;
  };
  struct Row {
    const char* what;
    const Graph* graph;
    std::function<void(Plan&)> change;
    bool is_sound = false;
  };
  const Row body_rows[] = {
      {"as it is planned", &branches, [](Plan&) {}, true},
      {"in an unread operand", &branches,
       [&](Plan& p) {
         made(p, "r").within = static_cast<int32_t>(
             &leaf(p, 0, kIdle) - p.bodies[0].plan.buffers.data());
       },
       true},
      {"in the result, and an unread operand to the end", &branches,
       [&](Plan& p) {
         const ValueId y = BodiesOf(cond)[0]->outputs()[0].value;
         made(p, "r").within =
             p.bodies[0].plan.buffer_of[static_cast<size_t>(y)];
         for (const size_t b : {0u, 1u}) leaf(p, b, kIdle).upper = end_of(b);
       },
       true},
      {"an operand dies in one body alone", &branches,
       [&](Plan& p) { leaf(p, 1, kWide).upper = end_of(1); }},
      {"an operand dies that is handed in twice", &branches,
       [&](Plan& p) {
         for (const size_t b : {0u, 1u}) leaf(p, b, kTwice).upper = 0;
       }},
      {"an operand dies that is read behind the node", &branches,
       [&](Plan& p) {
         for (const size_t b : {0u, 1u}) leaf(p, b, kKept).upper = 0;
       }},
      {"a part of a value dies", &branches,
       [&](Plan& p) {
         for (const size_t b : {0u, 1u}) leaf(p, b, kPart).upper = 0;
       }},
      {"an operand dies before it is read", &branches,
       [&](Plan& p) { leaf(p, 0, kWide).upper = 0; }},
      {"an operand is not there from the start", &branches,
       [&](Plan& p) {
         leaf(p, 1, kIdle).lower = 1;
         leaf(p, 1, kIdle).upper = 1;
       }},
      {"what lies in an operand reaches beyond", &branches,
       [&](Plan& p) { made(p, "own").offset += 16; }},
      {"what lies in an operand is not aligned", &branches,
       [&](Plan& p) {
         made(p, "r").within = static_cast<int32_t>(
             &leaf(p, 0, kIdle) - p.bodies[0].plan.buffers.data());
         made(p, "r").offset = 4;
       }},
      {"what lies in an operand is stated to live as long as that", &branches,
       [&](Plan& p) { made(p, "own").lower = 0; }},
      {"what lies in an operand begins before", &branches,
       [&](Plan& p) { made(p, "own").offset -= 16; }},
      {"what lies in an operand lives while that is read", &branches,
       [&](Plan& p) { made(p, "r").within = made(p, "own").within; }},
      {"what lies in an operand lies in one that is kept", &branches,
       [&](Plan& p) {
         made(p, "r").within = static_cast<int32_t>(
             &leaf(p, 0, kKept) - p.bodies[0].plan.buffers.data());
       }},
      {"what lies in what lies in an operand", &branches,
       [&](Plan& p) {
         made(p, "r").within = static_cast<int32_t>(
             &made(p, "own") - p.bodies[0].plan.buffers.data());
       }},
      {"what lies in an operand is said to lie in the arena", &branches,
       [&](Plan& p) { made(p, "r").region = Region::kActivations; }},
      {"the loop as it is planned", &loop, [](Plan&) {}, true},
      {"an iteration's operand dies", &loop,
       [&](Plan& p) { in_loop(p, "xs").upper = 1; }},
      {"an iteration lays something in its result", &loop,
       [&](Plan& p) {
         PlannedBuffer& out = in_loop(p, "out");
         PlannedBuffer& a = in_loop(p, "a");
         out.lower = a.upper;
         a.region = Region::kOutside;
         a.within =
             static_cast<int32_t>(&out - p.bodies[0].plan.buffers.data());
         a.offset = 0;
       }},
  };
  const Row host_rows[] = {
      {"the host's part as it is planned", &host, [](Plan&) {}, true},
      {"too little of the host", &host,
       [&](Plan& p) { room_slot(p).size -= 16; }},
      {"none of the host", &host, [&](Plan& p) { room(p) = -1; }},
      {"a part of the host where a value is", &host,
       [&](Plan& p) {
         room_slot(p).offset = slot(p, *host.Find("outer")).offset;
       }},
      {"a part of the host in the arena", &host,
       [&](Plan& p) {
         room(p) = p.buffer_of[static_cast<size_t>(*host.Find("y"))];
       }},
      {"more of the host than there is", &host,
       [&](Plan& p) { room_slot(p).offset += 16; }},
  };
  std::vector<Row> rows(std::begin(body_rows), std::end(body_rows));
  rows.insert(rows.end(), std::begin(host_rows), std::end(host_rows));
  std::vector<std::string> ours;
  for (const Row& row : rows) {
    INFO(std::string(row.what));
    Result<Plan> plan = PlanMemory(*row.graph, {.alignment = 16});
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    row.change(*plan);
    std::ofstream(Folder() / StrCat(ours.size(), ".plan"))
        << PlanToJson(*plan, *row.graph);
    const std::vector<std::string> wrong = ValidatePlan(*row.graph, *plan);
    ours.push_back(wrong.empty() ? "" : wrong.front());
    CHECK_MESSAGE(wrong.empty() == row.is_sound, ours.back());
  }
  const std::vector<std::string> theirs = Judge(ours.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    INFO(std::string(rows[i].what));
    CHECK_MESSAGE(theirs[i].empty() == rows[i].is_sound, theirs[i]);
  }
}

}  // namespace
}  // namespace stowage::testing

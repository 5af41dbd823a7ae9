#include "planner/fit/recompute/simulation.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "autodiff/rank_step.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "planner/fit/offload/offload.h"
#include "planner/lifetimes.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/random_graph.h"

namespace stowage::fit {
namespace {

// One slot of 256 bytes a value: 64 floats.
//   a = exp(x), b = exp(a), c = exp(b), loss = sum(c) forward;
//   later d reads b and e reads a, each beside what came before.
Graph Chain() {
  GraphBuilder g("chain");
  const Value x = g.Input("x", DType::kF32, {64});
  const Value a = g.Name("a", Exp(x));
  const Value b = g.Name("b", Exp(a));
  const Value c = g.Name("c", Exp(b));
  g.Output("loss", ReduceSum(c, {0}));
  g.SetOrigin(Phase::kBackward, "b");
  const Value d = g.Name("d", Concat(std::vector<Value>{b, x}, 0));
  const Value e =
      g.Name("e", Concat(std::vector<Value>{a, Slice(d, 0, 0, 64)}, 0));
  g.Output("end", ReduceSum(e, {0}));
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

std::vector<std::string> NodesOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    names.push_back(graph.value(node.results[0]).name);
  }
  return names;
}

TEST_CASE("gaps lie between the last forward reader and later ones") {
  const Graph graph = Chain();
  const Simulation simulation(graph, {});
  const ValueId a = *graph.Find("a");
  const ValueId c = *graph.Find("c");
  CHECK(simulation.candidates().size() == 3);  // a, b, c; loss is an output
  REQUIRE(simulation.gaps_of(a).size() == 1);
  CHECK(simulation.gaps_of(a)[0].begin == 1);  // b
  CHECK(graph.value(*graph.Find("e")).producer == simulation.gaps_of(a)[0].end);
  CHECK(simulation.is_saved(a));
  CHECK(!simulation.is_saved(c));
  CHECK(!simulation.is_candidate(*graph.Find("d")));
  CHECK(!simulation.is_candidate(*graph.Find("x")));
}

TEST_CASE("a chain is made again in order, right before it is wanted") {
  const Graph graph = Chain();
  Simulation simulation(graph, {.in_place = false});
  std::vector<Fate> fates = simulation.AsGiven();
  REQUIRE(simulation.Run(fates));
  CHECK(simulation.nodes_again() == 0);
  const Bytes given = simulation.peak();

  // Both a and b are dropped; b wants a, which then stays for e.
  fates[simulation.first_gap(*graph.Find("a"))] = Fate::kRecomputed;
  fates[simulation.first_gap(*graph.Find("b"))] = Fate::kRecomputed;
  REQUIRE(simulation.Run(fates));
  CHECK(simulation.nodes_again() == 2);
  CHECK(simulation.extra_cost() == 2 * simulation.node_cost(0));
  CHECK(simulation.peak() <= given);
  const auto recomputed = Rewrite(graph, simulation);
  REQUIRE(recomputed.ok());
  const std::vector<std::string> nodes = NodesOf(*recomputed);
  CHECK(std::vector<std::string>(nodes.begin() + 4, nodes.begin() + 7) ==
        std::vector<std::string>{"a~recomputed", "b~recomputed", "d"});

  // Let go in between, a is made a third time for e.
  fates[simulation.first_gap(*graph.Find("a"))] = Fate::kRecomputedEachTime;
  REQUIRE(simulation.Run(fates));
  CHECK(simulation.nodes_again() == 3);
  CHECK(Rewrite(graph, simulation)->Find("a~recomputed2").has_value());
}

TEST_CASE("a value recomputed late stays from its stage on") {
  const Graph graph = Chain();
  Simulation simulation(graph, {.in_place = false});
  const ValueId a = *graph.Find("a");
  std::vector<Fate> fates = simulation.AsGiven();
  fates[simulation.first_gap(a)] = Fate::kRecomputedLate;
  fates[simulation.first_gap(*graph.Find("b"))] = Fate::kRecomputed;
  const auto nodes_again_from = [&](NodeId stage) {
    std::vector<NodeId> stages(static_cast<size_t>(graph.num_values()), 0);
    stages[static_cast<size_t>(a)] = stage;
    simulation.SetStaysFrom(stages);
    REQUIRE(simulation.Run(fates));
    return simulation.nodes_again();
  };
  // For d, b is recomputed of a. The copy of a stays for e if it was made late enough.
  const NodeId d = graph.value(*graph.Find("d")).producer;
  CHECK(nodes_again_from(0) == 2);
  CHECK(nodes_again_from(d) == 2);
  CHECK(nodes_again_from(d + 1) == 3);
}

TEST_CASE(
    "outputs that lie outside count nothing, nor keep what they replace") {
  GraphBuilder g("body");
  const Value x = g.Input("x", DType::kF32, {64});
  const Value a = Exp(x);
  const Value b = Exp(a);  // an output, alive to the end
  g.Output("b", b);
  g.Output("c", Exp(Exp(Concat(std::vector<Value>{b, x}, 0))));
  const Result<Graph> body = g.Finish();
  REQUIRE_MESSAGE(body.ok(), body.error().message);
  Simulation within(*body, {});
  Simulation outside(*body, {.outputs_outside = true});
  for (Simulation* const each : {&within, &outside}) {
    REQUIRE(each->Run(each->AsGiven()));
  }
  // b in the place of a, the concat of two slots, which the rest is written over.
  CHECK(within.peak() == 3 * 256);
  CHECK(outside.peak() == 2 * 256);
  CHECK(outside.live().back() == 0);
}

TEST_CASE("a script plays as the fates it came from") {
  const Graph graph = Chain();
  Simulation simulation(graph, {});
  std::vector<Fate> fates(simulation.gaps().size(), Fate::kRecomputedEachTime);
  REQUIRE(simulation.Run(fates));
  const Script script = simulation.script();
  const Bytes peak = simulation.peak();
  const auto graph_of_fates = Rewrite(graph, simulation);
  REQUIRE(simulation.Run(script));
  CHECK(simulation.peak() == peak);
  CHECK(Equal(*Rewrite(graph, simulation), *graph_of_fates));
  // A node cannot run again before it has run.
  CHECK(!simulation.Run(Script{{.stage = 0, .node = 1}}));
}

TEST_CASE("a script may run a node again in forward, and in a later phase") {
  const Graph graph = Chain();
  Simulation simulation(graph, {});
  // a, b, a, c, loss; then b before d.
  REQUIRE(
      simulation.Run(Script{{.stage = 2, .node = 0}, {.stage = 4, .node = 1}}));
  CHECK(simulation.nodes_again() == 2);
  std::vector<NodeId> nodes;
  for (const Simulation::Item& item : simulation.items()) {
    nodes.push_back(item.node);
  }
  nodes.resize(7);
  CHECK(nodes == std::vector<NodeId>{0, 1, 0, 2, 3, 1, 4});
  // The one before leaves nothing behind.
  REQUIRE(simulation.Run(Script{}));
  CHECK(simulation.nodes_again() == 0);
  CHECK(Equal(*Rewrite(graph, simulation), graph));
}

TEST_CASE("a node runs again until what it reads or made is updated") {
  const auto graph = ParseGraph(R"(stowage-ir 1
graph "g" {
  w: f32(64) = param
  m: f32(64) = host_state
  x: f32(64) = input
  lr: f32() = input
  a: f32(64) = mul(x, w)
  b: f32(64) = tanh(a)
  "b~offloaded": f32(64) = offload(b)
  "b~reloaded": f32(64) = reload("b~offloaded") @backward("b")
  dw: f32(64) gradient = mul(a, "b~reloaded") @backward("w")
  "m~reloaded": f32(64) = reload(m) @update("w")
  w2: f32(64), m2: f32(64) = momentum_update(w, "m~reloaded", dw, lr) {decay=0.0, momentum=0.5} @update("w")
  "m~offloaded": f32(64) = offload_update(m, m2) @update("w")
  output "dw" = dw
}
)");
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Simulation simulation(*graph, {});
  CHECK(!simulation.is_candidate(*graph->Find("b~offloaded")));
  const auto last_stage = [&](const char* name) {
    return simulation.last_stage(graph->value(*graph->Find(name)).producer);
  };
  CHECK(last_stage("a") == 6);  // which updates w
  CHECK(last_stage("b") == graph->num_nodes());
  CHECK(last_stage("dw") == graph->num_nodes());
  CHECK(last_stage("w2") == 6);
  // Copies run once, but for reloads of params and states, until these are updated.
  CHECK(last_stage("b~offloaded") == 2);
  CHECK(last_stage("b~reloaded") == 3);
  CHECK(last_stage("m~reloaded") == 6);
  CHECK(last_stage("m~offloaded") == 7);
}

// Of a kernel that wants what its first result takes, and a little more.
Bytes SomeScratch(const Graph& graph, const Node& node) {
  return node.op == OpKind::kMatMul
             ? graph.value(node.results[0]).type.bytes() + 8
             : 0;
}

// Some values of the step that may lie on the host, there.
Graph MoveSome(const Graph& step, testing::Rng& rng) {
  std::vector<Offloadable> moved = FindOffloadable(step);
  std::erase_if(moved, [&](const Offloadable&) { return rng.Below(2) == 0; });
  Result<Graph> graph = Offload(step, moved);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// How often a step was simulated, and how many nodes ran again in all.
struct Simulated {
  int runs = 0;
  int again = 0;
};

// By four scripts that `rng` chooses, or those of them that can be run.
void CheckWhatIsLive(const Graph& step, const SimulationOptions& options,
                     testing::Rng& rng, Simulated* simulated) {
  Simulation simulation(step, options);
  std::vector<Fate> fates(simulation.gaps().size());
  for (int part = 0; part < 4; ++part) {
    for (size_t k = 0; k < fates.size(); ++k) {
      const int64_t fate = rng.Below(2 + 2 * part);
      fates[k] = part == 0   ? simulation.AsGiven()[k]
                 : fate == 0 ? Fate::kRecomputed
                 : fate == 1 ? Fate::kRecomputedEachTime
                             : Fate::kKept;
    }
    if (!simulation.Run(fates)) continue;
    const auto rewritten = Rewrite(step, simulation);
    REQUIRE_MESSAGE(rewritten.ok(), rewritten.error().message);
    const auto plan =
        PlanMemory(*rewritten, {.alignment = options.alignment,
                                .in_place = options.in_place,
                                .device = {.workspace = options.workspace}});
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    const Bytes reserved = plan->arena_bytes() - plan->regions.span();
    CHECK(simulation.peak() == plan->lower_bound - reserved);
    ++simulated->runs;
    simulated->again += simulation.nodes_again();
  }
}

TEST_CASE("what is live is what the planner finds in the rewritten step") {
  Simulated simulated;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    testing::Rng rng(seed);
    Graph step = testing::MakeRandomStep(seed);
    if (seed % 3 == 0) step = MoveSome(step, rng);
    CheckWhatIsLive(step,
                    {.alignment = seed % 5 == 0 ? 64 : 256,
                     .in_place = seed % 4 != 0,
                     .workspace = SomeScratch},
                    rng, &simulated);
  }
  CHECK(simulated.runs > 300);
  CHECK(simulated.again > 1000);
}

Fate AnyFate(testing::Rng& rng) { return static_cast<Fate>(rng.Below(4)); }

// All that a run returns.
std::string Outcome(Simulation& simulation, const std::vector<Fate>& fates) {
  if (!simulation.Run(fates)) return "cannot run";
  std::string text = StrCat(simulation.peak(), " ", simulation.extra_cost(),
                            " ", simulation.nodes_again(), ":");
  for (const Bytes live : simulation.live()) text += StrCat(" ", live);
  for (const Rerun& rerun : simulation.script()) {
    text += StrCat(" ", rerun.stage, ".", rerun.node);
  }
  return text;
}

TEST_CASE("runs near a base find what runs from the start find") {
  int again = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    testing::Rng rng(seed);
    Graph step = testing::MakeRandomStep(seed);
    if (seed % 3 == 0) step = MoveSome(step, rng);
    const SimulationOptions options{.workspace = SomeScratch};
    Simulation whole(step, options), resumed(step, options);
    std::vector<NodeId> stages(Index(step.num_values()));
    for (NodeId& stage : stages) {
      stage = static_cast<NodeId>(rng.Below(step.num_nodes()));
    }
    whole.SetStaysFrom(stages);
    resumed.SetStaysFrom(stages);
    std::vector<Fate> base = whole.AsGiven();
    for (int bases = 0; bases < 3; ++bases) {
      resumed.RunBase(base);
      for (int k = 0; k < 8; ++k) {
        std::vector<Fate> trial = base;
        if (!trial.empty()) {
          const auto gaps = static_cast<int64_t>(trial.size());
          for (int64_t changes = rng.Below(3); changes >= 0; --changes) {
            trial[Index(rng.Below(gaps))] = AnyFate(rng);
          }
        }
        const std::string expected = Outcome(whole, trial);
        CHECK(Outcome(resumed, trial) == expected);
        again += whole.nodes_again();
      }
      for (Fate& fate : base) {
        if (rng.Below(2) == 0) fate = AnyFate(rng);
      }
    }
  }
  CHECK(again > 10000);
}

// Of sums over ranks, beside that of products.
Bytes ScratchOfRanks(const Graph& graph, const Node& node) {
  const bool sums =
      node.op == OpKind::kAllReduce || node.op == OpKind::kReduceScatter;
  return sums ? graph.value(node.inputs[0]).type.bytes() / 2
              : SomeScratch(graph, node);
}

TEST_CASE("what exchanges work on is live while they are under way") {
  const Graph whole = testing::TinyGpt(4), part = testing::TinyGpt(2);
  Simulated simulated;
  for (const Sharding shard : kShardings) {
    // A gradient a bucket, of which many are under way, and all in one.
    for (const Bytes bucket : {Bytes{1}, kBucketBytes}) {
      CAPTURE(ShardingName(shard));
      CAPTURE(bucket);
      const auto step =
          BuildRankStep(whole, part, {{&part}}, "loss",
                        {.ranks = 2, .shard = shard, .bucket_bytes = bucket});
      REQUIRE_MESSAGE(step.ok(), step.error().message);
      testing::Rng rng(static_cast<uint64_t>(bucket));
      CheckWhatIsLive(step->graph, {.workspace = ScratchOfRanks}, rng,
                      &simulated);
    }
  }
  CHECK(simulated.runs > 20);
  CHECK(simulated.again > 50);
}

TEST_CASE("a result may be written where the planner writes one") {
  int taken = 0, left = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    const Graph step = testing::MakeRandomStep(seed);
    const Simulation simulation(step, {});
    const Plan plan = *PlanMemory(step);
    const auto buffer_of = [&](ValueId id) {
      return plan.buffer_of[static_cast<size_t>(id)];
    };
    for (NodeId n = 0; n < step.num_nodes(); ++n) {
      const Node& node = step.node(n);
      if (simulation.is_view(n) || GetOpDef(node.op).updates > 0) continue;
      const int32_t result = buffer_of(node.results[0]);
      bool takes = false, could = false;
      for (const ValueId input : node.inputs) {
        const ValueId root = simulation.root(input);
        const PlannedBuffer& buffer =
            plan.buffers[static_cast<size_t>(buffer_of(root))];
        const bool may = simulation.may_take_over(n, root);
        if (buffer_of(root) == result) {
          CHECK(may);
          takes = true;
        }
        could |= may && buffer.region == Region::kActivations &&
                 buffer.upper == n + 1;
        left += !may;
      }
      taken += takes;
      // What dies there unused, is so because another was taken.
      if (could) CHECK(takes);
    }
  }
  CHECK(taken > 300);
  CHECK(left > 300);
}

}  // namespace
}  // namespace stowage::fit

// Placements in regions: what is counted as traffic, what is placed where, and what the verifier
// finds.

#include "planner/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "planner/stream.h"
#include "tests/support/instances.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/random_graph.h"

namespace stowage {
namespace {

using testing::Instances;

constexpr Bytes kHuge = 1 << 30;

Graph Finish(GraphBuilder& g) {
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

// With workspace of some nodes.
Plan PlanOf(const Graph& graph) {
  DeviceNeeds device;
  device.workspace = [](const Graph&, const Node& node) {
    return Bytes{node.op == OpKind::kMatMul ? 48 : 0};
  };
  auto plan = PlanMemory(graph, {.alignment = 16, .device = device});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  return std::move(*plan);
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> ViolationsOf(const Graph& graph, const Plan& plan,
                                      const Placement& placement) {
  const std::vector<ProgramPlan> programs = {{graph, plan}};
  return ValidatePlacement(programs, placement);
}

Result<Placement> Place(const Graph& graph, const Plan& plan,
                        const std::vector<MemoryRegion>& regions) {
  const std::vector<ProgramPlan> programs = {{graph, plan}};
  return PlaceInRegions(programs, regions);
}

Placement MustPlace(const Graph& graph, const Plan& plan,
                    const std::vector<MemoryRegion>& regions) {
  Result<Placement> placement = Place(graph, plan, regions);
  REQUIRE_MESSAGE(placement.ok(), placement.error().message);
  for (const auto& text : ViolationsOf(graph, plan, *placement)) {
    FAIL_CHECK(text);
  }
  return *std::move(placement);
}

PlacedBuffer PlaceOf(const Graph& graph, const Plan& plan,
                     const Placement& placement, const std::string& name) {
  const ValueId id = *graph.Find(name);
  return placement.programs[0]
      .buffers[static_cast<size_t>(plan.buffer_of[static_cast<size_t>(id)])];
}

// Two params: "hot" is read by four nodes, "cold" by one. Each is 64 bytes, as is x.
Graph HotAndCold() {
  GraphBuilder g("hot_and_cold");
  const Value x = g.Input("x", DType::kF32, {16});
  const Value cold = g.Param("cold", DType::kF32, {16});
  const Value hot = g.Param("hot", DType::kF32, {16});
  Value h = g.Name("h", Add(x, cold));
  for (int i = 0; i < 4; ++i) h = Mul(h, hot);
  g.Output("y", h);
  return Finish(g);
}

TEST_CASE("the buffer with the most traffic is in the fastest region") {
  const Graph graph = HotAndCold();
  const Plan plan = PlanOf(graph);
  // x, cold, hot, and one buffer for the chain, in place.
  REQUIRE(plan.arena_bytes() == 4 * 64);
  const Placement one = MustPlace(graph, plan, {{"fast", 64}, {"slow", kHuge}});
  // Five nodes read 2 x 64 and write 64. The chain is written 5 times and read 4 times.
  CHECK(one.traffic == 15 * 64);
  CHECK(PlaceOf(graph, plan, one, "h").region == 0);
  CHECK(one.use[0].traffic == 9 * 64);
  CHECK(one.use[0].bytes == 64);
  CHECK(one.use[1].bytes == 3 * 64);
  CHECK(one.fastest_bound >= 9 * 64);
  const Placement two =
      MustPlace(graph, plan, {{"fast", 128}, {"slow", kHuge}});
  CHECK(PlaceOf(graph, plan, two, "hot").region == 0);
  CHECK(PlaceOf(graph, plan, two, "cold").region == 1);
  CHECK(two.use[0].traffic == 13 * 64);
  CHECK(two.bytes() == 4 * 64);
  // The fastest first, whatever their sizes.
  const Placement three = MustPlace(
      graph, plan, {{"tightly_coupled", 64}, {"sram", 64}, {"psram", kHuge}});
  CHECK(PlaceOf(graph, plan, three, "h").region == 0);
  CHECK(PlaceOf(graph, plan, three, "hot").region == 1);
  CHECK(three.use[2].traffic == 2 * 64);
}

TEST_CASE("a single region has all traffic, and the bytes of a packing") {
  const Graph graph = testing::MakeRandomStep(3);
  const Plan plan = PlanOf(graph);
  const Placement placement = MustPlace(graph, plan, {{"sram", kHuge}});
  CHECK(placement.use[0].traffic == placement.traffic);
  CHECK(placement.fastest_bound == placement.traffic);
  CHECK(placement.bytes() >= plan.lower_bound - 16);
}

TEST_CASE("broadcast operands, gathers, workspace and views count as stated") {
  GraphBuilder g("counts");
  const Value x = g.Input("x", DType::kF32, {4, 8});  // 128 bytes
  const Value b = g.Param("b", DType::kF32, {8});     // 32
  const Value w = g.Param("w", DType::kF32, {8, 2});  // 64
  const Value table = g.Param("table", DType::kF32, {100, 2});
  const Value rows = g.Input("rows", DType::kI32, {4});  // 16
  const Value sum = Add(x, b);                           // 128
  const Value products = MatMul(sum, w);                 // 32
  const Value embedded = Gather(table, rows);            // 32
  g.Output("y", Add(products, embedded));                // 32
  const Graph graph = Finish(g);
  const Plan plan = PlanOf(graph);
  const Placement placement = MustPlace(graph, plan, {{"sram", kHuge}});
  // The sum: x, b and the result; the matmul with 48 bytes of workspace, written and read; the
  // gather with 4 rows of the table; the last sum.
  CHECK(placement.traffic == (128 + 32 + 128) + (128 + 64 + 32 + 2 * 48) +
                                 (32 + 16 + 32) + (32 + 32 + 32));
}

TEST_CASE("a loop counts each iteration, and its buffers are placed apart") {
  const auto loop = [](int64_t iterations) {
    GraphBuilder g("loop");
    const Value x = g.Input("x", DType::kF32, {16});
    const Value w = g.Param("w", DType::kF32, {16});
    const LoopResults run =
        Loop(g, iterations, {.carried = {x}, .whole = {w}}, [](LoopBody& body) {
          const Value inner = Add(body.carried(0), body.whole(0));
          body.Next(0, Mul(inner, body.carried(0)));
        });
    g.Output("y", run.carried[0]);
    return Finish(g);
  };
  // An iteration reads h, w, inner, h and writes inner and next, of 64 bytes each.
  for (const int64_t iterations : {1, 2, 5}) {
    CAPTURE(iterations);
    const Graph graph = loop(iterations);
    const Plan plan = PlanOf(graph);
    CHECK(MustPlace(graph, plan, {{"sram", kHuge}}).traffic ==
          doctest::Approx(6 * 64 * iterations));
  }
  // What is written and read has more traffic than "w", which is only read.
  const Graph graph = loop(5);
  const Plan plan = PlanOf(graph);
  const Placement placement =
      MustPlace(graph, plan, {{"fast", 64}, {"slow", kHuge}});
  CHECK(placement.use[0].bytes == 64);
  CHECK(placement.use[0].traffic >= 2 * 5 * 64);
}

// The buffers that are live at once and share bytes, by the events of a stream.
int SharedBytesIn(const std::vector<StreamEvent>& events) {
  std::map<std::pair<int, int32_t>, StreamPlace> live;  // by depth and buffer
  int shared = 0;
  for (const StreamEvent& event : events) {
    const auto key = std::pair(event.depth, event.buffer);
    if (event.kind == StreamEventKind::kKill) live.erase(key);
    if (event.kind != StreamEventKind::kAllocate) continue;
    const StreamPlace& place = event.place;
    if (place.region < 0 || place.on_host || !place.outside.empty()) continue;
    for (const auto& [other, at] : live) {
      shared += at.region == place.region &&
                at.address < place.address + place.bytes &&
                place.address < at.address + at.bytes;
    }
    live[key] = place;
  }
  return shared;
}

TEST_CASE("random steps and loops are placed in valid ways in any split") {
  for (uint64_t seed = 0; seed < Instances(16u); ++seed) {
    INFO("seed ", seed);
    const bool has_branches = seed % 4 == 1;
    const Graph graph =
        seed % 2 == 0 ? testing::MakeRandomStep(seed)
                      : testing::MakeRandomControlFlow(seed, has_branches);
    const Plan plan = PlanOf(graph);
    const Bytes bytes = plan.arena_bytes();
    for (const Bytes percent : {10, 40, 70}) {
      const Placement placement =
          MustPlace(graph, plan,
                    {{"fast", std::max<Bytes>(bytes * percent / 100, 1)},
                     {"slow", bytes}});
      // In a branch, an operand is killed by the name that it has in the body.
      if (!has_branches) {
        CHECK(SharedBytesIn(MakeStream(graph, plan, placement.programs[0])) ==
              0);
      }
      CHECK(placement.use[0].traffic <= placement.fastest_bound * (1 + 1e-9));
      CHECK(placement.use[0].traffic + placement.use[1].traffic ==
            doctest::Approx(placement.traffic));
    }
  }
}

TEST_CASE("regions that have hardly more than the live bytes are enough") {
  // Nine buffers of 64 bytes are live at once.
  GraphBuilder g("halves");
  Value h = g.Input("x", DType::kF32, {16});
  for (int i = 0; i < 7; ++i) {
    h = Add(h, g.Param(StrCat("w", i), DType::kF32, {16}));
  }
  g.Output("y", h);
  const Graph graph = Finish(g);
  const Plan plan = PlanOf(graph);
  const Bytes bytes = plan.arena_bytes();
  REQUIRE(bytes == 9 * 64);
  const Placement placement =
      MustPlace(graph, plan, {{"fast", 4 * 64}, {"slow", 5 * 64}});
  CHECK(placement.bytes() == bytes);
  const auto refused = Place(graph, plan, {{"fast", 4 * 64}, {"slow", 4 * 64}});
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
  CHECK_MESSAGE(Contains(refused.error().message, "576 bytes are live at once"),
                refused.error().message);
  CHECK(Contains(refused.error().message, "fast 256 and slow 256 bytes"));
}

TEST_CASE("programs share params and states, and everything else") {
  const Graph step = testing::MakeRandomStep(5);
  const Plan plan = PlanOf(step);
  GraphBuilder g("other");
  const std::vector<ValueId> params = step.Leaves(Role::kParam);
  REQUIRE(!params.empty());
  const ValueInfo& first = step.value(params[0]);
  const Value w = g.Param(first.name, first.type.dtype, first.type.shape);
  g.Output("y", Neg(w));
  const Graph other = Finish(g);
  const Plan other_plan = PlanOf(other);
  const std::vector<ProgramPlan> programs = {{step, plan}, {other, other_plan}};
  const Bytes bytes = plan.arena_bytes();
  Result<Placement> placement =
      PlaceInRegions(programs, {{"fast", bytes / 3}, {"slow", bytes}});
  REQUIRE_MESSAGE(placement.ok(), placement.error().message);
  CHECK(ValidatePlacement(programs, *placement).empty());
  // The other program runs while nothing else of the step is live.
  CHECK(placement->bytes() <= bytes + bytes / 3);
  Placement moved = *placement;
  const int32_t at =
      other_plan.buffer_of[static_cast<size_t>(*other.Find(first.name))];
  moved.programs[1].buffers[static_cast<size_t>(at)].offset += 16;
  const auto violations = ValidatePlacement(programs, moved);
  REQUIRE(!violations.empty());
  CHECK(Contains(violations[0], "is not where the step has it"));

  GraphBuilder s("stranger");
  s.Output("y", Neg(s.Param("stranger", DType::kF32, {4})));
  const Graph stranger = Finish(s);
  const Plan stranger_plan = PlanOf(stranger);
  const std::vector<ProgramPlan> strangers = {{step, plan},
                                              {stranger, stranger_plan}};
  const auto refused = PlaceInRegions(strangers, {{"sram", kHuge}});
  REQUIRE(!refused.ok());
  CHECK(Contains(refused.error().message, "\"stranger\""));
}

TEST_CASE("the verifier finds each kind of violation") {
  const Graph graph = HotAndCold();
  const Plan plan = PlanOf(graph);
  const Placement good = MustPlace(graph, plan, {{"fast", 128}, {"slow", 512}});
  const auto buffer_of = [&](const std::string& name) {
    return static_cast<size_t>(
        plan.buffer_of[static_cast<size_t>(*graph.Find(name))]);
  };
  const auto finds = [&](const Placement& placement, const std::string& part) {
    const auto violations = ViolationsOf(graph, plan, placement);
    REQUIRE(!violations.empty());
    CHECK_MESSAGE(Contains(violations[0], part), violations[0]);
  };
  Placement bad = good;
  bad.programs[0].buffers[buffer_of("x")] =
      bad.programs[0].buffers[buffer_of("cold")];
  finds(bad, "is placed over the live buffer");
  bad = good;
  bad.programs[0].buffers[buffer_of("cold")].offset = 512 - 48;
  finds(bad, "is outside of region \"slow\" of 512 bytes");
  bad.programs[0].buffers[buffer_of("cold")].offset = 264;
  finds(bad, "is not aligned to 16");
  bad.programs[0].buffers[buffer_of("cold")].region = PlacedBuffer::kNowhere;
  finds(bad, "is in no region");
  bad.programs[0].buffers[buffer_of("cold")].region = 2;
  finds(bad, "is in no region");
  bad.programs[0].buffers.pop_back();
  finds(bad, "is for another plan");
  bad.programs.clear();
  finds(bad, "of 0 programs");
}

TEST_CASE("what cannot be placed is refused with the actual values") {
  const Graph graph = HotAndCold();
  const Plan plan = PlanOf(graph);
  struct Refused {
    std::vector<MemoryRegion> regions;
    ErrorCode code;
    std::string part;
  };
  for (const Refused& each : std::vector<Refused>{
           {{}, ErrorCode::kInvalidArgument, "no region"},
           {{{"", 64}}, ErrorCode::kInvalidArgument, "name \"\""},
           {{{"a", 64}, {"a", 640}}, ErrorCode::kInvalidArgument, "\"a\""},
           {{{"a", 64}, {"b", 0}}, ErrorCode::kInvalidArgument, "has 0 bytes"},
           {{{"a", 60}, {"b", 63}},
            ErrorCode::kBudgetTooSmall,
            "of 64 bytes is larger than every region: a 60 and b 63 bytes"},
           {{{"a", 64}, {"b", 64}, {"c", 64}},
            ErrorCode::kBudgetTooSmall,
            "a 64, b 64 and c 64 bytes"},
           // Enough in sum, but no buffer can be in two regions.
           {{{"a", 96}, {"b", 96}, {"c", 96}},
            ErrorCode::kBudgetTooSmall,
            "a 96, b 96 and c 96 bytes"}}) {
    const auto refused = Place(graph, plan, each.regions);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == each.code);
    CHECK_MESSAGE(Contains(refused.error().message, each.part),
                  refused.error().message);
  }
  const std::vector<ProgramPlan> none;
  CHECK(!PlaceInRegions(none, {{"a", 64}}).ok());
}

}  // namespace
}  // namespace stowage

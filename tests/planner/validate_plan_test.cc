#include "planner/validate_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "tests/support/random_graph.h"

namespace stowage {
namespace {

using fit::FindOffloadable;
using fit::Offload;
using testing::MakeRandomStep;
using testing::Rng;

// Half of them keep all they can on the host.
Graph StepOf(uint64_t seed) {
  Graph step = MakeRandomStep(seed);
  if (seed % 2 == 0) return step;
  auto moved = Offload(step, FindOffloadable(step));
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  return std::move(*moved);
}

// Scratch for some nodes, so that workspace slots are judged too.
Bytes SomeScratch(const Graph& graph, const Node& node) {
  return node.op == OpKind::kMatMul || node.op == OpKind::kLayerNormGrad
             ? graph.value(node.results[0]).type.bytes() / 2 + 4
             : 0;
}

TEST_CASE("good plans of random training steps are accepted") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed ", seed);
    const Graph step = StepOf(seed);
    for (const Packer packer : {Packer::kLinear, Packer::kGreedy}) {
      const auto plan = PlanMemory(
          step, {.packer = packer, .device = {.workspace = SomeScratch}});
      REQUIRE_MESSAGE(plan.ok(), plan.error().message);
      for (const std::string& text : ValidatePlan(step, *plan)) {
        FAIL_CHECK(text);
      }
    }
  }
}

// The same judgement, done the naive way: one owner for every single byte, and
// sharing with an operand allowed only where the good plan shares too.
class NaiveJudge {
 public:
  NaiveJudge(const Graph& graph, const Plan& good)
      : graph_(graph), good_(good), layouts_(ComputeLayouts(graph)) {}

  bool Accepts(const Plan& plan) {
    if (plan.fingerprint != good_.fingerprint ||
        plan.buffer_of.size() != good_.buffer_of.size() ||
        plan.workspace_of.size() != good_.workspace_of.size() ||
        plan.alignment < 1) {
      return false;
    }
    plan_ = &plan;
    const RegionBytes& r = plan.regions;
    if (std::min({r.weights, r.state, r.io, r.activations, r.workspace,
                  r.host_state, r.host_offload}) < 0) {
      return false;
    }
    for (const PlannedBuffer& b : plan.buffers) {
      const Bytes sizes[] = {r.weights, r.state,      r.io,          r.span(),
                             r.span(),  r.host_state, r.host_offload};
      if (b.offset < 0 || b.size < 0 ||
          b.offset + b.size > sizes[static_cast<size_t>(b.region)] ||
          plan.AddressOf(b) % plan.alignment != 0 ||
          b.offset % plan.alignment != 0) {
        return false;
      }
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const auto v = static_cast<size_t>(id);
      const ValueId root = layouts_[v].root;
      const int32_t b = plan.buffer_of[v];
      if (b < 0 || b >= static_cast<int32_t>(plan.buffers.size()) ||
          b != plan.buffer_of[static_cast<size_t>(root)]) {
        return false;
      }
      if (root != id) continue;
      const PlannedBuffer& slot = plan.buffers[static_cast<size_t>(b)];
      const PlannedBuffer& was =
          good_.buffers[static_cast<size_t>(good_.buffer_of[v])];
      if (slot.region != was.region ||
          slot.size < graph_.value(id).type.bytes()) {
        return false;
      }
    }
    return Run();
  }

 private:
  struct Span {
    Bytes begin, end;
  };
  // The host's bytes stand behind the arena's here.
  Bytes AddressOf(const PlannedBuffer& b) const {
    return plan_->AddressOf(b) +
           (b.region >= Region::kHostState ? plan_->arena_bytes() : 0);
  }
  Span SpanOf(ValueId id) const {
    const auto v = static_cast<size_t>(id);
    const TensorType& type = graph_.value(id).type;
    Bytes last = 0;
    for (int i = 0; i < type.shape.rank(); ++i) {
      last += (type.shape[i] - 1) * layouts_[v].strides[i];
    }
    const Bytes begin =
        AddressOf(plan_->buffers[static_cast<size_t>(plan_->buffer_of[v])]) +
        layouts_[v].byte_offset;
    return {begin, begin + (last + 1) * SizeOf(type.dtype)};
  }
  bool Lives(ValueId id, Time time) const {
    const PlannedBuffer& b = plan_->buffers[static_cast<size_t>(
        plan_->buffer_of[static_cast<size_t>(id)])];
    return b.lower <= time && time < b.upper;
  }
  bool Reads(const std::vector<ValueId>& bytes, ValueId id, Time time) const {
    const Span span = SpanOf(id);
    for (Bytes i = span.begin; i < span.end; ++i) {
      if (bytes[static_cast<size_t>(i)] !=
          layouts_[static_cast<size_t>(id)].root) {
        return false;
      }
    }
    return Lives(id, time);
  }

  bool Run() const {
    std::vector<ValueId> bytes(
        static_cast<size_t>(plan_->arena_bytes() + plan_->host_bytes()), -1);
    const auto write = [&](Span span, ValueId owner) {
      for (Bytes i = span.begin; i < span.end; ++i) {
        bytes[static_cast<size_t>(i)] = owner;
      }
    };
    Span reserve{0, 0};
    if (plan_->reserve != -1) {
      if (plan_->reserve < 0 ||
          plan_->reserve >= static_cast<int32_t>(plan_->buffers.size())) {
        return false;
      }
      const PlannedBuffer& b =
          plan_->buffers[static_cast<size_t>(plan_->reserve)];
      if (b.region != Region::kIo || b.lower > 0 ||
          b.upper <= graph_.num_nodes()) {
        return false;
      }
      reserve = {AddressOf(b), AddressOf(b) + b.size};
      write(reserve, -2);
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (graph_.value(id).is_leaf()) write(SpanOf(id), id);
    }
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      const Node& node = graph_.node(n);
      const OpDef& def = GetOpDef(node.op);
      for (const ValueId input : node.inputs) {
        if (def.is_view() ? !Lives(input, n) : !Reads(bytes, input, n)) {
          return false;
        }
      }
      for (const ValueId result : node.results) {
        if (!Lives(result, n)) return false;
      }
      const int32_t w = plan_->workspace_of[static_cast<size_t>(n)];
      if (w < -1 || w >= static_cast<int32_t>(plan_->buffers.size()) ||
          (w >= 0 && plan_->buffers[static_cast<size_t>(w)].region !=
                         Region::kWorkspace)) {
        return false;
      }
      if (w >= 0 && (plan_->buffers[static_cast<size_t>(w)].lower > n ||
                     plan_->buffers[static_cast<size_t>(w)].upper <= n)) {
        return false;
      }
      if (def.is_view()) continue;
      std::vector<Span> written;
      for (const ValueId result : node.results) {
        written.push_back(SpanOf(result));
      }
      if (w >= 0) {
        const PlannedBuffer& b = plan_->buffers[static_cast<size_t>(w)];
        written.push_back({AddressOf(b), AddressOf(b) + b.size});
      }
      const auto overlap = [](Span a, Span b) {
        return a.begin < b.end && b.begin < a.end;
      };
      for (size_t i = 0; i < written.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          if (overlap(written[i], written[j])) return false;
        }
        for (const ValueId input : node.inputs) {
          if (!overlap(written[i], SpanOf(input))) continue;
          // Only result 0 (or an update's results) over what the good plan put
          // there as well, and exactly over it.
          if (i >= node.results.size()) return false;
          const auto result = static_cast<size_t>(node.results[i]);
          if (good_.buffer_of[result] !=
                  good_.buffer_of[static_cast<size_t>(input)] ||
              SpanOf(input).begin != written[i].begin) {
            return false;
          }
        }
      }
      for (size_t i = 0; i < written.size(); ++i) {
        write(written[i],
              i < node.results.size()
                  ? layouts_[static_cast<size_t>(node.results[i])].root
                  : -1);
      }
    }
    const Time end = graph_.num_nodes();
    for (const GraphOutput& output : graph_.outputs()) {
      if (!Reads(bytes, output.value, end)) return false;
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueInfo& value = graph_.value(id);
      if (!value.is_leaf()) continue;
      if (!Lives(id, 0)) return false;
      if (value.role != Role::kSaved && !Reads(bytes, id, end)) return false;
    }
    for (Bytes i = reserve.begin; i < reserve.end; ++i) {
      if (bytes[static_cast<size_t>(i)] != -2) return false;
    }
    return true;
  }

  const Graph& graph_;
  const Plan& good_;
  Layouts layouts_;
  const Plan* plan_ = nullptr;
};

// Changes one thing about a plan; says what.
std::string Corrupt(Plan* plan, Rng* rng) {
  const auto index = [&](size_t size) {
    return static_cast<size_t>(rng->Below(static_cast<int64_t>(size)));
  };
  PlannedBuffer& buffer = plan->buffers[index(plan->buffers.size())];
  switch (rng->Below(13)) {
    case 0:
    case 1:
    case 2:
      buffer.offset += plan->alignment * (rng->Below(9) - 4);
      return StrCat("moved ", buffer.name, " by slots");
    case 3:
      buffer.offset = plan->alignment * rng->Below(40);
      return StrCat("moved ", buffer.name, " anywhere");
    case 4:
      buffer.offset += rng->Below(512) - 256;
      return StrCat("moved ", buffer.name, " by bytes");
    case 5:
      buffer.region = static_cast<Region>(rng->Below(7));
      return StrCat("moved ", buffer.name, " to another region");
    case 6:
      buffer.size = rng->Below(buffer.size + 8);
      return StrCat("resized ", buffer.name);
    case 7:
      plan->buffer_of[index(plan->buffer_of.size())] = static_cast<int32_t>(
          rng->Below(static_cast<int64_t>(plan->buffers.size()) + 2) - 1);
      return "redirected a value";
    case 8:
      plan->workspace_of[index(plan->workspace_of.size())] =
          static_cast<int32_t>(index(plan->buffers.size()));
      return "redirected a node's scratch";
    case 9: {
      Bytes* const parts[] = {
          &plan->regions.weights,     &plan->regions.state,
          &plan->regions.io,          &plan->regions.activations,
          &plan->regions.workspace,   &plan->regions.host_state,
          &plan->regions.host_offload};
      *parts[rng->Below(7)] -= plan->alignment * (1 + rng->Below(2));
      return "shrank a region";
    }
    case 10:
      plan->reserve = static_cast<int32_t>(
          rng->Below(static_cast<int64_t>(plan->buffers.size()) + 3) - 2);
      return "redirected the backend's reserve";
    case 11:
      (rng->Below(2) == 0 ? buffer.lower : buffer.upper) += rng->Below(5) - 2;
      return StrCat("changed the lifetime of ", buffer.name);
    default: {
      PlannedBuffer& other = plan->buffers[index(plan->buffers.size())];
      std::swap(buffer.offset, other.offset);
      return StrCat("swapped ", buffer.name, " and ", other.name);
    }
  }
}

TEST_CASE(
    "1,000 corrupted plans are judged as a byte-by-byte run judges them") {
  int refused = 0, harmless = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Graph step = StepOf(seed);
    const auto good = PlanMemory(
        step, {.device = {
                   .workspace = SomeScratch,
                   .reserve = [](const Graph&, Bytes) { return Bytes{300}; }}});
    REQUIRE(good.ok());
    NaiveJudge naive(step, *good);
    REQUIRE(naive.Accepts(*good));
    Rng rng(seed + 1000);
    for (int i = 0; i < 50; ++i) {
      Plan plan = *good;
      std::string what = Corrupt(&plan, &rng);
      if (rng.Below(4) == 0) what += " and " + Corrupt(&plan, &rng);
      INFO("seed ", seed, " corruption ", i, ": ", what);
      const bool accepted = ValidatePlan(step, plan).empty();
      CHECK(accepted == naive.Accepts(plan));
      ++(accepted ? harmless : refused);
    }
  }
  INFO("refused ", refused, ", harmless ", harmless);
  CHECK(refused > 600);  // most ways to break a plan do break it
  CHECK(harmless > 0);   // and the judge does not cry wolf
}

TEST_CASE("complaints name the values and the time") {
  GraphBuilder g("g");
  Value x = g.Input("x", DType::kF32, {64});
  Value a = g.Name("a", Concat(std::vector{x, x}, 0));
  Value b = g.Name("b", Concat(std::vector{x, x}, 0));
  g.Output("out", Add(a, b));
  const Graph graph = *g.Finish();
  const Plan good = *PlanMemory(graph, {.in_place = false});
  const auto slot = [&](Plan& plan, std::string_view name) -> PlannedBuffer& {
    return plan.buffers[static_cast<size_t>(
        plan.buffer_of[static_cast<size_t>(*graph.Find(name))])];
  };
  const auto first_complaint = [&](const Plan& plan) {
    const auto texts = ValidatePlan(graph, plan);
    REQUIRE_FALSE(texts.empty());
    return texts.front();
  };
  SUBCASE("overwritten") {
    Plan plan = good;
    slot(plan, "b").offset = slot(plan, "a").offset;
    CHECK(first_complaint(plan) ==
          "[validate] \"a\" is read at time 2 (\"out\") where \"b\" was "
          "written since");
  }
  SUBCASE("an input on what the backend keeps") {
    Plan plan =
        *PlanMemory(graph, {.device = {.reserve = [](const Graph&, Bytes) {
                              return Bytes{512};
                            }}});
    CHECK(ValidatePlan(graph, plan).empty());
    slot(plan, "x").offset = 256;
    CHECK(first_complaint(plan) ==
          "[validate] the backend's reserve is overwritten by \"x\"");
  }
  SUBCASE("misaligned") {
    Plan plan = good;
    plan.regions.activations += 512;
    slot(plan, "b").offset += 4;
    CHECK(first_complaint(plan).find("is not aligned to 256") !=
          std::string::npos);
  }
  SUBCASE("regions beyond 64 bits") {
    Plan plan = good;
    plan.regions.weights = int64_t{1} << 62;
    plan.regions.state = int64_t{1} << 62;
    CHECK(first_complaint(plan) ==
          "[validate] the regions are of 4611686018427387904, "
          "4611686018427387904, 256, 1536 and 0 bytes, and of 0 and 0 on the "
          "host, the alignment is 256; expected sizes of at least 0 whose sum "
          "fits 64 bits and an alignment of at least 1");
  }
  SUBCASE("another graph's plan") {
    Plan plan = good;
    plan.fingerprint ^= 1;
    CHECK(first_complaint(plan).find("made for another graph") !=
          std::string::npos);
  }
  SUBCASE("a host slot that is not on the host, and one that is taken") {
    GraphBuilder h("h");
    Value state = h.HostState("state", DType::kF32, {64});
    Value in = h.Input("in", DType::kF32, {64});
    Value kept = h.Name("kept", Offload(in));
    Value other = h.Name("other", Offload(in));
    const Value first = Reload(kept), second = Reload(other);
    h.Output("sum", Add(Add(first, second), Reload(state)));
    const Graph moved = *h.Finish();
    const Plan right = *PlanMemory(moved);
    CHECK(ValidatePlan(moved, right).empty());
    CHECK(right.regions.host_state == 256);
    CHECK(right.regions.host_offload == 512);
    const auto complaint_of = [&](auto damage) {
      Plan plan = right;
      damage(plan, [&](std::string_view name) -> PlannedBuffer& {
        return plan.buffers[static_cast<size_t>(
            plan.buffer_of[static_cast<size_t>(*moved.Find(name))])];
      });
      const auto texts = ValidatePlan(moved, plan);
      return texts.empty() ? std::string() : texts.front();
    };
    CHECK(
        complaint_of([](Plan&, auto slot_of) {
          slot_of("other").offset = slot_of("kept").offset;
        }) ==
        "[validate] \"kept\" is read at time 2 (\"reload_1\") where \"other\" "
        "was written since");
    CHECK(complaint_of([](Plan& plan, auto slot_of) {
            slot_of("state").region = Region::kState;
            plan.regions.state = 256;
          }) ==
          "[validate] \"state\" is in region state, it belongs in host_state");
    CHECK(complaint_of([](Plan& plan, auto) {
            plan.regions.host_offload = 256;
          }).find("is outside its region host_offload of 256 bytes") !=
          std::string::npos);
  }
  SUBCASE("a stated lifetime that is too short") {
    Plan plan = good;
    slot(plan, "a").upper = 2;
    CHECK(first_complaint(plan) ==
          "[validate] \"a\" is used at time 2, its slot is stated to live in "
          "[0, 2)");
  }
}

}  // namespace
}  // namespace stowage

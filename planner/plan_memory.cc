#include "planner/plan_memory.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/op_def.h"
#include "ir/uses.h"
#include "planner/packing/validate.h"
#include "planner/plan.h"

namespace stowage {

namespace {

// Behind the last node, when the caller has read the results.
Time EndOf(const Plan& plan) {
  return static_cast<Time>(plan.workspace_of.size()) + 1;
}

bool IsSlotOutside(const PlannedBuffer& buffer) {
  return buffer.region == Region::kOutside && buffer.within < 0;
}

// A slot outside, with the time in which it holds nothing.
struct Hole {
  int32_t slot = -1;
  Time lower = 0;
  Time upper = 0;
  std::vector<int32_t> filled_with = {};
};

// The lowest offset at which the hole has room for `buffer`, if any.
std::optional<Bytes> RoomIn(const Plan& plan, const Hole& hole,
                            const PlannedBuffer& buffer) {
  if (buffer.lower < hole.lower || hole.upper < buffer.upper) {
    return std::nullopt;
  }
  std::vector<const PlannedBuffer*> beside;  // by rising offset
  for (const int32_t index : hole.filled_with) {
    const PlannedBuffer& other = plan.buffers[Index(index)];
    if (other.lower < buffer.upper && buffer.lower < other.upper) {
      beside.push_back(&other);
    }
  }
  std::ranges::sort(beside, {}, &PlannedBuffer::offset);
  Bytes offset = 0;
  for (const PlannedBuffer* other : beside) {
    if (offset + buffer.size <= other->offset) break;
    offset =
        std::max(offset, AlignUp(other->offset + other->size, plan.alignment));
  }
  const Bytes room = plan.buffers[Index(hole.slot)].size;
  if (offset > room - buffer.size) return std::nullopt;
  return offset;
}

}  // namespace

bool IsDyingOperand(const Plan& plan, const PlannedBuffer& buffer) {
  return IsSlotOutside(buffer) && buffer.upper < EndOf(plan);
}

void PlaceInHoles(Plan* plan) {
  std::vector<Hole> holes;
  std::vector<int32_t> buffers;
  for (size_t i = 0; i < plan->buffers.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    const PlannedBuffer& buffer = plan->buffers[i];
    if (IsDyingOperand(*plan, buffer)) {
      holes.push_back(
          {.slot = index, .lower = buffer.upper, .upper = EndOf(*plan)});
    } else if (IsSlotOutside(buffer)) {
      holes.push_back({.slot = index, .lower = 0, .upper = buffer.lower});
    }
    if (buffer.region == Region::kActivations) buffers.push_back(index);
  }
  const auto size = [&](int32_t index) {
    return plan->buffers[Index(index)].size;
  };
  std::ranges::stable_sort(holes, {},
                           [&](const Hole& hole) { return size(hole.slot); });
  std::ranges::stable_sort(buffers, std::greater<>(), size);
  for (const int32_t index : buffers) {
    PlannedBuffer& buffer = plan->buffers[Index(index)];
    for (Hole& hole : holes) {
      const std::optional<Bytes> offset = RoomIn(*plan, hole, buffer);
      if (!offset) continue;
      buffer.region = Region::kOutside;
      buffer.within = hole.slot;
      buffer.offset = *offset;
      hole.filled_with.push_back(index);
      break;
    }
  }
}

namespace {

// Whether `output` can be made where `leaf` lies: nothing reads the leaf once
// something has been written to the output's buffer.
bool CanShare(const Graph& body, const Uses& uses, const Lifetimes& lifetimes,
              bool in_place, ValueId leaf, ValueId output) {
  const int32_t buffer = lifetimes.buffer_of[Index(output)];
  const Time first = lifetimes.buffers[Index(buffer)].lower;
  const NodeId last_use = uses.last_use(leaf);
  if (last_use < first) return true;
  if (last_use > first || !in_place) return false;
  const Node& node = body.node(static_cast<NodeId>(first));
  return lifetimes.buffer_of[Index(node.results[0])] == buffer &&
         InPlace(body, lifetimes.layouts, node)
             .MayTakeOver(lifetimes.layouts, node, leaf);
}

// Where `output` has taken over what another operand of its node lay in, and could have
// taken over `leaf` as well: leaves the former to what was there, and gives the output
// a buffer that begins with it. A sum then lies where the sum so far does, rather than
// where the latest addend was.
void PreferLeaf(const Graph& body, const Uses& uses, ValueId leaf,
                ValueId output, Lifetimes* lifetimes) {
  const auto index = Index(lifetimes->buffer_of[Index(output)]);
  const NodeId producer = body.value(output).producer;
  const Node& node = body.node(producer);
  if (lifetimes->buffers[index].lower == producer ||
      node.results[0] != output || uses.last_use(leaf) != producer ||
      !InPlace(body, lifetimes->layouts, node)
           .MayTakeOver(lifetimes->layouts, node, leaf)) {
    return;
  }
  LiveBuffer own = lifetimes->buffers[index];
  own.name = body.value(output).name;
  own.lower = producer;
  own.size = body.value(output).type.bytes();
  lifetimes->buffers[index].upper = producer + 1;
  const auto moved = static_cast<int32_t>(lifetimes->buffers.size());
  lifetimes->buffers.push_back(std::move(own));
  for (ValueId id = 0; id < body.num_values(); ++id) {
    if (lifetimes->layouts[Index(id)].root == output) {
      lifetimes->buffer_of[Index(id)] = moved;
    }
  }
}

// Takes out the buffers that no value is in any more.
void DropUnused(Lifetimes* lifetimes) {
  std::vector<bool> used(lifetimes->buffers.size(), false);
  const auto each_index = [&](const auto& visit) {
    for (int32_t& index : lifetimes->buffer_of) visit(index);
    for (int32_t& index : lifetimes->workspace_of) {
      if (index >= 0) visit(index);
    }
  };
  each_index([&](int32_t& index) { used[Index(index)] = true; });
  std::vector<int32_t> moved;
  std::vector<LiveBuffer> buffers;
  for (size_t i = 0; i < used.size(); ++i) {
    moved.push_back(static_cast<int32_t>(buffers.size()));
    if (used[i]) buffers.push_back(std::move(lifetimes->buffers[i]));
  }
  each_index([&](int32_t& index) { index = moved[Index(index)]; });
  lifetimes->buffers = std::move(buffers);
}

}  // namespace

std::vector<int32_t> MoveOutside(const Graph& body, const Node& node,
                                 bool in_place, Lifetimes* lifetimes) {
  const std::vector<ValueId> leaves = LeavesOf(body);
  const Time end = body.num_nodes() + 1;
  std::vector<int32_t> second_of;
  if (node.op == OpKind::kLoop) {
    const LoopParts loop = PartsOfLoop(node);
    const Uses uses(body, lifetimes->layouts);
    second_of.assign(loop.handed_on(), -1);
    for (size_t i = 0; i < loop.handed_on(); ++i) {
      const ValueId leaf = leaves[loop.leaf_of(i)];
      const ValueId output = body.outputs()[i].value;
      if (in_place) PreferLeaf(body, uses, leaf, output, lifetimes);
      if (CanShare(body, uses, *lifetimes, in_place, leaf, output)) {
        const int32_t from = lifetimes->buffer_of[Index(output)];
        for (int32_t& index : lifetimes->buffer_of) {
          if (index == from) index = lifetimes->buffer_of[Index(leaf)];
        }
      } else if (loop.iterations > 1 || i >= loop.carried) {
        second_of[i] = 0;
      }
    }
  }
  DropUnused(lifetimes);
  const auto move = [&](ValueId id) {
    LiveBuffer& buffer =
        lifetimes->buffers[Index(lifetimes->buffer_of[Index(id)])];
    const bool is_leaf = body.value(id).is_leaf();
    const bool dies = is_leaf && buffer.region == Region::kActivations;
    buffer.region = Region::kOutside;
    if (is_leaf || node.op == OpKind::kLoop) buffer.lower = 0;
    if (!dies) buffer.upper = end;
  };
  for (const ValueId leaf : leaves) move(leaf);
  for (const GraphOutput& output : body.outputs()) move(output.value);
  for (size_t i = 0; i < second_of.size(); ++i) {
    if (second_of[i] < 0) continue;
    second_of[i] = static_cast<int32_t>(lifetimes->buffers.size());
    const ValueInfo& value = body.value(body.outputs()[i].value);
    lifetimes->buffers.push_back(
        {StrCat("second place of ", Quoted(value.name)), Region::kIo, 0, end,
         value.type.bytes()});
  }
  return second_of;
}

namespace {

// Lays the leaves of one role, those on the host or those in the arena, one after
// the other, or where `given` has them. Returns the region's bytes.
Result<Bytes> LayOutLeaves(
    const Graph& graph, Role role, bool on_host, Bytes alignment,
    const std::unordered_map<std::string, WeightLayout::Slot>* given,
    Bytes given_bytes, Plan* plan, Bytes begin = 0) {
  Bytes end = begin;
  for (const ValueId id : graph.Leaves(role)) {
    const ValueInfo& value = graph.value(id);
    if (value.on_host != on_host) continue;
    PlannedBuffer& buffer = plan->buffers[static_cast<size_t>(
        plan->buffer_of[static_cast<size_t>(id)])];
    if (buffer.region == Region::kOutside) continue;
    if (given == nullptr) {
      buffer.offset = end;
      end += AlignUp(buffer.size, alignment);
      continue;
    }
    const auto slot = given->find(value.name);
    if (slot == given->end()) {
      return InvalidArgumentError(
          "[plan] the weight layout has no ", RoleName(role), " ",
          Quoted(value.name), " of ", value.type.ToString(),
          "; it must come from a plan of the same model");
    }
    if (slot->second.type != value.type) {
      return InvalidArgumentError(
          "[plan] ", RoleName(role), " ", Quoted(value.name), " is ",
          value.type.ToString(), " here and ", slot->second.type.ToString(),
          " in the weight layout; they must be equal");
    }
    buffer.offset = slot->second.offset;
  }
  return given == nullptr ? end : given_bytes;
}

bool HasParamsOnHost(const Graph& graph) {
  return std::ranges::any_of(graph.Leaves(Role::kParam), [&](ValueId id) {
    return graph.value(id).on_host;
  });
}

// Moves the params of `outside` out of the arena, where nothing may write.
Status MoveConstantsOutside(const Graph& graph,
                            const std::set<std::string>& outside,
                            Lifetimes* lifetimes) {
  if (outside.empty()) return {};
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const ValueInfo& param = graph.value(id);
    if (!outside.contains(param.name)) continue;
    if (param.on_host) {
      return InvalidArgumentError("[plan] param ", Quoted(param.name),
                                  " is outside of the arena, and the graph has "
                                  "it on the host; keep it in one of them");
    }
    lifetimes->buffers[Index(lifetimes->buffer_of[Index(id)])].region =
        Region::kOutside;
  }
  const Layouts& layouts = lifetimes->layouts;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    for (size_t r = 0; r < Index(GetOpDef(node.op).updates); ++r) {
      const ValueInfo& param = graph.value(layouts[Index(node.inputs[r])].root);
      if (param.role != Role::kParam || !outside.contains(param.name)) continue;
      return InvalidArgumentError("[plan] param ", Quoted(param.name),
                                  " is outside of the arena, and ",
                                  graph.Describe(id),
                                  " updates it; only params that no node "
                                  "updates may be there");
    }
  }
  return {};
}

// Everything that the figures are sums of must fit 64 bits with room to spare:
// what is reserved by `weights`, if given, every value that is no view, though
// several may take turns in one buffer, scratch, and what `bodies` keep on the host.
Status CheckSums(const Graph& graph, const Lifetimes& lifetimes,
                 std::span<const BodyPlan> bodies,
                 const std::optional<WeightLayout>& weights, Bytes alignment) {
  std::optional<Bytes> sum = 0;
  const auto add = [&](std::string_view name, Bytes bytes) -> Status {
    if (sum) sum = CheckedAdd(*sum, bytes);
    if (sum) sum = CheckedAdd(*sum, alignment);
    if (sum) return {};
    return InvalidArgumentError(
        "[plan] the sum of all buffers does not fit 64 bits at ", Quoted(name),
        " of ", bytes, " bytes");
  };
  if (weights) {
    STOWAGE_RETURN_IF_ERROR(add("given weights", weights->weight_bytes()));
    STOWAGE_RETURN_IF_ERROR(add("given states", weights->state_bytes()));
    STOWAGE_RETURN_IF_ERROR(
        add("given host states", weights->host_state_bytes()));
  }
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (lifetimes.layouts[static_cast<size_t>(id)].root != id) continue;
    const ValueInfo& value = graph.value(id);
    STOWAGE_RETURN_IF_ERROR(add(value.name, value.type.bytes()));
  }
  for (const LiveBuffer& buffer : lifetimes.buffers) {
    if (buffer.region != Region::kWorkspace) continue;
    STOWAGE_RETURN_IF_ERROR(add(buffer.name, buffer.size));
  }
  for (const BodyPlan& body : bodies) {
    STOWAGE_RETURN_IF_ERROR(add(body.plan.graph_name, body.plan.host_bytes()));
  }
  if (lifetimes.reserve >= 0) {
    const LiveBuffer& reserve =
        lifetimes.buffers[static_cast<size_t>(lifetimes.reserve)];
    STOWAGE_RETURN_IF_ERROR(add(reserve.name, reserve.size));
  }
  return {};
}

// "64.0 MiB", with the exact bytes where rounding would make two figures equal.
std::string Figure(Bytes bytes, bool exact) {
  return exact ? StrCat(FormatBytes(bytes), " (", bytes, " bytes)")
               : FormatBytes(bytes);
}

Error BudgetError(const Graph& graph, const Plan& plan, Bytes budget) {
  const Bytes need = plan.arena_bytes();
  const bool exact = FormatBytes(budget) == FormatBytes(need);
  std::string largest;
  int named = 0;
  for (const int32_t index : LiveAt(plan, plan.peak_time)) {
    const PlannedBuffer& buffer = plan.buffers[static_cast<size_t>(index)];
    largest += StrCat(named == 0 ? "" : ", ", Quoted(buffer.name), " ",
                      FormatBytes(buffer.size));
    if (++named == 3) break;
  }
  const std::string where =
      plan.peak_time >= graph.num_nodes()
          ? std::string("after the last node")
          : graph.Describe(static_cast<NodeId>(plan.peak_time));
  return {ErrorCode::kBudgetTooSmall,
          StrCat("[plan] budget ", Figure(budget, exact), " is below the ",
                 Figure(need, exact), " this step needs at its peak, time ",
                 plan.peak_time, " (", where, "); largest live: ", largest,
                 "; smallest budget that works: ", Figure(need, exact))};
}

Result<std::vector<BodyPlan>> PlanBodies(const Node& node, NodeId id,
                                         const std::vector<bool>& dying,
                                         const PlanOptions& options);

Bytes LargestArena(const std::vector<BodyPlan>& bodies) {
  Bytes most = 0;
  for (const BodyPlan& body : bodies) {
    most = std::max(most, body.plan.arena_bytes());
  }
  return most;
}

// Room on the host for what the bodies in `graph` keep there, while their nodes run.
void AddHostWorkspaces(const Graph& graph, Plan* plan) {
  plan->host_workspace_of.assign(static_cast<size_t>(graph.num_nodes()), -1);
  for (const BodyPlan& body : plan->bodies) {
    const Bytes bytes = body.plan.host_bytes();
    if (bytes == 0) continue;
    int32_t& index = plan->host_workspace_of[static_cast<size_t>(body.node)];
    if (index < 0) {
      index = static_cast<int32_t>(plan->buffers.size());
      plan->buffers.push_back(
          {.name = StrCat("host workspace of ", graph.Describe(body.node)),
           .region = Region::kHostOffload,
           .lower = body.node,
           .upper = body.node + 1});
    }
    Bytes& size = plan->buffers[static_cast<size_t>(index)].size;
    size = std::max(size, bytes);  // only one of several bodies runs
  }
}

// What a body needs at least, however it is packed, beside the bytes outside that have
// holes.
packing::LowerBound LeastBesideHoles(const Plan& plan) {
  packing::Problem problem =
      WithBoundsOfBodies(plan, SpanOf(plan, /*on_host=*/false));
  Bytes handed = 0;
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region != Region::kOutside) continue;
    if (buffer.lower == 0 && !IsDyingOperand(plan, buffer)) continue;
    const Bytes size = AlignUp(buffer.size, plan.alignment);
    handed += size;
    if (buffer.upper == 0) continue;
    problem.buffers.push_back({.id = "",
                               .lower = buffer.lower,
                               .upper = buffer.upper,
                               .size = size,
                               .alignment = plan.alignment,
                               .offset = std::nullopt});
  }
  packing::LowerBound least = packing::ComputeLowerBound(problem);
  least.bytes = std::max<Bytes>(least.bytes - handed, 0);
  return least;
}

// What a body has to do with its node.
struct AsBody {
  const Node& node;
  std::vector<bool> dying = {};         // leaves that die in it; empty: none
  std::vector<int32_t> second_of = {};  // places that it turns out to need
};

// Plans `graph`, as a body if `body` is given.
Result<Plan> PlanGraph(const Graph& graph, const PlanOptions& options,
                       AsBody* body) {
  const Bytes alignment = options.alignment;
  if (alignment < 1 || !std::has_single_bit(static_cast<uint64_t>(alignment))) {
    return InvalidArgumentError("[plan] alignment ", alignment,
                                " is not a power of two; 64 and 256 are usual");
  }
  if (options.budget && *options.budget <= 0) {
    return InvalidArgumentError(
        "[plan] budget ", *options.budget,
        " bytes is not positive; give the most bytes the arena "
        "may take");
  }
  const std::optional<WeightLayout>& weights = options.weights;
  if (weights && weights->alignment() % alignment != 0) {
    return InvalidArgumentError("[plan] the weight layout is aligned to ",
                                weights->alignment(), " bytes, this plan to ",
                                alignment, "; plan both with one alignment");
  }

  Plan plan;
  Status bodies_planned;
  const auto plan_bodies = [&](NodeId id,
                               const std::vector<bool>& dying) -> Bytes {
    Result<std::vector<BodyPlan>> bodies =
        PlanBodies(graph.node(id), id, dying, options);
    if (!bodies.ok()) {
      if (bodies_planned.ok()) bodies_planned = bodies.error();
      return 0;
    }
    const Bytes most = LargestArena(*bodies);
    std::ranges::move(*bodies, std::back_inserter(plan.bodies));
    return most;
  };
  Lifetimes lifetimes = ComputeLifetimes(
      graph, {.in_place = options.in_place,
              .workspace = options.device.workspace,
              .reserve = options.device.reserve
                             ? options.device.reserve(graph, alignment)
                             : 0,
              .bodies = plan_bodies,
              .dying = body != nullptr ? body->dying : std::vector<bool>()});
  STOWAGE_RETURN_IF_ERROR(bodies_planned);
  if (body != nullptr) {
    body->second_of =
        MoveOutside(graph, body->node, options.in_place, &lifetimes);
  } else {
    STOWAGE_RETURN_IF_ERROR(
        MoveConstantsOutside(graph, options.outside, &lifetimes));
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckSums(graph, lifetimes, plan.bodies, weights, alignment));

  plan.graph_name = graph.name();
  plan.fingerprint = Fingerprint(graph);
  plan.alignment = alignment;
  plan.buffer_of = lifetimes.buffer_of;
  plan.workspace_of = lifetimes.workspace_of;
  plan.reserve = lifetimes.reserve;
  plan.views = lifetimes.views;
  plan.in_place = lifetimes.in_place;
  for (const LiveBuffer& buffer : lifetimes.buffers) {
    plan.buffers.push_back({.name = buffer.name,
                            .region = buffer.region,
                            .offset = 0,
                            .size = buffer.size,
                            .lower = buffer.lower,
                            .upper = buffer.upper});
  }
  AddHostWorkspaces(graph, &plan);

  // Reserve first: weights and states where every other program has them, unless this is
  // the plan that moves params to the host.
  const bool weights_given =
      weights && !(weights->may_move() && HasParamsOnHost(graph));
  STOWAGE_ASSIGN_OR_RETURN(
      plan.regions.weights,
      LayOutLeaves(graph, Role::kParam, /*on_host=*/false, alignment,
                   weights_given ? &weights->weights() : nullptr,
                   weights_given ? weights->weight_bytes() : 0, &plan));
  const bool states_given =
      weights && weights->state_bytes() + weights->host_state_bytes() > 0;
  STOWAGE_ASSIGN_OR_RETURN(
      plan.regions.state,
      LayOutLeaves(graph, Role::kState, /*on_host=*/false, alignment,
                   states_given ? &weights->states() : nullptr,
                   states_given ? weights->state_bytes() : 0, &plan));
  // On the host, params and then states, in one region.
  const bool on_host_given =
      states_given || (weights && weights->host_state_bytes() > 0);
  for (const Role role : {Role::kParam, Role::kState}) {
    STOWAGE_ASSIGN_OR_RETURN(
        plan.regions.host_state,
        LayOutLeaves(graph, role, /*on_host=*/true, alignment,
                     on_host_given ? &weights->on_host() : nullptr,
                     on_host_given ? weights->host_state_bytes() : 0, &plan,
                     plan.regions.host_state));
  }
  // Caches before inputs, so that programs that share them agree on their places.
  for (const Role role : {Role::kCache, Role::kInput}) {
    STOWAGE_ASSIGN_OR_RETURN(
        plan.regions.io, LayOutLeaves(graph, role, /*on_host=*/false, alignment,
                                      nullptr, 0, &plan, plan.regions.io));
  }
  if (plan.reserve >= 0) {
    PlannedBuffer& buffer = plan.buffers[static_cast<size_t>(plan.reserve)];
    buffer.offset = plan.regions.io;
    plan.regions.io += AlignUp(buffer.size, alignment);
  }

  if (body != nullptr) {
    for (const int32_t index : body->second_of) {
      if (index < 0) continue;
      PlannedBuffer& buffer = plan.buffers[static_cast<size_t>(index)];
      buffer.offset = plan.regions.io;
      plan.regions.io += AlignUp(buffer.size, alignment);
    }
  }

  plan.no_reuse = NoReuseBytes(graph, lifetimes.layouts, plan);
  plan.caching_allocator = CachingAllocatorBytes(plan);

  std::optional<packing::LowerBound> least;  // of a body
  if (body != nullptr) {
    least = LeastBesideHoles(plan);
    if (options.packer != Packer::kLinear) PlaceInHoles(&plan);
  }

  // Then pack everything else into one span, and what is offloaded into another.
  const Span span = SpanOf(plan, /*on_host=*/false);
  const packing::PackOptions pack{.packer = options.packer,
                                  .deadline = options.deadline};
  STOWAGE_ASSIGN_OR_RETURN(const packing::Packing packing,
                           packing::Pack(span.problem, pack));
  const Span offload = SpanOf(plan, /*on_host=*/true);
  STOWAGE_ASSIGN_OR_RETURN(const packing::Packing offloaded,
                           packing::Pack(offload.problem, pack));
  for (size_t i = 0; i < offload.buffers.size(); ++i) {
    plan.buffers[offload.buffers[i]].offset = offloaded.solution.offsets[i];
  }
  plan.regions.host_offload = offloaded.solution.height;
  packing::Problem without_scratch;
  for (size_t i = 0; i < span.buffers.size(); ++i) {
    PlannedBuffer& buffer = plan.buffers[span.buffers[i]];
    buffer.offset = packing.solution.offsets[i];
    if (buffer.region == Region::kActivations) {
      without_scratch.buffers.push_back(span.problem.buffers[i]);
    }
  }
  const packing::LowerBound bound =
      packing::ComputeLowerBound(WithBoundsOfBodies(plan, span));
  plan.regions.workspace =
      bound.bytes - packing::ComputeLowerBound(without_scratch).bytes;
  plan.regions.activations = packing.solution.height - plan.regions.workspace;

  const Bytes reserved =
      plan.regions.weights + plan.regions.state + plan.regions.io;
  plan.lower_bound = reserved + least.value_or(bound).bytes;
  plan.peak_time = least.value_or(bound).time;
  const auto is_optimal = [](const BodyPlan& each) {
    return each.plan.optimal;
  };
  plan.optimal =
      (packing.optimal && std::ranges::all_of(plan.bodies, is_optimal)) ||
      plan.arena_bytes() == plan.lower_bound;
  plan.packer = packing.packer;

  if (options.budget && plan.arena_bytes() > *options.budget) {
    return BudgetError(graph, plan, *options.budget);
  }
  return plan;
}

Result<std::vector<BodyPlan>> PlanBodies(const Node& node, NodeId id,
                                         const std::vector<bool>& dying,
                                         const PlanOptions& options) {
  const PlanOptions inner{
      .alignment = options.alignment,
      .packer = options.packer,
      .deadline = options.deadline,
      .in_place = options.in_place,
      .device = {.workspace = options.device.workspace, .reserve = {}}};
  std::vector<BodyPlan> plans;
  for (const auto& body : BodiesOf(node)) {
    AsBody as{.node = node};
    // The leaves of a cond's bodies stand for all operands but the index.
    if (node.op == OpKind::kCond)
      as.dying.assign(dying.begin() + 1, dying.end());
    STOWAGE_ASSIGN_OR_RETURN(Plan plan, PlanGraph(*body, inner, &as));
    plans.push_back({.node = id,
                     .plan = std::move(plan),
                     .second_of = std::move(as.second_of)});
  }
  return plans;
}

}  // namespace

Result<Plan> PlanMemory(const Graph& graph, const PlanOptions& options) {
  return PlanGraph(graph, options, nullptr);
}

WorkspaceFn NodeWorkspace(const PlanOptions& options) {
  return [options](const Graph& graph, const Node& node) -> Bytes {
    if (BodiesOf(node).empty()) {
      return options.device.workspace ? options.device.workspace(graph, node)
                                      : 0;
    }
    std::vector<bool> dying;
    for (const ValueId id : node.inputs) {
      const ValueInfo& value = graph.value(id);
      const bool persists = value.is_leaf() && value.role != Role::kSaved;
      dying.push_back(!persists && std::ranges::count(node.inputs, id) == 1);
    }
    // Where they cannot be planned, PlanMemory says why.
    const auto bodies = PlanBodies(node, kNoNode, dying, options);
    return bodies.ok() ? LargestArena(*bodies) : 0;
  };
}

}  // namespace stowage

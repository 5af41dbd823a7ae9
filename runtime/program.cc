#include "runtime/program.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "planner/plan.h"
#include "planner/validate_plan.h"
#include "runtime/backend.h"
#include "runtime/control_flow.h"

namespace stowage {

Result<Program> Program::Resolve(Graph graph, Plan plan, std::byte* arena,
                                 std::byte* host) {
  STOWAGE_RETURN_IF_ERROR(CheckPlanIsFor(plan, graph));
  auto state = std::make_unique<State>();
  state->graph = std::move(graph);
  state->plan = std::move(plan);
  state->host = host;
  const Graph& g = state->graph;
  const Plan& p = state->plan;
  ResolveLaunches(g, p, arena, host, &state->resolved);
  for (const GraphOutput& output : g.outputs()) {
    const TensorType& type = g.value(output.value).type;
    if (type.dtype == DType::kF32 && type.shape.num_elements() == 1) {
      state->scalars.push_back(output.value);
    }
  }
  if (p.reserve >= 0) {
    const PlannedBuffer& reserve = p.buffers[Index(p.reserve)];
    state->reserve = {arena + p.AddressOf(reserve),
                      static_cast<size_t>(reserve.size)};
  }
  return Program(std::move(state));
}

namespace {

// Checks that `plan` has the workspace that the backend requires, in bodies too.
Status CheckScratch(const Graph& graph, const Plan& plan,
                    const Backend& backend, std::string_view program) {
  auto body_plan = plan.bodies.begin();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    for (const auto& body : BodiesOf(graph.node(n))) {
      STOWAGE_RETURN_IF_ERROR(
          CheckScratch(*body, body_plan++->plan, backend, program));
    }
    const int32_t slot = plan.workspace_of[static_cast<size_t>(n)];
    const Bytes has =
        slot < 0 ? 0 : plan.buffers[static_cast<size_t>(slot)].size;
    const Bytes needs = backend.Workspace(graph, graph.node(n));
    if (needs > has) {
      return InvalidArgumentError(
          "[session] backend ", Quoted(backend.name()), " needs ", needs,
          " bytes of scratch for ", graph.Describe(n), " of program ",
          Quoted(program), ", the plan has ", has,
          "; plan with PlanOptions::workspace of this backend");
    }
  }
  return {};
}

// Checks that a plan is for its graph, is valid and has the backend's workspace.
Status CheckProgram(const SessionProgram& program, const Backend& backend) {
  const Graph& graph = program.graph;
  const Plan& plan = program.plan;
  STOWAGE_RETURN_IF_ERROR(CheckPlanIsFor(plan, graph));
  if (const auto broken = ValidatePlan(graph, plan, 1); !broken.empty()) {
    return InvalidArgumentError("[session] the plan of program ",
                                Quoted(program.name),
                                " is not valid: ", broken.front());
  }
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region != Region::kOutside) continue;
    return InvalidArgumentError(
        "[session] the plan of program ", Quoted(program.name), " has param ",
        Quoted(buffer.name),
        " outside of the arena, as a constant of a "
        "program in C; plan without PlanOptions::outside");
  }
  STOWAGE_RETURN_IF_ERROR(backend.Supports(graph));
  STOWAGE_RETURN_IF_ERROR(CheckScratch(graph, plan, backend, program.name));
  const Bytes has = plan.reserve < 0
                        ? 0
                        : plan.buffers[static_cast<size_t>(plan.reserve)].size;
  const Bytes needs = backend.Reserve(graph, plan.alignment);
  if (needs > has) {
    return InvalidArgumentError(
        "[session] backend ", Quoted(backend.name()), " keeps ", needs,
        " bytes beside the values of program ", Quoted(program.name),
        ", the plan has ", has,
        "; plan with PlanOptions::reserve of this backend");
  }
  return {};
}

// Checks that programs place the caches that they share at the same addresses.
Status CheckCaches(const std::vector<SessionProgram>& programs) {
  struct Place {
    TensorType type;
    Bytes address;
    const std::string* program;
  };
  std::unordered_map<std::string_view, Place> places;
  for (const SessionProgram& program : programs) {
    for (const ValueId id : program.graph.Leaves(Role::kCache)) {
      const ValueInfo& value = program.graph.value(id);
      const PlannedBuffer& buffer = program.plan.buffers[static_cast<size_t>(
          program.plan.buffer_of[static_cast<size_t>(id)])];
      const Place place{value.type, program.plan.AddressOf(buffer),
                        &program.name};
      const Place& known = places.try_emplace(value.name, place).first->second;
      if (known.type == place.type && known.address == place.address) continue;
      return InvalidArgumentError(
          "[session] programs ", Quoted(*known.program), " and ",
          Quoted(program.name), " disagree on cache ", Quoted(value.name), ": ",
          known.type.ToString(), " at ", known.address, " and ",
          place.type.ToString(), " at ", place.address,
          "; programs that share caches declare the same "
          "ones in one order");
    }
  }
  return {};
}

// Checks that all programs agree on the shared regions.
Status CheckShared(const std::vector<SessionProgram>& programs) {
  struct Place {
    TensorType type;
    bool on_host;
    Bytes address;
    const std::string* program;
  };
  std::unordered_map<std::string, Place> places;
  const RegionBytes& first = programs.front().plan.regions;
  for (const SessionProgram& program : programs) {
    const RegionBytes& regions = program.plan.regions;
    if (regions.weights != first.weights || regions.state != first.state ||
        regions.host_state != first.host_state) {
      const auto state = [](const RegionBytes& of) {
        return of.host_state == 0
                   ? StrCat(of.state, " of state")
                   : StrCat(of.state, " of state and ", of.host_state,
                            " of state on the host");
      };
      return InvalidArgumentError(
          "[session] program ", Quoted(program.name), " reserves ",
          regions.weights, " bytes of weights and ", state(regions),
          ", program ", Quoted(programs.front().name), " ", first.weights,
          " and ", state(first),
          "; plan all of them with one WeightLayout, taken from the "
          "plan that "
          "has the states");
    }
    std::vector<ValueId> persistent = program.graph.Leaves(Role::kParam);
    std::ranges::copy(program.graph.Leaves(Role::kState),
                      std::back_inserter(persistent));
    for (const ValueId id : persistent) {
      const ValueInfo& value = program.graph.value(id);
      const PlannedBuffer& buffer = program.plan.buffers[static_cast<size_t>(
          program.plan.buffer_of[static_cast<size_t>(id)])];
      const Place place{value.type, value.on_host,
                        program.plan.AddressOf(buffer), &program.name};
      const Place& known = places.try_emplace(value.name, place).first->second;
      if (known.type == place.type && known.on_host == place.on_host &&
          known.address == place.address) {
        continue;
      }
      const auto text = [](const Place& of) {
        return StrCat(of.type.ToString(), of.on_host ? " on the host" : "",
                      " at ", of.address);
      };
      return InvalidArgumentError("[session] programs ", Quoted(*known.program),
                                  " and ", Quoted(program.name),
                                  " disagree on ", Quoted(value.name), ": ",
                                  text(known), " and ", text(place),
                                  "; plan them with one WeightLayout");
    }
  }
  // Values of different names must not overlap, in any programs.
  std::map<std::tuple<bool, Bytes, std::string_view>, const Place*> by_address;
  for (const auto& [name, place] : places) {
    by_address.emplace(
        std::tuple(place.on_host, place.address, std::string_view(name)),
        &place);
  }
  for (auto it = by_address.begin(); it != by_address.end(); ++it) {
    const auto next = std::next(it);
    const auto& [on_host, address, name] = it->first;
    if (next == by_address.end() || next->second->on_host != on_host ||
        next->second->address >= address + it->second->type.bytes()) {
      continue;
    }
    return InvalidArgumentError(
        "[session] ", Quoted(name), " of program ",
        Quoted(*it->second->program), ", ", it->second->type.ToString(), " at ",
        address, ", and ", Quoted(std::get<2>(next->first)), " of program ",
        Quoted(*next->second->program), ", ", next->second->type.ToString(),
        " at ", next->second->address,
        ", share bytes; plan the programs with one WeightLayout "
        "that has both");
  }
  return {};
}

}  // namespace

Status CheckPrograms(const std::vector<SessionProgram>& programs,
                     const Backend& backend) {
  if (programs.empty())
    return InvalidArgumentError(
        "[session] there are no programs; give at least one");
  for (const SessionProgram& program : programs) {
    for (const SessionProgram& other : programs) {
      if (&other != &program && other.name == program.name) {
        return InvalidArgumentError("[session] two programs are called ",
                                    Quoted(program.name),
                                    "; names must be unique");
      }
    }
    STOWAGE_RETURN_IF_ERROR(CheckProgram(program, backend));
  }
  STOWAGE_RETURN_IF_ERROR(CheckShared(programs));
  return CheckCaches(programs);
}

Status CheckRanks(const Graph& graph, const JoinedRanks& joined) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : BodiesOf(node)) {
      STOWAGE_RETURN_IF_ERROR(CheckRanks(*body, joined));
    }
    if (!GetOpDef(node.op).collective) continue;
    const int64_t wanted = node.attrs.Int("ranks");
    if (wanted == joined.ranks) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[", joined.room, "] ", OpName(node.op), " of ",
               Quoted(graph.value(node.results[0]).name), " is among ", wanted,
               " ranks; the backend joins ", joined.ranks,
               "; build the step for as many ranks as there are, and give the "
               "backend what joins them (",
               joined.given, ")")};
  }
  return {};
}

LaunchAccesses::LaunchAccesses(const Launch& launch) {
  for (const TensorView& input : launch.inputs) {
    reads_.push_back(RangeOf(input));
  }
  // The bodies of a cond may write over operands that die in them.
  if (launch.op == OpKind::kCond) writes_ = reads_;
  for (const TensorView& output : launch.outputs) {
    writes_.push_back(RangeOf(output));
  }
  const auto writes = [this](std::span<std::byte> scratch) {
    const auto begin = reinterpret_cast<uintptr_t>(scratch.data());
    writes_.push_back({begin, begin + scratch.size()});
  };
  writes(launch.workspace);
  if (launch.control != nullptr) writes(launch.control->host_workspace());
}

bool LaunchAccesses::MayRunBeside(const LaunchAccesses& other) const {
  return !Meet(writes_, other.writes_) && !Meet(writes_, other.reads_) &&
         !Meet(reads_, other.writes_);
}

LaunchAccesses::Range LaunchAccesses::RangeOf(const TensorView& view) {
  if (view.size() == 0) return {};
  int64_t first = 0, last = 0;
  for (int axis = 0; axis < view.shape().rank(); ++axis) {
    const int64_t reach = (view.shape()[axis] - 1) * view.strides[axis];
    (reach < 0 ? first : last) += reach;
  }
  const Bytes element = SizeOf(view.dtype());
  const auto data = reinterpret_cast<uintptr_t>(view.data);
  return {data + static_cast<uintptr_t>(first * element),
          data + static_cast<uintptr_t>((last + 1) * element)};
}

bool LaunchAccesses::Meet(const Ranges& some, const Ranges& others) {
  return std::ranges::any_of(some, [&](const Range& a) {
    return std::ranges::any_of(others, [&](const Range& b) {
      return a.begin < b.end && b.begin < a.end;
    });
  });
}

}  // namespace stowage

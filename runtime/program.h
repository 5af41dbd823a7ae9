#ifndef STOWAGE_RUNTIME_PROGRAM_H_
#define STOWAGE_RUNTIME_PROGRAM_H_

// Programs: a graph and its plan as given to a session, and as resolved to a flat list of
// launches with final addresses, in which views are strides and offsets of operands.
// LaunchAccesses determines which launches may overlap; CheckPrograms and CheckRanks validate
// programs before they are resolved.
//
//   SessionProgram{"train", step, plan}
//
//   Result<Program> program = Program::Resolve(graph, plan, arena, host);
//   program->launches();  // run them in order

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "runtime/control_flow.h"
#include "runtime/kernel.h"

namespace stowage {

class Backend;  // runtime/backend.h

/// An argument of Session::Create.
struct SessionProgram {
  std::string name;
  Graph graph;
  Plan plan;
};

class Program {
 public:
  /// Resolves `plan` over the bytes at `arena` (plan.arena_bytes() of them) and those at
  /// `host` (plan.host_bytes(), of host memory), both at multiples of plan.alignment;
  /// they are not accessed. Error if the plan is not for this graph. Both are copied.
  static Result<Program> Resolve(Graph graph, Plan plan, std::byte* arena,
                                 std::byte* host);

  const Graph& graph() const { return state_->graph; }
  const Plan& plan() const { return state_->plan; }
  std::span<const Launch> launches() const { return state_->resolved.launches; }
  /// The outputs of one f32 element, such as the loss, in the graph's order.
  std::span<const ValueId> scalars() const { return state_->scalars; }
  /// The start of host memory, as passed to Resolve.
  std::byte* host() const { return state_->host; }
  /// The region that the plan reserved for the backend; empty: none.
  std::span<std::byte> reserve() const { return state_->reserve; }
  /// The address of a value.
  const TensorView& view(ValueId id) const {
    return state_->resolved.views[static_cast<size_t>(id)];
  }

 private:
  struct State {  // behind a pointer, so that spans survive moves
    Graph graph;
    Plan plan;
    ResolvedLaunches resolved;
    std::vector<ValueId> scalars;
    std::span<std::byte> reserve;
    std::byte* host = nullptr;
  };
  explicit Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
  std::unique_ptr<State> state_;
};

/// The bytes that a launch accesses: those of its operands, results and workspace. Values
/// do not suffice to decide which launches may overlap, since a plan reuses the bytes of
/// dead ones.
///
///   const LaunchAccesses copy(reload), next(relu);
///   if (!next.MayRunBeside(copy)) Wait();
class LaunchAccesses {
 public:
  explicit LaunchAccesses(const Launch& launch);

  /// Returns whether neither writes bytes that the other reads or writes. Linear in the
  /// product of their numbers of operands and results.
  bool MayRunBeside(const LaunchAccesses& other) const;

 private:
  // Addresses, half-open: from the first to the last byte that a view reaches.
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };
  using Ranges = std::vector<Range>;

  static Range RangeOf(const TensorView& view);
  static bool Meet(const Ranges& some, const Ranges& others);

  Ranges reads_, writes_;
};

/// Checks each program, and that all are consistent in one arena. Errors, kInvalidArgument
/// unless they are a callee's: no programs, two of one name, a plan that is not for its graph
/// or is invalid (ValidatePlan), an op that the backend lacks, a plan without this backend's
/// workspace or reserve, programs that place a param, state or cache of one name differently,
/// or different params or states at overlapping addresses.
Status CheckPrograms(const std::vector<SessionProgram>& programs,
                     const Backend& backend);

/// The ranks that a backend connects.
struct JoinedRanks {
  int ranks = 1;                // of the backend
  std::string_view room = {};   // prefix of errors
  std::string_view given = {};  // the backend argument that has the ranks
};

/// Checks that the collectives of `graph`, also in bodies, are for as many ranks as are
/// connected. Error kInvalidArgument naming the node, and both numbers. Linear in the
/// nodes.
Status CheckRanks(const Graph& graph, const JoinedRanks& joined);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_PROGRAM_H_

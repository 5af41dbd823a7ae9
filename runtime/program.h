#ifndef STOWAGE_RUNTIME_PROGRAM_H_
#define STOWAGE_RUNTIME_PROGRAM_H_

// Defines the programs of a session and resolves them to launches. A SessionProgram is a graph
// and its plan, as passed to a session. A Program is a flat list of launches with final addresses.
// Views are not launched: they are strides and offsets of operands. LaunchAccesses determines which
// launches may run at the same time. CheckPrograms and CheckRanks validate programs before they are
// resolved.
//
//   SessionProgram{"train", step, plan}
//
//   Result<Program> program = Program::Resolve(graph, plan, arena, host);
//   program->launches();  // Run these in order.

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

/// A program that is passed to Session::Create.
struct SessionProgram {
  std::string name;
  Graph graph;
  Plan plan;
};

class Program {
 public:
  /// Resolves `graph` under `plan`, which must be valid (ValidatePlan), over the plan.arena_bytes()
  /// bytes at `arena` and the plan.host_bytes() bytes of host memory at `host`. Both addresses must
  /// be multiples of plan.alignment. The memory is not accessed. The program stores `graph` and
  /// `plan`. Returns kInvalidArgument if the plan is not for this graph.
  static Result<Program> Resolve(Graph graph, Plan plan, std::byte* arena,
                                 std::byte* host);

  const Graph& graph() const { return state_->graph; }
  const Plan& plan() const { return state_->plan; }
  std::span<const Launch> launches() const { return state_->resolved.launches; }
  /// Returns the outputs that consist of one f32 element, such as the loss, in the graph's order.
  std::span<const ValueId> scalars() const { return state_->scalars; }
  /// Returns the start of host memory, as passed to Resolve.
  std::byte* host() const { return state_->host; }
  /// Returns the region that the plan reserved for the backend, or an empty span if there is
  /// none.
  std::span<std::byte> reserve() const { return state_->reserve; }
  /// Returns the view of a value at its final address.
  const TensorView& view(ValueId id) const {
    return state_->resolved.views[static_cast<size_t>(id)];
  }

 private:
  // Behind a pointer, so that spans into it stay valid when the program is moved.
  struct State {
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

/// The ranges of bytes that a launch accesses: its operands, results, workspace and, for bodies,
/// host memory. Whether two launches may run at the same time depends on these bytes and not only
/// on their values, because a plan reuses the bytes of dead values.
///
///   const LaunchAccesses copy(reload), next(relu);
///   if (!next.MayRunBeside(copy)) Wait();
class LaunchAccesses {
 public:
  explicit LaunchAccesses(const Launch& launch);

  /// Returns true if neither launch writes bytes that the other launch reads or writes. Takes time
  /// in proportion to the product of the two numbers of operands and results.
  bool MayRunBeside(const LaunchAccesses& other) const;

 private:
  // A half-open range of addresses, from the first to the last byte that a view spans.
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };
  using Ranges = std::vector<Range>;

  static Range RangeOf(const TensorView& view);
  static bool Meet(const Ranges& some, const Ranges& others);

  Ranges reads_, writes_;
};

/// Checks each program, and that all programs are consistent in one arena. Propagates errors of
/// Backend::Supports, such as kUnsupported for an op that the backend lacks. Returns
/// kInvalidArgument if
/// - there are no programs, or two have the same name,
/// - a plan is not for its graph, is invalid (ValidatePlan), has params outside the arena, or
///   lacks this backend's workspace or reserve,
/// - the regions of weights or states have different sizes in two programs,
/// - two programs have a param, state or cache of the same name with different types or addresses,
///   or
/// - params or states of different names have overlapping addresses.
Status CheckPrograms(const std::vector<SessionProgram>& programs,
                     const Backend& backend);

/// The ranks that a backend connects.
struct JoinedRanks {
  // The number of ranks.
  int ranks = 1;
  // The prefix of error messages.
  std::string_view room = {};
  // The name of the backend option that specifies the ranks, for error messages.
  std::string_view given = {};
};

/// Returns kInvalidArgument if a collective of `graph`, or of a body at any depth, is for another
/// number of ranks than joined.ranks. The message names the node and both numbers. Linear in the
/// number of nodes.
Status CheckRanks(const Graph& graph, const JoinedRanks& joined);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_PROGRAM_H_

#ifndef STOWAGE_RUNTIME_PROGRAM_H_
#define STOWAGE_RUNTIME_PROGRAM_H_

// A graph and its plan, resolved to a flat list of launches with final addresses. Views
// are resolved to strides and offsets of operands.
//
//   Result<Program> program = Program::Resolve(graph, plan, arena, host);
//   program->launches();  // run them in order

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "runtime/control_flow.h"
#include "runtime/kernel.h"

namespace stowage {

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
  /// Where host memory begins, as given to Resolve.
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

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_PROGRAM_H_

#ifndef STOWAGE_RUNTIME_CONTROL_FLOW_H_
#define STOWAGE_RUNTIME_CONTROL_FLOW_H_

// The bodies of a loop or a cond, resolved once: launches whose workspace and own values
// have final addresses in the node's workspace, or in its host workspace. The inputs and
// outputs of a body are outside, at other addresses in each iteration, and are placed
// before each: a few additions for each such operand of a launch, and no copy. So are
// values placed in the bytes of an operand that has died in the body, or of a result that
// is not written yet.
//
//   ControlFlow& loop = *launch.control;
//   for (int64_t i = 0; i < loop.iterations(); ++i) {
//     loop.Place(launch, 0, i);
//     for (const Launch& inner : loop.launches(0)) Run(inner);
//   }
//
// Nested bodies are placed when their own node runs.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ir/bodies.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "runtime/kernel.h"

namespace stowage {

/// The parts of a graph and its plan that are resolved before anything runs.
struct ResolvedLaunches {
  std::vector<TensorView> views;     // per value
  std::vector<TensorView> operands;  // of all launches, inputs then outputs
  std::vector<ValueId> values;       // per operand
  std::vector<Launch> launches;
  std::vector<std::unique_ptr<ControlFlow>> controls;

  ResolvedLaunches();
  ResolvedLaunches(const ResolvedLaunches&) = delete;  // launches point into it
  ResolvedLaunches& operator=(const ResolvedLaunches&) = delete;
  ~ResolvedLaunches();
};

/// Resolves `plan` over the bytes at `arena` and, for the host, at `host`; outside values
/// get no address. `graph` and `plan` must outlive the result.
void ResolveLaunches(const Graph& graph, const Plan& plan, std::byte* arena,
                     std::byte* host, ResolvedLaunches* to);

/// For each i, the buffers of the packed spans of `plan`, and of the operands that die in
/// a body, that are dead once launch `i` of `graph` has run.
std::vector<std::vector<int32_t>> DeathsAfterLaunches(
    const Graph& graph, const Plan& plan, std::span<const Launch> launches);

/// The initial value of a sum. Adding it changes no number, including zeros of both
/// signs, so that a sum over iterations equals the same additions starting with the
/// first.
inline constexpr double kNoSum = -0.0;

class ControlFlow {
 public:
  /// For a node and the plans of its bodies, over its workspace and its host workspace.
  ControlFlow(const Node& node, std::span<const BodyPlan> plans,
              std::byte* workspace, std::span<std::byte> host_workspace);

  /// The host memory of the bodies.
  std::span<std::byte> host_workspace() const { return host_workspace_; }

  size_t num_bodies() const { return bodies_.size(); }
  /// The number of runs of each body; 1 for a cond.
  int64_t iterations() const { return loop_ ? loop_->iterations : 1; }
  bool is_loop() const { return loop_.has_value(); }

  const Graph& graph(size_t body) const { return *bodies_[body]->graph; }
  std::span<const Launch> launches(size_t body) const {
    return bodies_[body]->resolved.launches;
  }
  /// The bytes of the arena of `body`, of its host memory, and of its operands that are
  /// dead once its launch `launch` has run.
  std::span<const std::span<std::byte>> DeadAfter(size_t body,
                                                  size_t launch) const {
    return bodies_[body]->dead[launch];
  }

  /// Sets the addresses of everything outside of `body` for iteration `iteration` of
  /// `launch`. Allocates nothing.
  void Place(const Launch& launch, size_t body, int64_t iteration);

  /// Returns the number of sums of a loop, and the contiguous address at which the first
  /// iteration of `launch` reads one, which must be filled with kNoSum before.
  size_t num_sums() const { return loop_ ? loop_->summed : 0; }
  TensorView FirstSum(const Launch& launch, size_t sum) const;

  /// Returns the number of carries of a loop, and the bytes in which iteration `i` of
  /// `launch` reads one of these, which are dead after it: none if it was an operand, or
  /// has been overwritten.
  size_t num_handed_on() const { return handed_.size(); }
  std::span<std::byte> ReadPlace(const Launch& launch, size_t handed,
                                 int64_t i) const;

 private:
  // An operand of a launch that is outside: in leaf `slot`, or in an output, numbered
  // after the leaves.
  struct Outside {
    TensorView* view;
    size_t slot;
    Bytes offset;
  };
  // The same, for bytes that are dead at some time.
  struct DeadOutside {
    std::span<std::byte>* bytes;
    size_t slot;
    Bytes offset;
  };
  struct Body {
    const Graph* graph;
    ResolvedLaunches resolved;
    std::vector<Outside> outside;
    std::vector<std::vector<std::span<std::byte>>> dead;  // after each launch
    std::vector<DeadOutside> dead_outside;
  };
  // For a carry: the second buffer beside the result's, if there is one.
  struct Handed {
    std::byte* second;
    Bytes bytes;
  };

  // The address at which iteration `i` writes the carry; its initial address for -1.
  std::byte* Left(const Launch& launch, size_t handed, int64_t i) const;
  void AddBody(const Graph& graph, const Plan& plan);

  const std::optional<LoopParts> loop_;  // none: a cond
  std::byte* const workspace_;
  const std::span<std::byte> host_workspace_;
  std::vector<Handed> handed_;
  std::vector<std::unique_ptr<Body>> bodies_;
  std::vector<std::byte*> places_;  // by slot, of the current iteration
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CONTROL_FLOW_H_

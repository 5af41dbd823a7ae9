#ifndef STOWAGE_RUNTIME_CONTROL_FLOW_H_
#define STOWAGE_RUNTIME_CONTROL_FLOW_H_

// The bodies of a loop or a cond, resolved once: launches whose scratch and own values
// lie in the workspace of the node, or in that on the host, at final addresses. What a body is handed and what
// it hands back lies outside, elsewhere in each iteration, and is placed before each:
// a few additions for each operand of a launch that lies there, and no copy. So is what a
// body makes in the bytes of an operand that has died in it, or of a result that is not
// there yet.
//
//   ControlFlow& loop = *launch.control;
//   for (int64_t i = 0; i < loop.iterations(); ++i) {
//     loop.Place(launch, 0, i);
//     for (const Launch& inner : loop.launches(0)) Run(inner);
//   }
//
// Bodies in bodies are placed when their own node runs.

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

/// What of a graph and its plan can be resolved before anything runs.
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

/// Resolves `plan` over the bytes at `arena` and, of the host, at `host`; what lies
/// outside gets no address. `graph` and `plan` must outlive what is resolved.
void ResolveLaunches(const Graph& graph, const Plan& plan, std::byte* arena,
                     std::byte* host, ResolvedLaunches* to);

/// Buffers of the packed spans of `plan`, and of the operands that die in a body, that are
/// dead once launch `i` of `graph` has run, for each i.
std::vector<std::vector<int32_t>> DeathsAfterLaunches(
    const Graph& graph, const Plan& plan, std::span<const Launch> launches);

/// What a sum begins as. Added to any number it leaves that number, zeros of both signs
/// included, so that a sum over iterations is what the same additions give that begin
/// with the first.
inline constexpr double kNoSum = -0.0;

class ControlFlow {
 public:
  /// For a node and the plans of its bodies, over its workspace, and that on the host.
  ControlFlow(const Node& node, std::span<const BodyPlan> plans,
              std::byte* workspace, std::span<std::byte> host_workspace);

  /// What the bodies have of the host's memory.
  std::span<std::byte> host_workspace() const { return host_workspace_; }

  size_t num_bodies() const { return bodies_.size(); }
  /// How often each body runs; 1 of a cond.
  int64_t iterations() const { return loop_ ? loop_->iterations : 1; }
  bool is_loop() const { return loop_.has_value(); }

  const Graph& graph(size_t body) const { return *bodies_[body]->graph; }
  std::span<const Launch> launches(size_t body) const {
    return bodies_[body]->resolved.launches;
  }
  /// What of the arena of `body`, of what it has on the host, and of its operands, is
  /// dead once its launch `launch` has run.
  std::span<const std::span<std::byte>> DeadAfter(size_t body,
                                                  size_t launch) const {
    return bodies_[body]->dead[launch];
  }

  /// Lets everything outside of `body` lie where it does in iteration `iteration` of
  /// `launch`. Allocates nothing.
  void Place(const Launch& launch, size_t body, int64_t iteration);

  /// How many sums a loop keeps; where the first iteration of `launch` finds one,
  /// contiguous, which must be filled with kNoSum by then.
  size_t num_sums() const { return loop_ ? loop_->summed : 0; }
  TensorView FirstSum(const Launch& launch, size_t sum) const;

  /// How much a loop hands on; the bytes in which iteration `i` of `launch` found one
  /// of these, and which are dead after it: none where it was an operand, or has been
  /// overwritten.
  size_t num_handed_on() const { return handed_.size(); }
  std::span<std::byte> ReadPlace(const Launch& launch, size_t handed,
                                 int64_t i) const;

 private:
  // An operand of a launch that lies outside: in leaf `slot`, or behind the leaves, in
  // an output.
  struct Outside {
    TensorView* view;
    size_t slot;
    Bytes offset;
  };
  // Likewise, of bytes that are dead at some time.
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
  // What a loop hands on: the place beside the result's, if there are two.
  struct Handed {
    std::byte* second;
    Bytes bytes;
  };

  // Where iteration `i` leaves what it hands on; before the first for -1.
  std::byte* Left(const Launch& launch, size_t handed, int64_t i) const;
  void AddBody(const Graph& graph, const Plan& plan);

  const std::optional<LoopParts> loop_;  // nothing: a cond
  std::byte* const workspace_;
  const std::span<std::byte> host_workspace_;
  std::vector<Handed> handed_;
  std::vector<std::unique_ptr<Body>> bodies_;
  std::vector<std::byte*> places_;  // by slot, of the iteration at hand
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CONTROL_FLOW_H_

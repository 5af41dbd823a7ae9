#ifndef STOWAGE_RUNTIME_CONTROL_FLOW_H_
#define STOWAGE_RUNTIME_CONTROL_FLOW_H_

// Resolves the bodies of a loop or a cond to launches once, before anything runs. Values and
// workspace that are in the arena of a body (planner/plan.h) get final addresses in the workspace
// of the loop or cond, or in its host memory.
//
// The inputs and outputs of a body are outside its arena and have different addresses in each
// iteration. ControlFlow::Place sets their addresses before each iteration. It adds a few numbers
// for each operand of a launch that is an input or output of the body, and copies nothing. Place
// also sets the addresses of values that reuse the bytes of an operand that has died in the body,
// or of a result that is not written yet.
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

/// The launches of a graph under a plan.
struct ResolvedLaunches {
  // The view of each value of the graph.
  std::vector<TensorView> views;
  // The operands and results of all launches. For each launch, the operands come first.
  std::vector<TensorView> operands;
  // For each element of `operands`, its value.
  std::vector<ValueId> values;
  std::vector<Launch> launches;
  // The bodies of all loops and conds.
  std::vector<std::unique_ptr<ControlFlow>> controls;

  ResolvedLaunches();
  // Not copyable, because launches point into it.
  ResolvedLaunches(const ResolvedLaunches&) = delete;
  ResolvedLaunches& operator=(const ResolvedLaunches&) = delete;
  ~ResolvedLaunches();
};

/// Resolves `graph` under `plan`, over the arena at `arena` and the host memory at `host`, and
/// writes the result to `to`, which must be empty. Values outside the arena (Region::kOutside) have
/// no address. `graph` and `plan` must outlive the result.
void ResolveLaunches(const Graph& graph, const Plan& plan, std::byte* arena,
                     std::byte* host, ResolvedLaunches* to);

/// Returns, for each launch, the indices in Plan::buffers of the buffers that die when the launch
/// has run. `launches` must be the launches of `graph` under `plan`. Includes only buffers that the
/// plan packs and, in a body, operands that die there.
std::vector<std::vector<int32_t>> DeathsAfterLaunches(
    const Graph& graph, const Plan& plan, std::span<const Launch> launches);

/// The initial value of a sum. Adding it to a number does not change the number, even if it is a
/// zero of either sign. A sum over iterations is therefore bit-equal to a sum that starts with the
/// first iteration's addend.
inline constexpr double kNoSum = -0.0;

/// The resolved bodies of a loop or a cond.
class ControlFlow {
 public:
  /// Resolves the bodies of `node` under `plans`, which must be their plans in order, over the
  /// node's workspace and its host memory. `node` and `plans` must outlive this object.
  ControlFlow(const Node& node, std::span<const BodyPlan> plans,
              std::byte* workspace, std::span<std::byte> host_workspace);

  /// Returns the host memory of the bodies.
  std::span<std::byte> host_workspace() const { return host_workspace_; }

  size_t num_bodies() const { return bodies_.size(); }
  /// Returns the number of iterations of a loop, or 1 for a cond, which runs one of its bodies
  /// once.
  int64_t iterations() const { return loop_ ? loop_->iterations : 1; }
  bool is_loop() const { return loop_.has_value(); }

  const Graph& graph(size_t body) const { return *bodies_[body]->graph; }
  std::span<const Launch> launches(size_t body) const {
    return bodies_[body]->resolved.launches;
  }
  /// Returns the bytes that die when launch `launch` of body `body` has run. They are in the body's
  /// arena, in its host memory, or in operands of the node.
  std::span<const std::span<std::byte>> DeadAfter(size_t body,
                                                  size_t launch) const {
    return bodies_[body]->dead[launch];
  }

  /// Sets the addresses of all operands of launches in body `body` that are outside the body's
  /// arena, for iteration `iteration`. `launch`, here and below, must be the launch of the loop or
  /// cond. Allocates nothing.
  void Place(const Launch& launch, size_t body, int64_t iteration);

  /// Returns the number of sums of a loop, or 0 for a cond.
  size_t num_sums() const { return loop_ ? loop_->summed : 0; }
  /// Returns the contiguous view from which the first iteration reads sum `sum`. The caller must
  /// fill it with kNoSum before this iteration.
  TensorView FirstSum(const Launch& launch, size_t sum) const;

  /// Returns the number of carries and sums of a loop, or 0 for a cond.
  size_t num_handed_on() const { return handed_.size(); }
  /// Returns the bytes from which iteration `i` reads carry or sum `handed`, if they are dead after
  /// the iteration. Returns an empty span if they belong to an operand, or if the iteration
  /// overwrites them.
  std::span<std::byte> ReadPlace(const Launch& launch, size_t handed,
                                 int64_t i) const;

 private:
  // An operand of a launch that is outside the body. `slot` is the index of a leaf, or of an
  // output, which are numbered after the leaves.
  struct Outside {
    TensorView* view;
    size_t slot;
    Bytes offset;
  };
  // Bytes outside the body that die at some time.
  struct DeadOutside {
    std::span<std::byte>* bytes;
    size_t slot;
    Bytes offset;
  };
  struct Body {
    const Graph* graph;
    ResolvedLaunches resolved;
    std::vector<Outside> outside;
    // Indexed by launch: the bytes that die when it has run.
    std::vector<std::vector<std::span<std::byte>>> dead;
    std::vector<DeadOutside> dead_outside;
  };
  // The buffers of a carry or sum. `second` alternates with the result's buffer. Null if one
  // buffer is sufficient.
  struct Handed {
    std::byte* second;
    Bytes bytes;
  };

  // Returns the address to which iteration `i` writes a carry or sum, or its initial address if
  // `i` is -1.
  std::byte* Left(const Launch& launch, size_t handed, int64_t i) const;
  void AddBody(const Graph& graph, const Plan& plan);

  // Empty for a cond.
  const std::optional<LoopParts> loop_;
  std::byte* const workspace_;
  const std::span<std::byte> host_workspace_;
  std::vector<Handed> handed_;
  std::vector<std::unique_ptr<Body>> bodies_;
  // The addresses in the current iteration, indexed by slot.
  std::vector<std::byte*> places_;
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CONTROL_FLOW_H_

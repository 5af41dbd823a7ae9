#ifndef STOWAGE_RUNTIME_CONTROL_FLOW_H_
#define STOWAGE_RUNTIME_CONTROL_FLOW_H_

// Resolves the bodies of a loop or a cond once, before anything runs. The workspace and the own
// values of the launches in a body have final addresses in the node's workspace, or in its host
// workspace.
//
// The inputs and outputs of a body are outside the body and have different addresses in each
// iteration. Place sets their addresses before each iteration. It adds a few numbers for each
// such operand of a launch, and copies nothing. It also sets the addresses of values that reuse
// the bytes of an operand that has died in the body, or of a result that is not written yet.
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

/// A graph and its plan, as resolved before anything runs.
struct ResolvedLaunches {
  // Indexed by value.
  std::vector<TensorView> views;
  // The operands of all launches, inputs before outputs.
  std::vector<TensorView> operands;
  // Indexed by operand.
  std::vector<ValueId> values;
  std::vector<Launch> launches;
  std::vector<std::unique_ptr<ControlFlow>> controls;

  ResolvedLaunches();
  // Not copyable, because launches point into it.
  ResolvedLaunches(const ResolvedLaunches&) = delete;
  ResolvedLaunches& operator=(const ResolvedLaunches&) = delete;
  ~ResolvedLaunches();
};

/// Resolves `plan` over the bytes at `arena` and the host memory at `host`. Outside values are
/// not given an address. `graph` and `plan` must outlive the result.
void ResolveLaunches(const Graph& graph, const Plan& plan, std::byte* arena,
                     std::byte* host, ResolvedLaunches* to);

/// Returns, for each launch i of `graph`, the indices of the buffers that are dead when launch
/// i has run. Includes the buffers that `plan` packs, and in a body also operands that die
/// there.
std::vector<std::vector<int32_t>> DeathsAfterLaunches(
    const Graph& graph, const Plan& plan, std::span<const Launch> launches);

/// The initial value of a sum. Adding it changes no number, including zeros of both signs. A
/// sum over iterations therefore equals the same additions starting with the first.
inline constexpr double kNoSum = -0.0;

class ControlFlow {
 public:
  /// Resolves the bodies of `node` with their plans, over the node's workspace and host
  /// workspace.
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
  /// Returns the bytes that are dead when launch `launch` of `body` has run: bytes of the
  /// body's arena, of its host memory, and of its operands.
  std::span<const std::span<std::byte>> DeadAfter(size_t body,
                                                  size_t launch) const {
    return bodies_[body]->dead[launch];
  }

  /// Sets the addresses of all operands outside `body` for iteration `iteration` of `launch`.
  /// Allocates nothing.
  void Place(const Launch& launch, size_t body, int64_t iteration);

  /// Returns the number of sums of a loop.
  size_t num_sums() const { return loop_ ? loop_->summed : 0; }
  /// Returns the contiguous view from which the first iteration of `launch` reads a sum. The
  /// caller must fill it with kNoSum before that iteration.
  TensorView FirstSum(const Launch& launch, size_t sum) const;

  /// Returns the number of carries and sums of a loop.
  size_t num_handed_on() const { return handed_.size(); }
  /// Returns the bytes from which iteration `i` of `launch` reads carry or sum `handed`. They are
  /// dead after the iteration. Returns an empty span if they belong to an operand or have been
  /// overwritten.
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

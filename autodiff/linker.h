#ifndef STOWAGE_AUTODIFF_LINKER_H_
#define STOWAGE_AUTODIFF_LINKER_H_

// Links a forward graph and its backward graph in one builder: the saved leaves of the
// backward graph become the forward values themselves, the seed a number. The forward part
// is copied at once, the backward part node by node, so that the caller may put updates
// between them.
//
// A linear_cross_entropy that is the loss, and that nothing else reads, is left out of the
// forward part, because its gradient op computes the loss too. States that the forward
// graph writes hold their new content from then on; if the backward graph reads an old
// content, the linker copies it first.
//
//   STOWAGE_ASSIGN_OR_RETURN(const Differentiated model,
//                            Differentiate(forward, "loss", options));
//   Linker linker(model.forward, model.backward, "loss", &g);
//   linker.DeclareLeaves();
//   linker.CopyForward();
//   STOWAGE_RETURN_IF_ERROR(linker.WireUp());
//   CopyBackward(model, linker, [&](size_t i) { /* gradient of model.trained[i] */ });
//   linker.DeclareOutputs();

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "ir/uses.h"

namespace stowage {

/// How the copy of a micro-batch differs from the copy of a whole batch.
struct MicroBatch {
  std::string suffix = {};    // of the names of its nodes' results
  int64_t first_dropout = 0;  // added to the ids of its dropouts
};

/// The seed, the gradient of the loss: a number, times `scale`, an f32 scalar, if given.
struct LossGradient {
  double value = 1;
  Value scale = {};
};

class Linker {
 public:
  /// All but `micro_batch` must outlive this.
  Linker(const Graph& forward, const Graph& backward, std::string_view loss,
         GraphBuilder* g, const MicroBatch& micro_batch = {});

  /// Declares the forward graph's leaves.
  void DeclareLeaves();
  /// Uses `value` for a leaf instead of declaring it.
  void MapLeaf(ValueId leaf, Value value) { forward_copy_.Map(leaf, value); }

  /// Appends the forward graph's nodes, except a loss that the backward graph computes.
  void CopyForward();

  /// Maps the backward graph's leaves to forward values, and the seed to a fill, times the
  /// scale if there is one. Error: the forward graph lacks a value that the backward graph
  /// reads, or has it with another type.
  Status WireUp(const LossGradient& seed = {});

  /// Appends one node of the backward graph; to be called in order. A constant that the
  /// forward graph has too is not repeated: constants are live for the whole step.
  void CopyBackwardNode(NodeId id);

  /// Declares the forward graph's outputs. All nodes must be there.
  void DeclareOutputs();

  Value forward(ValueId id) const { return forward_copy_[id]; }
  Value backward(ValueId id) const { return backward_copy_[id]; }
  /// The final content of a leaf of the forward graph, which may have written it.
  Value last_content(ValueId leaf) const;

 private:
  // Values that the backward graph reads, by the forward node that overwrites them.
  using Overwritten = std::multimap<NodeId, ValueId>;

  // The linear_cross_entropy of the loss, and its gradient, which computes the same loss.
  struct FusedLoss {
    NodeId forward;
    NodeId backward;
  };

  bool IsSeed(const ValueInfo& info) const;
  Value EmitSeed(const LossGradient& seed, const ValueInfo& leaf);
  std::optional<FusedLoss> FindFusedLoss() const;
  Overwritten FindOverwritten() const;
  void CopyNode(GraphCopy& copy, const Node& node, NodeId id);

  const Graph& forward_;
  const Graph& backward_;
  const std::string_view loss_;
  const Uses uses_;  // of forward
  GraphBuilder& g_;
  const MicroBatch micro_batch_;
  GraphCopy forward_copy_;
  GraphCopy backward_copy_;
  const std::optional<FusedLoss> fused_;
  std::map<ValueId, Value> old_contents_;  // copies for the backward graph
};

/// A param to train, and the last backward node (kNoNode: none) that computes its gradient
/// or reads what the update overwrites.
struct Trained {
  ValueId param;     // in the forward graph
  ValueId gradient;  // in the backward graph
  NodeId last;
};

/// A model's forward and backward graph, ready to be linked into a step any number of times.
struct Differentiated {
  Graph forward;  // its loops return what backward reads (SaveInLoops)
  Graph backward;
  std::vector<Trained>
      trained;  // in one order for all micro-batches of a batch
};

/// Errors: those of BuildBackward and WithoutFrozen; a pattern in options.gradients
/// that no trained param has.
Result<Differentiated> Differentiate(const Graph& forward,
                                     std::string_view loss,
                                     const TrainOptions& options);

/// Copies the backward nodes by `linker`. Calls `made(i)` once the gradient of
/// model.trained[i] has been emitted and nothing will read its param any more.
void CopyBackward(const Differentiated& model, Linker& linker,
                  const std::function<void(size_t)>& made);

/// One more than the largest id of a dropout, random_uniform or random_normal in `graph` and
/// its bodies. Copies of a graph in one step draw from different ids:
///
///   copy.CopyNode(id, WithDropoutIdsFrom(node, first));
///   first += DropoutIds(graph);
int64_t DropoutIds(const Graph& graph);

/// The attributes of `node`, with `first` added to its id and to those in its bodies.
Attrs WithDropoutIdsFrom(const Node& node, int64_t first);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_LINKER_H_

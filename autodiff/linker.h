#ifndef STOWAGE_AUTODIFF_LINKER_H_
#define STOWAGE_AUTODIFF_LINKER_H_

// Joins a forward graph and its backward graph in one builder: the saved leaves
// of the backward graph become the forward values themselves, the seed a number.
// The forward part is copied at once, the backward part node by node, as the
// caller asks for, who may put updates between them.
//
// A linear_cross_entropy that is the loss, and that nothing else reads, is left
// out of the forward part: its gradient makes the loss on its way.
//
// States that the forward graph writes hold their new content from then on. Where
// the backward graph reads an old one, a copy of it waits for that.
//
//   Linker linker(forward, backward, "loss", &g);
//   linker.DeclareLeaves();
//   linker.CopyForward();
//   STOWAGE_RETURN_IF_ERROR(linker.WireUp());
//   for (NodeId id = 0; id < backward.num_nodes(); ++id) {
//     linker.CopyBackwardNode(id);
//   }
//   linker.DeclareOutputs();

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_options.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "ir/uses.h"

namespace stowage {

/// How a part of a batch differs from a whole one.
struct MicroBatch {
  std::string suffix = {};    // of the names of what its nodes make
  int64_t first_dropout = 0;  // added to the ids of its dropouts
};

/// What the gradient of a loss begins as, the seed: this number, and times `scale`, an
/// f32 scalar, if there is one.
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
  /// Or lets `value` stand for one of them.
  void MapLeaf(ValueId leaf, Value value) { forward_copy_.Map(leaf, value); }

  /// Appends the forward graph's nodes, save a loss that the backward graph
  /// makes.
  void CopyForward();

  /// Lets forward values stand for the backward graph's leaves, and a fill, or one
  /// times the scale, for the seed. Error: the backward graph reads a value that the forward graph
  /// does not have, or has of another type.
  Status WireUp(const LossGradient& seed = {});

  /// Appends one node of the backward graph; to be called in order. A constant
  /// that the forward graph has too is not made twice: constants live as long
  /// as the step.
  void CopyBackwardNode(NodeId id);

  /// Declares the forward graph's outputs. All nodes must be there.
  void DeclareOutputs();

  Value forward(ValueId id) const { return forward_copy_[id]; }
  Value backward(ValueId id) const { return backward_copy_[id]; }
  /// What a leaf of the forward graph holds in the end, if that graph writes it.
  Value last_content(ValueId leaf) const;

 private:
  // What the backward graph reads and a forward node overwrites, by node.
  using Overwritten = std::multimap<NodeId, ValueId>;

  // A linear_cross_entropy whose loss is what is differentiated, and its
  // gradient, which makes the same loss.
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

// A model's graph and its backward graph, ready to be linked into a step, and which
// params it trains.
//
//   STOWAGE_ASSIGN_OR_RETURN(const Differentiated model,
//                            Differentiate(forward, "loss", options));
//   Linker linker(model.forward, model.backward, "loss", &g);
//   ... linker.CopyForward(), linker.WireUp() ...
//   CopyBackward(model, linker, [&](size_t i) { /* model.trained[i] is there */ });

/// A param to train, and the last backward node (kNoNode: none) that makes its
/// gradient or reads what the update overwrites.
struct Trained {
  ValueId param;     // in the forward graph
  ValueId gradient;  // in the backward graph
  NodeId last;
};

/// Differentiated once, however often it runs.
struct Differentiated {
  Graph forward;  // which saves in its loops what backward reads
  Graph backward;
  std::vector<Trained>
      trained;  // in one order for all micro-batches of a batch
};

/// Errors: those of BuildBackward and WithoutFrozen; a pattern in options.gradients
/// that no trained param has.
Result<Differentiated> Differentiate(const Graph& forward,
                                     std::string_view loss,
                                     const TrainOptions& options);

/// Copies the backward nodes by `linker`; `made` is told of each gradient, as an index
/// of model.trained, once it is there and nothing will read its param any more.
void CopyBackward(const Differentiated& model, Linker& linker,
                  const std::function<void(size_t)>& made);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_LINKER_H_

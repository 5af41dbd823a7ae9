#ifndef STOWAGE_AUTODIFF_STEP_PARTS_H_
#define STOWAGE_AUTODIFF_STEP_PARTS_H_

// The parts of which training steps are built: the Linker of forward and backward, and the
// Updater of params with its LossScaler.
//
//   STOWAGE_ASSIGN_OR_RETURN(const Differentiated model,
//                            Differentiate(forward, "loss", options));
//   Linker linker(model.forward, model.backward, "loss", &g);
//   Updater updater(options, &g);
//   linker.DeclareLeaves();
//   updater.DeclareInputs();
//   linker.CopyForward();
//   STOWAGE_RETURN_IF_ERROR(linker.WireUp(updater.Seed()));
//   CopyBackward(model, linker, [&](size_t i) { /* gradient of model.trained[i] */ });
//   linker.DeclareOutputs();
//   if (UpdatesWait(options)) updater.Await(gradients);
//   updater.Update(param, gradient);  // for each

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/param_groups.h"
#include "autodiff/step_scalars.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "ir/tensor_type.h"
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

/// Links a forward graph and its backward graph in one builder: the saved leaves of the
/// backward graph become the forward values themselves, the seed a number. The forward part
/// is copied at once, the backward part node by node, so that the caller may put updates
/// between them.
///
/// A linear_cross_entropy that is the loss, and that nothing else reads, is left out of the
/// forward part, because its gradient op computes the loss too. States that the forward
/// graph writes hold their new content from then on; if the backward graph reads an old
/// content, the linker copies it first.
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

/// The loss scale of a training step as nodes: a state that the gradient of the loss starts
/// from, that updates divide by, and that changes when all gradients are known. Its states
/// are "loss_scale", f32, and "loss_scale.good_steps", i64, the good steps in a row, if the
/// scale is dynamic, and "loss_scale.skipped", i64, the number of skipped steps. Its outputs
/// are "update_skipped", f32, 1 or 0, and "new:loss_scale", if the scale is dynamic.
///
///   LossScaler scaler(*options.loss_scaling, &g);
///   linker.WireUp(scaler.Seed(1));
///   ... backward, and `good`, whether all gradients are finite ...
///   Value factor = scaler.Inverse();  // of gradients, in updates
///   Value step = scaler.UpdatesUpTo(g.Input("step", DType::kI64, {}));
///   scaler.Settle(good);
class LossScaler {
 public:
  /// Declares the states. Both must outlive this.
  LossScaler(const LossScaling& scaling, GraphBuilder* g);

  /// The seed for a loss of this weight.
  LossGradient Seed(double weight) const;
  /// 1 / scale, an f32 scalar.
  Value Inverse();
  /// The number of updates up to this one, for bias correction: `step`, the number of steps,
  /// less the skipped ones.
  Value UpdatesUpTo(Value step);

  /// Emits the updates of the states; `good` is a bool scalar, true if all gradients are
  /// finite. To be called after all reads of the states.
  void Settle(Value good);

 private:
  void MoveScale(Value good);

  const LossScaling& scaling_;
  GraphBuilder& g_;
  Value scale_ = {}, good_steps_ = {};  // if the scale is dynamic
  Value skipped_;
  Value inverse_ = {};
};

/// Emits the updates of params in a training step.
class Updater {
 public:
  /// Both must outlive this.
  Updater(const TrainOptions& options, GraphBuilder* g)
      : options_(options), g_(*g) {}

  /// Declares the inputs "lr", unless groups have their own, "step" and, if an optimizer reads one, "seed", unless the
  /// model has them, those of groups, and the states of a loss scale.
  void DeclareInputs();

  /// The seed for a loss of this weight.
  LossGradient Seed(double weight = 1) const;

  /// Updates `param` by `gradient`, of its shape.
  void Update(Value param, Value gradient);
  /// Updates a block of a param by as much of its gradient.
  void Update(const ParamBlock& which, Value block, Value gradient);

  /// Makes the updates that follow scale their gradients so that the norm of all is at most
  /// options.clip_norm and without the loss scale, and with loss scaling update nothing if
  /// that norm is not finite. For options that UpdatesWait.
  void Await(const std::vector<Value>& gradients);
  /// The same from the sums of squares of the gradients, f32 scalars, added up in this order.
  void AwaitSquares(const std::vector<Value>& squares);

  /// Declares the gradients of options.gradients as outputs, without the loss scale;
  /// `gradients` has them by param.
  void GiveOut(const std::map<std::string, Value>& gradients);

 private:
  /// The inputs of updates of a param of that type in `group`, which may be null.
  UpdateInputs InputsOf(const ParamGroup* group, DType dtype);
  Value ScaledRate(Value rate, double scale);
  /// Updates the average of `block` after its update.
  void Average(Value block);
  /// The weight of the param in this step's averages of that type.
  Value AverageWeight(DType dtype);

  const TrainOptions& options_;
  GraphBuilder& g_;
  UpdateInputs inputs_;
  std::optional<LossScaler> scaler_;
  std::optional<StepScalars> scalars_;
  std::map<std::pair<ValueId, double>, Value>
      scaled_rates_;             // by rate and scale
  Value ascent_ = {};            // the scale of gradients that are ascended
  Value is_first_average_ = {};  // bool scalar
  std::map<DType, Value> average_weights_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_STEP_PARTS_H_

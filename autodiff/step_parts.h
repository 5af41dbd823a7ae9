#ifndef STOWAGE_AUTODIFF_STEP_PARTS_H_
#define STOWAGE_AUTODIFF_STEP_PARTS_H_

// Provides the components from which training steps (autodiff/train_step.h) are built: the Linker,
// which joins forward and backward graphs, the Updater, which updates params, and the LossScaler,
// which the Updater uses.
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

/// The differences between a micro-batch's graph and its copy in a step.
struct MicroBatch {
  std::string suffix = {};    // appended to the names of its nodes' results
  int64_t first_dropout = 0;  // added to the ids of its dropouts
};

/// The seed of the backward pass, which is the gradient of the loss. It is `value`, multiplied by
/// the f32 scalar `scale` if that is set.
struct LossGradient {
  double value = 1;
  Value scale = {};
};

/// Links a forward graph and its backward graph in one builder. The saved leaves of the backward
/// graph become the forward values themselves, and the seed becomes a constant or a scaled value.
/// The forward graph is copied in one call. The backward graph is copied node by node, so that the
/// caller can emit updates in between.
///
/// If the loss is a linear_cross_entropy that no other node reads, the op is omitted from the
/// forward pass, because its gradient op computes the loss, too. If the forward graph writes a
/// state and the backward graph reads the old content, the linker copies the old content before the
/// write.
class Linker {
 public:
  /// Prepares to link `forward` and its backward graph `backward` in the builder `g`. `loss` is the
  /// name of the loss. All arguments except `micro_batch` must outlive this object.
  Linker(const Graph& forward, const Graph& backward, std::string_view loss,
         GraphBuilder* g, const MicroBatch& micro_batch = {});

  /// Declares the leaves of the forward graph that are not mapped.
  void DeclareLeaves();
  /// Uses `value` for a leaf of the forward graph instead of declaring it.
  void MapLeaf(ValueId leaf, Value value) { forward_copy_.Map(leaf, value); }

  /// Appends the nodes of the forward graph, except a loss that the backward graph computes.
  void CopyForward();

  /// Maps the leaves of the backward graph to forward values, and its seed to `seed`. CopyForward
  /// must have been called. Returns kInvalidArgument if the forward graph lacks a value that the
  /// backward graph reads, or if the value has another type there.
  Status WireUp(const LossGradient& seed = {});

  /// Appends node `id` of the backward graph. Nodes must be copied in order. A constant that equals
  /// a constant of the forward graph is not copied, because constants are live for the whole step.
  void CopyBackwardNode(NodeId id);

  /// Declares the outputs of the forward graph. All nodes must have been copied.
  void DeclareOutputs();

  /// These functions return the builder's value for a value of the forward or backward graph.
  Value forward(ValueId id) const { return forward_copy_[id]; }
  Value backward(ValueId id) const { return backward_copy_[id]; }
  /// Returns the content of a leaf of the forward graph after all writes of the forward graph.
  Value last_content(ValueId leaf) const;

 private:
  // Values that the backward graph reads, indexed by the forward node that overwrites them.
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

/// A param to train.
struct Trained {
  ValueId param;     // in the forward graph
  ValueId gradient;  // in the backward graph
  /// The last backward node that computes the gradient or reads the param, or kNoNode.
  NodeId last;
};

/// The forward and backward graphs of a model. They can be linked into a step several times.
struct Differentiated {
  Graph forward;  // its loops return the saved values (SaveInLoops)
  Graph backward;
  std::vector<Trained>
      trained;  // in the same order for all micro-batches of a batch
};

/// Returns `forward` and its backward graph for the params that `options` trains. Propagates errors
/// of BuildBackward and WithoutFrozen. Returns kInvalidArgument if a pattern in `options.gradients`
/// matches no trained param.
Result<Differentiated> Differentiate(const Graph& forward,
                                     std::string_view loss,
                                     const TrainOptions& options);

/// Copies all nodes of the backward graph with `linker`. For each param model.trained[i], calls
/// `made(i)` as soon as its gradient has been emitted and no remaining node reads the param.
void CopyBackward(const Differentiated& model, Linker& linker,
                  const std::function<void(size_t)>& made);

/// Returns one more than the largest id of a dropout, random_uniform or random_normal node in
/// `graph` and its bodies, or 0 if there is none. Copies of a graph in the same step must use
/// different ids:
///
///   copy.CopyNode(id, WithDropoutIdsFrom(node, first));
///   first += DropoutIds(graph);
int64_t DropoutIds(const Graph& graph);

/// Returns the attributes of `node`, with `first` added to the id of a random op and to the ids in
/// its bodies.
Attrs WithDropoutIdsFrom(const Node& node, int64_t first);

/// Emits the nodes for the loss scale of a training step (LossScaling, autodiff/train_step.h). The
/// gradient of the loss is multiplied by the scale, updates divide by the scale, and a dynamic
/// scale is adjusted when all gradients are known.
///
/// The states are "loss_scale.skipped", i64, the number of skipped steps, and for a dynamic scale
/// also "loss_scale", f32, and "loss_scale.good_steps", i64, the number of consecutive good steps.
/// The outputs are "update_skipped", f32, 1 or 0, and for a dynamic scale also "new:loss_scale".
///
///   LossScaler scaler(*options.loss_scaling, &g);
///   linker.WireUp(scaler.Seed(1));
///   ... emit the backward pass, and `good`, whether all gradients are finite ...
///   Value factor = scaler.Inverse();  // multiplies gradients in updates
///   Value step = scaler.UpdatesUpTo(g.Input("step", DType::kI64, {}));
///   scaler.Settle(good);
class LossScaler {
 public:
  /// Declares the states. Both arguments must outlive this object.
  LossScaler(const LossScaling& scaling, GraphBuilder* g);

  /// Returns the seed of a backward pass: `weight` times the scale.
  LossGradient Seed(double weight) const;
  /// Returns 1 / scale, an f32 scalar.
  Value Inverse();
  /// Returns the number of updates up to and including this one, for bias correction: `step` minus
  /// the number of skipped steps.
  Value UpdatesUpTo(Value step);

  /// Emits the updates of the states, and declares the outputs. `good` is a bool scalar that is
  /// true if all gradients are finite. Call this function after all reads of the states.
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
  /// Prepares to emit updates into `g`. Both arguments must outlive this object.
  Updater(const TrainOptions& options, GraphBuilder* g)
      : options_(options), g_(*g) {}

  /// Declares the inputs of the groups, the states of a loss scale, and the inputs "lr", "step"
  /// and, if an optimizer reads it, "seed". If the model has an input "step" or "seed", that input
  /// is used. If a group has its own learning rate, "lr" is only declared once an update reads it.
  /// The params must have been declared.
  void DeclareInputs();

  /// Returns the seed of a backward pass: `weight`, times the loss scale if there is one.
  LossGradient Seed(double weight = 1) const;

  /// Emits the update of `param` with `gradient`, which must have the same shape.
  void Update(Value param, Value gradient);
  /// Emits the update of a block of a param with the corresponding block of its gradient. `which`
  /// describes the block.
  void Update(const ParamBlock& which, Value block, Value gradient);

  /// Computes the factor by which later updates multiply their gradients, given all gradients. The
  /// factor removes the loss scale and clips the global norm to options.clip_norm. With loss
  /// scaling, later updates do nothing if the sum of squares of all gradients is not finite.
  /// Requires UpdatesWait(options).
  void Await(const std::vector<Value>& gradients);
  /// Does the same as Await, given the sum of squares of each gradient, an f32 scalar. The sums are
  /// added up in the order of `squares`.
  void AwaitSquares(const std::vector<Value>& squares);

  /// Declares the gradients that options.gradients selects as outputs, without the loss scale.
  /// `gradients` maps the names of params to their gradients.
  void GiveOut(const std::map<std::string, Value>& gradients);

 private:
  /// Returns the inputs for updates of params of type `dtype` in `group`, which may be null.
  UpdateInputs InputsOf(const ParamGroup* group, DType dtype);
  Value ScaledRate(Value rate, double scale);
  /// Emits the update of the moving average of `block`, whose update must have been emitted.
  void Average(Value block);
  /// Returns the weight with which params are added to moving averages of type `dtype`.
  Value AverageWeight(DType dtype);

  const TrainOptions& options_;
  GraphBuilder& g_;
  UpdateInputs inputs_;
  std::optional<LossScaler> scaler_;
  std::optional<StepScalars> scalars_;
  std::map<std::pair<ValueId, double>, Value>
      scaled_rates_;             // by rate and scale
  Value ascent_ = {};            // the scale of gradients to maximize the loss
  Value is_first_average_ = {};  // bool scalar
  std::map<DType, Value> average_weights_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_STEP_PARTS_H_

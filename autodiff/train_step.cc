#include "autodiff/train_step.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autodiff/graph_copy.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/ops.h"

namespace stowage {
namespace {

template <typename... Args>
Error Fail(const Args&... args) {
  return Error{ErrorCode::kInvalidArgument, StrCat("[autodiff] ", args...)};
}

bool IsSeed(const ValueInfo& info, std::string_view loss) {
  return info.role == Role::kInput && info.name == GradientName(loss);
}

// A linear_cross_entropy whose loss is what is differentiated, and its gradient,
// which makes the same loss on its way.
struct FusedLoss {
  NodeId forward;
  NodeId backward;
};

// Nothing where the loss is something else, or where anything reads the loss or
// the log-sum-exp: readers come before the gradient, or are not known here.
std::optional<FusedLoss> FindFusedLoss(const Graph& forward,
                                       const Graph& backward,
                                       std::string_view loss) {
  const std::optional<ValueId> id = forward.Find(loss);
  if (!id || forward.value(*id).is_leaf()) return std::nullopt;
  const NodeId producer = forward.value(*id).producer;
  const Node& node = forward.node(producer);
  if (node.op != OpKind::kLinearCrossEntropy || node.results[0] != *id) {
    return std::nullopt;
  }
  for (const ValueId result : node.results) {
    if (backward.Find(forward.value(result).name)) return std::nullopt;
    for (const Node& reader : forward.nodes()) {
      if (std::ranges::count(reader.inputs, result) > 0) return std::nullopt;
    }
  }
  for (const GraphOutput& output : forward.outputs()) {
    if (output.value == node.results[1]) return std::nullopt;
  }
  for (NodeId gradient = 0; gradient < backward.num_nodes(); ++gradient) {
    const Node& other = backward.node(gradient);
    if (other.op == OpKind::kLinearCrossEntropyGrad &&
        IsSeed(backward.value(other.inputs[3]), loss)) {
      return FusedLoss{producer, gradient};
    }
  }
  return std::nullopt;
}

// Runs a forward and a backward graph in one builder: the forward graph at
// once, the backward graph node by node, as the caller asks for.
class Linker {
 public:
  /// All must outlive this.
  Linker(const Graph& forward, const Graph& backward, std::string_view loss,
         GraphBuilder* g)
      : forward_(forward),
        backward_(backward),
        loss_(loss),
        g_(*g),
        forward_copy_(forward, g),
        backward_copy_(backward, g),
        fused_(FindFusedLoss(forward, backward, loss)) {}

  /// Declares the forward graph's leaves.
  void DeclareLeaves() {
    for (ValueId id = 0; id < forward_.num_values(); ++id) {
      if (forward_.value(id).is_leaf()) forward_copy_.DeclareLeaf(id);
    }
  }

  /// Appends the forward graph's nodes, save a loss that the backward graph
  /// makes.
  void CopyForward() {
    for (NodeId id = 0; id < forward_.num_nodes(); ++id) {
      if (!fused_ || id != fused_->forward) forward_copy_.CopyNode(id);
    }
    if (!fused_) DeclareOutputs();
  }

  /// Lets forward values stand for the backward graph's leaves, and a fill of 1
  /// for the seed.
  Status WireUp() {
    for (ValueId id = 0; id < backward_.num_values(); ++id) {
      const ValueInfo& info = backward_.value(id);
      if (!info.is_leaf()) continue;
      if (IsSeed(info, loss_)) {
        g_.SetOrigin(Phase::kBackward, loss_);
        const Value seed = Fill(g_, 1, info.type.dtype, info.type.shape);
        if (!g_.Find(info.name)) g_.Name(info.name, seed);
        g_.SetRole(seed, Role::kGradient);
        backward_copy_.Map(id, seed);
        continue;
      }
      const std::optional<ValueId> source = forward_.Find(info.name);
      if (!source) {
        return Fail("graph ", Quoted(backward_.name()), " reads ",
                    Quoted(info.name), ", which graph ",
                    Quoted(forward_.name()),
                    " does not have; link a backward graph to the graph that "
                    "it was built from");
      }
      const TensorType& type = forward_.value(*source).type;
      if (type != info.type) {
        return Fail("graph ", Quoted(backward_.name()), " reads ",
                    Quoted(info.name), " as ", info.type.ToString(),
                    ", in graph ", Quoted(forward_.name()), " it is ",
                    type.ToString(),
                    "; link a backward graph to the graph that it was built "
                    "from");
      }
      backward_copy_.Map(id, forward_copy_[*source]);
    }
    return {};
  }

  /// Appends one node of the backward graph; to be called in order. A constant
  /// that the forward graph has too is not made twice: constants live as long
  /// as the step.
  void CopyBackwardNode(NodeId id) {
    const Node& node = backward_.node(id);
    if (node.op == OpKind::kConstant) {
      for (const Node& other : forward_.nodes()) {
        if (other.op != OpKind::kConstant || other.attrs != node.attrs) {
          continue;
        }
        backward_copy_.Map(node.results[0], forward_copy_[other.results[0]]);
        return;
      }
    }
    backward_copy_.CopyNode(id);
    if (fused_ && id == fused_->backward) TakeLoss();
  }

  Value forward(ValueId id) const { return forward_copy_[id]; }
  Value backward(ValueId id) const { return backward_copy_[id]; }

 private:
  void DeclareOutputs() {
    for (const GraphOutput& output : forward_.outputs()) {
      g_.Output(output.name, forward_copy_[output.value]);
    }
  }

  // The loss that came with its gradients is the forward graph's.
  void TakeLoss() {
    const ValueId id = forward_.node(fused_->forward).results[0];
    const Value loss =
        backward_copy_[backward_.node(fused_->backward).results[0]];
    const std::string& name = forward_.value(id).name;
    if (!g_.Find(name)) g_.Name(name, loss);
    forward_copy_.Map(id, loss);
    DeclareOutputs();
  }

  const Graph& forward_;
  const Graph& backward_;
  const std::string_view loss_;
  GraphBuilder& g_;
  GraphCopy forward_copy_;
  GraphCopy backward_copy_;
  const std::optional<FusedLoss> fused_;
};

Status CheckOptions(const Graph& forward, const TrainOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckOptimizer(options.optimizer));
  if (options.clip_norm &&
      !(*options.clip_norm > 0 && std::isfinite(*options.clip_norm))) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[optimizer] clip_norm is ", *options.clip_norm,
                        "; expected a finite number above 0")};
  }
  for (const std::string& name : options.wrt) {
    const std::optional<ValueId> id = forward.Find(name);
    if (!id || forward.value(*id).role == Role::kParam) continue;
    return Fail("cannot train ", Quoted(name), ", whose role is ",
                RoleName(forward.value(*id).role), "; expected a param");
  }
  if (forward.Find("lr")) {
    return Fail("graph ", Quoted(forward.name()),
                " has a value \"lr\"; the step needs this name for its "
                "learning rate");
  }
  const std::optional<ValueId> step = forward.Find("step");
  if (!step) return {};
  const ValueInfo& info = forward.value(*step);
  if (info.role != Role::kInput || info.type != TensorType{DType::kI64, {}}) {
    return Fail("\"step\" in graph ", Quoted(forward.name()), " is ",
                RoleName(info.role), " ", info.type.ToString(),
                "; the step needs this name for an input i64()");
  }
  return {};
}

// A param to train, and the last backward node (-1: none) that makes its
// gradient or reads what the update overwrites.
struct Trained {
  ValueId param;     // in the forward graph
  ValueId gradient;  // in the backward graph
  NodeId last;
};

std::vector<Trained> FindTrained(const Graph& forward, const Graph& backward) {
  const Layouts layouts = ComputeLayouts(backward);
  std::vector<NodeId> last_reader(static_cast<size_t>(backward.num_values()),
                                  kNoNode);
  for (NodeId id = 0; id < backward.num_nodes(); ++id) {
    for (const ValueId input : backward.node(id).inputs) {
      const ValueId root = layouts[static_cast<size_t>(input)].root;
      last_reader[static_cast<size_t>(root)] = id;
    }
  }
  std::vector<Trained> trained;
  const size_t prefix = GradientName("").size();
  for (const GraphOutput& output : backward.outputs()) {
    const std::string name = output.name.substr(prefix);
    NodeId last = backward.value(output.value).producer;
    if (const std::optional<ValueId> leaf = backward.Find(name)) {
      last = std::max(last, last_reader[static_cast<size_t>(*leaf)]);
    }
    trained.push_back({*forward.Find(name), output.value, last});
  }
  return trained;
}

// Emits the updates of the params that are ready.
class Updater {
 public:
  Updater(const TrainOptions& options, const Linker& linker, GraphBuilder* g)
      : options_(options), linker_(linker), g_(*g) {}

  void DeclareInputs() {
    inputs_.lr = g_.Input("lr", DType::kF32, {});
    const std::optional<Value> step = g_.Find("step");
    inputs_.step = step ? *step : g_.Input("step", DType::kI64, {});
  }

  void Update(const Trained& trained) {
    const Value param = linker_.forward(trained.param);
    if (!param.ok()) return;
    g_.SetOrigin(Phase::kUpdate, g_.info(param).name);
    EmitUpdate(options_.optimizer, param, linker_.backward(trained.gradient),
               inputs_);
  }

  void Clip(const std::vector<Trained>& all) {
    std::vector<Value> gradients;
    for (const Trained& trained : all) {
      gradients.push_back(linker_.backward(trained.gradient));
    }
    g_.SetOrigin(Phase::kUpdate, "grad_norm");
    const ClipScale clip = EmitClipScale(g_, gradients, *options_.clip_norm);
    inputs_.clip_scale = clip.scale;
    g_.Output("grad_norm", g_.Name("grad_norm", clip.norm));
  }

 private:
  const TrainOptions& options_;
  const Linker& linker_;
  GraphBuilder& g_;
  UpdateInputs inputs_;
};

}  // namespace

Result<Graph> LinkBackward(const Graph& forward, const Graph& backward,
                           std::string_view loss) {
  GraphBuilder g(StrCat(forward.name(), ".linked"));
  Linker linker(forward, backward, loss, &g);
  linker.DeclareLeaves();
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(linker.WireUp());
  for (NodeId id = 0; id < backward.num_nodes(); ++id) {
    linker.CopyBackwardNode(id);
  }
  for (const GraphOutput& output : backward.outputs()) {
    g.Output(output.name, linker.backward(output.value));
  }
  return g.Finish();
}

Result<Graph> BuildTrainStep(const Graph& forward, std::string_view loss,
                             const TrainOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckOptions(forward, options));
  STOWAGE_ASSIGN_OR_RETURN(
      const Graph backward,
      BuildBackward(forward, loss, BackwardOptions{.wrt = options.wrt}));
  const std::vector<Trained> all = FindTrained(forward, backward);

  GraphBuilder g(StrCat(forward.name(), ".step"));
  Linker linker(forward, backward, loss, &g);
  Updater updater(options, linker, &g);
  linker.DeclareLeaves();
  updater.DeclareInputs();
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(linker.WireUp());

  std::multimap<NodeId, Trained> ready;  // when updates may follow
  if (!options.clip_norm) {
    for (const Trained& trained : all) ready.emplace(trained.last, trained);
  }
  const auto update_ready = [&](NodeId id) {
    const auto [begin, end] = ready.equal_range(id);
    for (auto it = begin; it != end; ++it) updater.Update(it->second);
  };
  update_ready(kNoNode);
  for (NodeId id = 0; id < backward.num_nodes(); ++id) {
    linker.CopyBackwardNode(id);
    update_ready(id);
  }
  if (options.clip_norm) {
    updater.Clip(all);
    for (const Trained& trained : all) updater.Update(trained);
  }
  return g.Finish();
}

}  // namespace stowage

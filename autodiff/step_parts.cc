#include "autodiff/step_parts.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "autodiff/backward.h"
#include "autodiff/optimizer.h"
#include "autodiff/param_groups.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/uses.h"

namespace stowage {
namespace {

std::vector<Trained> FindTrained(const Graph& forward, const Graph& backward) {
  const Layouts layouts = ComputeLayouts(backward);
  const Uses uses(backward, layouts);
  std::vector<Trained> trained;
  const size_t prefix = GradientName("").size();
  for (const GraphOutput& output : backward.outputs()) {
    const std::string name = output.name.substr(prefix);
    NodeId last = backward.value(output.value).producer;
    if (const std::optional<ValueId> leaf = backward.Find(name)) {
      last = std::max(last, uses.last_use(*leaf));
    }
    trained.push_back({*forward.Find(name), output.value, last});
  }
  return trained;
}

// Error: a pattern of `gradients` matches no trained param.
Status CheckGradients(const Graph& forward, const std::vector<Trained>& trained,
                      const TrainOptions& options) {
  for (const std::string& pattern : options.gradients) {
    const auto matches = [&](const Trained& t) {
      return GlobMatches(pattern, forward.value(t.param).name);
    };
    if (std::ranges::any_of(trained, matches)) continue;
    return InvalidArgumentError(
        "[autodiff] pattern ", Quoted(pattern),
        " of the gradients to give out matches none of the ", trained.size(),
        " params that are trained, such as ",
        Quoted(forward.value(trained.front().param).name));
  }
  return {};
}

bool HasId(OpKind op) {
  return op == OpKind::kDropout || op == OpKind::kRandomUniform ||
         op == OpKind::kRandomNormal;
}

}  // namespace

Linker::Linker(const Graph& forward, const Graph& backward,
               std::string_view loss, GraphBuilder* g,
               const MicroBatch& micro_batch)
    : forward_(forward),
      backward_(backward),
      loss_(loss),
      uses_(forward, ComputeLayouts(forward)),
      g_(*g),
      micro_batch_(micro_batch),
      forward_copy_(forward, g, micro_batch.suffix),
      backward_copy_(backward, g, micro_batch.suffix),
      fused_(FindFusedLoss()) {}

bool Linker::IsSeed(const ValueInfo& info) const {
  return info.role == Role::kInput && info.name == GradientName(loss_);
}

// Nothing if the loss is another op's, or if anything reads the loss or the losses of rows:
// such readers come before the gradient or are unknown here.
std::optional<Linker::FusedLoss> Linker::FindFusedLoss() const {
  const std::optional<ValueId> id = forward_.Find(loss_);
  if (!id || forward_.value(*id).is_leaf()) return std::nullopt;
  const NodeId producer = forward_.value(*id).producer;
  const Node& node = forward_.node(producer);
  if (node.op != OpKind::kLinearCrossEntropy || node.results[0] != *id) {
    return std::nullopt;
  }
  for (const ValueId result : node.results) {
    if (backward_.Find(forward_.value(result).name)) return std::nullopt;
    if (!uses_.uses(result).empty()) return std::nullopt;
  }
  if (uses_.is_output(node.results[1])) return std::nullopt;
  for (NodeId gradient = 0; gradient < backward_.num_nodes(); ++gradient) {
    const Node& other = backward_.node(gradient);
    if (other.op == OpKind::kLinearCrossEntropyGrad &&
        IsSeed(backward_.value(other.inputs[3]))) {
      return FusedLoss{producer, gradient};
    }
  }
  return std::nullopt;
}

void Linker::DeclareLeaves() { forward_copy_.DeclareLeaves(); }

Linker::Overwritten Linker::FindOverwritten() const {
  Overwritten overwritten;
  for (const ValueInfo& leaf : backward_.values()) {
    if (!leaf.is_leaf()) continue;
    const std::optional<ValueId> id = forward_.Find(leaf.name);
    if (id && uses_.overwriter(*id) != kNoNode) {
      overwritten.emplace(uses_.overwriter(*id), *id);
    }
  }
  return overwritten;
}

void Linker::CopyForward() {
  const Overwritten overwritten = FindOverwritten();
  for (NodeId id = 0; id < forward_.num_nodes(); ++id) {
    if (fused_ && id == fused_->forward) continue;
    const auto [begin, end] = overwritten.equal_range(id);
    for (auto old = begin; old != end; ++old) {
      const ValueInfo& info = forward_.value(old->second);
      g_.SetOrigin(Phase::kForward, "", info.source);
      const Value copy = Copy(forward_copy_[old->second]);
      const std::string name = StrCat("old:", info.name, micro_batch_.suffix);
      if (!g_.Find(name)) g_.Name(name, copy);
      old_contents_[old->second] = copy;
    }
    CopyNode(forward_copy_, forward_.node(id), id);
  }
}

Value Linker::last_content(ValueId leaf) const {
  ValueId id = leaf;
  for (NodeId n = uses_.overwriter(id); n != kNoNode;
       n = uses_.overwriter(id)) {
    const Node& node = forward_.node(n);
    const auto target = std::ranges::find(node.inputs, id);
    id = node.results[static_cast<size_t>(target - node.inputs.begin())];
  }
  return forward_copy_[id];
}

Value Linker::EmitSeed(const LossGradient& seed, const ValueInfo& leaf) {
  const auto& [dtype, shape] = leaf.type;
  Value emitted;
  if (seed.scale.builder() == nullptr) {
    emitted = Fill(g_, seed.value, dtype, shape);
  } else {
    // Computed in a type with the scale's range and the number's precision.
    const DType wide = dtype == DType::kF64 ? dtype : DType::kF32;
    const Value scaled = MulScalar(Cast(seed.scale, wide), seed.value);
    emitted = BroadcastTo(Cast(scaled, dtype), shape);
  }
  const std::string name = leaf.name + micro_batch_.suffix;
  if (!g_.Find(name)) g_.Name(name, emitted);
  g_.SetRole(emitted, Role::kGradient);
  return emitted;
}

Status Linker::WireUp(const LossGradient& seed) {
  for (ValueId id = 0; id < backward_.num_values(); ++id) {
    const ValueInfo& info = backward_.value(id);
    if (!info.is_leaf()) continue;
    if (IsSeed(info)) {
      const std::optional<ValueId> loss = forward_.Find(loss_);
      g_.SetOrigin(Phase::kBackward, loss_,
                   loss ? forward_.value(*loss).source : SourceLoc{});
      backward_copy_.Map(id, EmitSeed(seed, info));
      continue;
    }
    const std::optional<ValueId> source = forward_.Find(info.name);
    if (!source) {
      return InvalidArgumentError(
          "[autodiff] graph ", Quoted(backward_.name()), " reads ",
          Quoted(info.name), ", which graph ", Quoted(forward_.name()),
          " does not have; link a backward graph to the graph that it "
          "was built from");
    }
    const TensorType& type = forward_.value(*source).type;
    if (type != info.type) {
      return InvalidArgumentError(
          "[autodiff] graph ", Quoted(backward_.name()), " reads ",
          Quoted(info.name), " as ", info.type.ToString(), ", in graph ",
          Quoted(forward_.name()), " it is ", type.ToString(),
          "; link a backward graph to the graph that it was built from");
    }
    const auto old = old_contents_.find(*source);
    backward_copy_.Map(
        id, old == old_contents_.end() ? forward_copy_[*source] : old->second);
  }
  return {};
}

void Linker::CopyBackwardNode(NodeId id) {
  const Node& node = backward_.node(id);
  if (node.op == OpKind::kConstant) {
    for (const Node& other : forward_.nodes()) {
      if (other.op != OpKind::kConstant || other.attrs != node.attrs) continue;
      backward_copy_.Map(node.results[0], forward_copy_[other.results[0]]);
      return;
    }
  }
  CopyNode(backward_copy_, node, id);
  if (!fused_ || id != fused_->backward) return;
  // The gradient op computes the forward graph's loss.
  const ValueId lost = forward_.node(fused_->forward).results[0];
  const Value loss = backward_copy_[node.results[0]];
  const std::string name = forward_.value(lost).name + micro_batch_.suffix;
  if (!g_.Find(name)) g_.Name(name, loss);
  forward_copy_.Map(lost, loss);
}

void Linker::CopyNode(GraphCopy& copy, const Node& node, NodeId id) {
  if (micro_batch_.first_dropout == 0) {
    copy.CopyNode(id);
  } else {
    copy.CopyNode(id, WithDropoutIdsFrom(node, micro_batch_.first_dropout));
  }
}

void Linker::DeclareOutputs() { forward_copy_.DeclareOutputs(); }

Result<Differentiated> Differentiate(const Graph& forward,
                                     std::string_view loss,
                                     const TrainOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(std::vector<std::string> wrt,
                           WithoutFrozen(forward, options.wrt, options.groups));
  STOWAGE_ASSIGN_OR_RETURN(
      Graph backward,
      BuildBackward(forward, loss, BackwardOptions{.wrt = std::move(wrt)}));
  STOWAGE_ASSIGN_OR_RETURN(Graph saving, SaveInLoops(forward, backward));
  std::vector<Trained> trained = FindTrained(saving, backward);
  STOWAGE_RETURN_IF_ERROR(CheckGradients(saving, trained, options));
  return Differentiated{std::move(saving), std::move(backward),
                        std::move(trained)};
}

void CopyBackward(const Differentiated& model, Linker& linker,
                  const std::function<void(size_t)>& made) {
  std::multimap<NodeId, size_t> ready;
  for (size_t i = 0; i < model.trained.size(); ++i) {
    ready.emplace(model.trained[i].last, i);
  }
  const auto report = [&](NodeId id) {
    const auto [begin, end] = ready.equal_range(id);
    for (auto it = begin; it != end; ++it) made(it->second);
  };
  report(kNoNode);
  for (NodeId id = 0; id < model.backward.num_nodes(); ++id) {
    linker.CopyBackwardNode(id);
    report(id);
  }
}

int64_t DropoutIds(const Graph& graph) {
  int64_t ids = 0;
  for (const Node& node : graph.nodes()) {
    if (HasId(node.op)) {
      ids = std::max(ids, node.attrs.Int("id") + 1);
    }
    for (const auto& body : BodiesOf(node)) {
      ids = std::max(ids, DropoutIds(*body));
    }
  }
  return ids;
}

Attrs WithDropoutIdsFrom(const Node& node, int64_t first) {
  Attrs attrs = node.attrs;
  if (HasId(node.op)) attrs.Set("id", attrs.Int("id") + first);
  if (BodiesOf(node).empty()) return attrs;
  SubGraphs bodies;
  for (const auto& body : BodiesOf(node)) {
    if (DropoutIds(*body) == 0) {
      bodies.push_back(body);
      continue;
    }
    GraphBuilder g(body->name());
    GraphCopy copy(*body, &g);
    copy.DeclareLeaves();
    for (NodeId id = 0; id < body->num_nodes(); ++id) {
      copy.CopyNode(id, WithDropoutIdsFrom(body->node(id), first));
    }
    copy.DeclareOutputs();
    Result<Graph> copied = g.Finish();
    STOWAGE_CHECK(copied.ok());
    bodies.push_back(std::make_shared<const Graph>(*std::move(copied)));
  }
  attrs.Set("bodies", std::move(bodies));
  return attrs;
}

LossScaler::LossScaler(const LossScaling& scaling, GraphBuilder* g)
    : scaling_(scaling), g_(*g) {
  if (scaling_.is_dynamic) {
    scale_ = g_.State("loss_scale", DType::kF32, {},
                      Init::Constant(scaling_.init_scale));
    good_steps_ = g_.State("loss_scale.good_steps", DType::kI64, {});
  }
  skipped_ = g_.State("loss_scale.skipped", DType::kI64, {});
}

LossGradient LossScaler::Seed(double weight) const {
  if (scaling_.is_dynamic) return {weight, scale_};
  return {weight * scaling_.init_scale, Value()};
}

Value LossScaler::Inverse() {
  if (inverse_.builder() != nullptr) return inverse_;
  g_.SetOrigin(Phase::kUpdate, "loss_scale");
  inverse_ = scaling_.is_dynamic
                 ? Reciprocal(scale_)
                 : Fill(g_, 1 / scaling_.init_scale, DType::kF32, {});
  return inverse_;
}

Value LossScaler::UpdatesUpTo(Value step) {
  g_.SetOrigin(Phase::kUpdate, "loss_scale");
  return Sub(step, skipped_);
}

void LossScaler::Settle(Value good) {
  g_.SetOrigin(Phase::kUpdate, "loss_scale");
  const Value is_skipped = LogicalNot(good);
  Assign(skipped_, Add(skipped_, Cast(is_skipped, DType::kI64)));
  g_.Output("update_skipped",
            g_.Name("update_skipped", Cast(is_skipped, DType::kF32)));
  if (scaling_.is_dynamic) MoveScale(good);
}

// The scale stays if it or its inverse would leave the range of f32.
void LossScaler::MoveScale(Value good) {
  const Value count = AddScalar(good_steps_, 1);
  const Value is_due = Equal(
      count,
      Fill(g_, static_cast<double>(scaling_.growth_interval), DType::kI64, {}));
  const Value larger = MulScalar(scale_, scaling_.growth_factor);
  const Value smaller = MulScalar(scale_, scaling_.backoff_factor);
  const Value grows = LogicalAnd(
      is_due, LessEqual(larger, Fill(g_, std::numeric_limits<float>::max(),
                                     DType::kF32, {})));
  const Value after_good = Where(grows, larger, scale_);
  const Value after_bad = Maximum(
      smaller, Fill(g_, std::numeric_limits<float>::min(), DType::kF32, {}));
  const Value counts_on = LogicalAnd(good, LogicalNot(is_due));
  Assign(good_steps_, Where(counts_on, count, Fill(g_, 0, DType::kI64, {})));
  const Value moved = Assign(scale_, Where(good, after_good, after_bad));
  g_.Output("new:loss_scale", g_.Name("new:loss_scale", moved));
}

void Updater::DeclareInputs() {
  const auto has_rate = [](const ParamGroup& group) { return group.inputs.lr; };
  if (std::ranges::none_of(options_.groups, has_rate)) {
    inputs_.lr = g_.Input("lr", DType::kF32, {});
  }
  const std::optional<Value> step = g_.Find("step");
  inputs_.step = step ? *step : g_.Input("step", DType::kI64, {});
  if (options_.loss_scaling) scaler_.emplace(*options_.loss_scaling, &g_);
  const auto is_f64 = [&](ValueId id) {
    return g_.graph().value(id).type.dtype == DType::kF64;
  };
  const bool has_f64 =
      std::ranges::any_of(g_.graph().Leaves(Role::kParam), is_f64);
  const DType dtype = has_f64 ? DType::kF64 : DType::kF32;
  inputs_.scalars = &scalars_.emplace(&g_, dtype);
  for (const ParamGroup& group : options_.groups) {
    const auto declare = [&](bool is_input, const std::string& name) {
      if (is_input && !g_.Find(name)) g_.Input(name, dtype, {});
    };
    declare(group.inputs.lr, GroupRateName(group.name));
    declare(group.inputs.momentum, GroupMomentumName(group.name));
    declare(group.inputs.decay, GroupDecayName(group.name));
  }
  if (!UpdatesReadSeed(options_)) return;
  const std::optional<Value> seed = g_.Find("seed");
  inputs_.seed = seed ? *seed : g_.Input("seed", DType::kI64, {});
}

LossGradient Updater::Seed(double weight) const {
  return scaler_ ? scaler_->Seed(weight) : LossGradient{.value = weight};
}

void Updater::Update(Value param, Value gradient) {
  if (!param.ok()) return;
  Update(
      {.param = g_.info(param).name, .elements = param.shape().num_elements()},
      param, gradient);
}

void Updater::Update(const ParamBlock& which, Value block, Value gradient) {
  if (!block.ok()) return;
  const ParamGroup* const group = FindParamGroup(options_.groups, which.param);
  const UpdateInputs inputs = InputsOf(group, block.dtype());
  g_.SetOrigin(Phase::kUpdate, which.param, g_.info(block).source);
  EmitUpdate(OptimizerOfGroup(options_.optimizer, group), which, block,
             gradient, inputs);
  if (options_.ema) Average(block);
}

UpdateInputs Updater::InputsOf(const ParamGroup* group, DType dtype) {
  const GroupInputs own = group == nullptr ? GroupInputs{} : group->inputs;
  g_.SetOrigin(Phase::kUpdate, "lr");
  if (!own.lr && !inputs_.lr.ok()) {
    inputs_.lr = g_.Input("lr", DType::kF32, {});
  }
  UpdateInputs inputs = inputs_;
  if (group == nullptr) return inputs;
  if (own.lr) {
    inputs.lr = *g_.Find(GroupRateName(group->name));
    // The ops of updates read f32.
    const bool is_wide = inputs.lr.dtype() != DType::kF32;
    if (is_wide && dtype != DType::kF64) {
      inputs.lr = scalars_->As(scalars_->Of(inputs.lr), DType::kF32);
    }
  }
  inputs.lr = ScaledRate(inputs.lr, group->lr_scale);
  if (own.momentum) inputs.momentum = *g_.Find(GroupMomentumName(group->name));
  if (own.decay) inputs.decay = *g_.Find(GroupDecayName(group->name));
  if (group->maximize) {
    if (!ascent_.ok()) {
      const bool has_scale = inputs_.scale.builder() != nullptr;
      ascent_ = has_scale ? Neg(inputs_.scale) : Fill(g_, -1, DType::kF32, {});
    }
    inputs.scale = ascent_;
  }
  return inputs;
}

void Updater::Average(Value block) {
  const std::string name = g_.info(block).name;  // a copy: the graph grows
  const std::optional<Value> updated = g_.Find(StrCat("new:", name));
  if (!updated) {
    g_.Fail(Error{ErrorCode::kUnsupported,
                  StrCat("[optimizer] the update of ", Quoted(name), " by ",
                         OptimizerName(options_.optimizer),
                         " does not name the new content, which an average is "
                         "of; expected one that writes by Set, or no ema")});
    return;
  }
  const DType dtype = block.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const std::string average = AverageName(name);
  const Value moved = LerpUpdate(g_.State(average, dtype, block.shape()),
                                 Cast(*updated, dtype), AverageWeight(dtype));
  if (moved.ok()) g_.Name(StrCat("new:", average), moved);
}

// A weight of infinity changes nothing (LerpUpdate).
Value Updater::AverageWeight(DType dtype) {
  if (is_first_average_.builder() == nullptr) {
    const Value updates =
        g_.State(std::string(kAverageUpdates), DType::kI64, {});
    is_first_average_ = Equal(updates, Fill(g_, 0, DType::kI64, {}));
    const bool may_skip = inputs_.good.builder() != nullptr;
    const Value more = may_skip ? Cast(inputs_.good, DType::kI64)
                                : Fill(g_, 1, DType::kI64, {});
    Assign(updates, Add(updates, more));
  }
  const auto [weight, is_new] = average_weights_.emplace(dtype, Value());
  if (!is_new) return weight->second;
  weight->second = Where(is_first_average_, Fill(g_, 1, dtype, {}),
                         Fill(g_, 1 - *options_.ema, dtype, {}));
  if (inputs_.good.builder() != nullptr) {
    const double never = std::numeric_limits<double>::infinity();
    weight->second =
        Where(inputs_.good, weight->second, Fill(g_, never, dtype, {}));
  }
  return weight->second;
}

void Updater::Await(const std::vector<Value>& gradients) {
  g_.SetOrigin(Phase::kUpdate, "grad_norm");
  std::vector<Value> squares;
  for (const Value& gradient : gradients) {
    squares.push_back(Cast(SumSquares(gradient), DType::kF32));
  }
  AwaitSquares(squares);
}

// A sum of squares is finite if all gradients are finite and below 2^64, the square root of
// f32's range, as every finite f16 is.
void Updater::AwaitSquares(const std::vector<Value>& squares) {
  g_.SetOrigin(Phase::kUpdate, "grad_norm");
  Value total;
  for (const Value& each : squares) {
    total = total.ok() ? Add(total, each) : each;
  }
  if (options_.clip_norm) {
    Value norm = Sqrt(total);
    if (scaler_) norm = Mul(norm, scaler_->Inverse());
    g_.SetOrigin(Phase::kUpdate, "grad_norm");
    g_.Output("grad_norm", g_.Name("grad_norm", norm));
    inputs_.scale = EmitClipScale(norm, *options_.clip_norm);
  }
  if (!scaler_) return;
  const Value inverse = scaler_->Inverse();
  g_.SetOrigin(Phase::kUpdate, "loss_scale");
  const Value scale =
      options_.clip_norm ? Mul(inputs_.scale, inverse) : inverse;
  const Value most =
      Fill(g_, std::numeric_limits<float>::max(), DType::kF32, {});
  const Value never =
      Fill(g_, std::numeric_limits<float>::infinity(), DType::kF32, {});
  inputs_.good = LessEqual(total, most);
  inputs_.scale = Where(inputs_.good, scale, never);
  inputs_.step = scaler_->UpdatesUpTo(inputs_.step);
  scaler_->Settle(inputs_.good);
}

void Updater::GiveOut(const std::map<std::string, Value>& gradients) {
  for (const auto& [param, gradient] : gradients) {
    const auto matches = [&param = param](const std::string& pattern) {
      return GlobMatches(pattern, param);
    };
    if (std::ranges::none_of(options_.gradients, matches)) continue;
    const std::string name = GradientName(param);
    if (!scaler_) {
      g_.Output(name, gradient);
      continue;
    }
    const Value inverse = scaler_->Inverse();
    g_.SetOrigin(Phase::kUpdate, param);
    g_.Name(StrCat("scaled:", name), gradient);
    g_.Output(name, g_.Name(name, EmitScaled(gradient, inverse)));
  }
}

// The learning rate times `scale`, emitted once for all updates that read it.
Value Updater::ScaledRate(Value rate, double scale) {
  if (scale == 1 || !rate.ok()) return rate;
  Value& scaled = scaled_rates_[{rate.id(), scale}];
  if (scaled.ok()) return scaled;
  scaled = MulScalar(rate, scale);
  const std::string name = StrCat("lr*", scale);
  if (scaled.ok() && !g_.Find(name)) g_.Name(name, scaled);
  return scaled;
}

}  // namespace stowage

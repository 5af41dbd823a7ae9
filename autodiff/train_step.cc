#include "autodiff/train_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "autodiff/dropout_ids.h"
#include "autodiff/linker.h"
#include "autodiff/piece_outputs.h"
#include "autodiff/saved_in_loops.h"
#include "base/glob.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "ir/uses.h"

namespace stowage {
namespace {

template <typename... Args>
Error Fail(const Args&... args) {
  return Error{ErrorCode::kInvalidArgument, StrCat("[autodiff] ", args...)};
}

// That `name`, if the model has it, can be the step's input, too.
Status CheckScalarInput(const Graph& forward, std::string_view name) {
  const std::optional<ValueId> id = forward.Find(name);
  if (!id) return {};
  const ValueInfo& info = forward.value(*id);
  if (info.role != Role::kInput || info.type != TensorType{DType::kI64, {}}) {
    return Fail(Quoted(name), " in graph ", Quoted(forward.name()), " is ",
                RoleName(info.role), " ", info.type.ToString(),
                "; the step needs this name for an input i64()");
  }
  return {};
}

Status CheckOptions(const Graph& forward, const TrainOptions& options) {
  for (const ValueId id : forward.Leaves(Role::kCache)) {
    return Fail("graph ", Quoted(forward.name()), " has the cache ",
                Quoted(forward.value(id).name),
                "; a step of training keeps nothing for the next one but "
                "params and states");
  }
  STOWAGE_RETURN_IF_ERROR(CheckOptimizer(options.optimizer));
  if (options.clip_norm &&
      !(*options.clip_norm > 0 && std::isfinite(*options.clip_norm))) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[optimizer] clip_norm is ", *options.clip_norm,
                        "; expected a finite number above 0")};
  }
  STOWAGE_RETURN_IF_ERROR(CheckParamGroups(forward, options.groups));
  for (const std::string& name : options.wrt) {
    const std::optional<ValueId> id = forward.Find(name);
    if (!id || forward.value(*id).role == Role::kParam) continue;
    return Fail("cannot train ", Quoted(name), ", whose role is ",
                RoleName(forward.value(*id).role), "; expected a param");
  }
  for (const std::string& name : options.sums) {
    const auto is_it = [&](const GraphOutput& output) {
      return output.name == name;
    };
    if (std::ranges::any_of(forward.outputs(), is_it)) continue;
    return Fail("graph ", Quoted(forward.name()), " has no output ",
                Quoted(name), " to be a sum over the batch");
  }
  if (forward.Find("lr")) {
    return Fail("graph ", Quoted(forward.name()),
                " has a value \"lr\"; the step needs this name for its "
                "learning rate");
  }
  STOWAGE_RETURN_IF_ERROR(CheckScalarInput(forward, "step"));
  if (!ReadsSeed(options.optimizer)) return {};
  return CheckScalarInput(forward, "seed");
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

// Emits the updates of the params whose gradients are there.
class Updater {
 public:
  Updater(const TrainOptions& options, GraphBuilder* g)
      : options_(options), g_(*g) {}

  void DeclareInputs() {
    inputs_.lr = g_.Input("lr", DType::kF32, {});
    const std::optional<Value> step = g_.Find("step");
    inputs_.step = step ? *step : g_.Input("step", DType::kI64, {});
    if (!ReadsSeed(options_.optimizer)) return;
    const std::optional<Value> seed = g_.Find("seed");
    inputs_.seed = seed ? *seed : g_.Input("seed", DType::kI64, {});
  }

  void Update(Value param, Value gradient) {
    if (!param.ok()) return;
    const std::string name = g_.info(param).name;  // a copy: the graph grows
    const ParamGroup* const group = FindParamGroup(options_.groups, name);
    UpdateInputs inputs = inputs_;
    if (group != nullptr) inputs.lr = ScaledRate(group->lr_scale);
    g_.SetOrigin(Phase::kUpdate, name, g_.info(param).source);
    EmitUpdate(OptimizerOfGroup(options_.optimizer, group), param, gradient,
               inputs);
  }

  void Clip(const std::vector<Value>& gradients) {
    g_.SetOrigin(Phase::kUpdate, "grad_norm");
    const ClipScale clip = EmitClipScale(g_, gradients, *options_.clip_norm);
    inputs_.clip_scale = clip.scale;
    g_.Output("grad_norm", g_.Name("grad_norm", clip.norm));
  }

 private:
  // The learning rate times `scale`, made by the first update that reads it,
  // for all of them.
  Value ScaledRate(double scale) {
    if (scale == 1) return inputs_.lr;
    const auto [rate, is_new] = scaled_rates_.emplace(scale, Value());
    if (!is_new) return rate->second;
    g_.SetOrigin(Phase::kUpdate, "lr");
    rate->second = MulScalar(inputs_.lr, scale);
    const std::string name = StrCat("lr*", scale);
    if (!g_.Find(name)) g_.Name(name, rate->second);
    return rate->second;
  }

  const TrainOptions& options_;
  GraphBuilder& g_;
  UpdateInputs inputs_;
  std::map<double, Value> scaled_rates_;  // by scale
};

bool IsAskedFor(const TrainOptions& options, std::string_view param) {
  return std::ranges::any_of(
      options.gradients,
      [&](const std::string& pattern) { return GlobMatches(pattern, param); });
}

// The gradients that are outputs, by param.
void DeclareGradients(const TrainOptions& options,
                      const std::map<std::string, Value>& gradients,
                      GraphBuilder* g) {
  for (const auto& [param, gradient] : gradients) {
    if (IsAskedFor(options, param)) g->Output(GradientName(param), gradient);
  }
}

// That every pattern of `gradients` is for a param that is trained.
Status CheckGradients(const Graph& forward, const std::vector<Trained>& trained,
                      const TrainOptions& options) {
  for (const std::string& pattern : options.gradients) {
    const auto matches = [&](const Trained& t) {
      return GlobMatches(pattern, forward.value(t.param).name);
    };
    if (std::ranges::any_of(trained, matches)) continue;
    return Fail("pattern ", Quoted(pattern),
                " of the gradients to give out matches none of the ",
                trained.size(), " params that are trained, such as ",
                Quoted(forward.value(trained.front().param).name));
  }
  return {};
}

// Differentiated once, however often it runs.
struct PieceGraphs {
  Graph forward;  // which saves in its loops what backward reads
  Graph backward;
  std::vector<Trained> trained;  // in one order for all pieces of a batch
};

Result<PieceGraphs> Differentiate(const Graph& forward, std::string_view loss,
                                  const TrainOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(std::vector<std::string> wrt,
                           WithoutFrozen(forward, options.wrt, options.groups));
  STOWAGE_ASSIGN_OR_RETURN(
      Graph backward,
      BuildBackward(forward, loss, BackwardOptions{.wrt = std::move(wrt)}));
  STOWAGE_ASSIGN_OR_RETURN(Graph saving, SaveInLoops(forward, backward));
  std::vector<Trained> trained = FindTrained(saving, backward);
  STOWAGE_RETURN_IF_ERROR(CheckGradients(saving, trained, options));
  return PieceGraphs{std::move(saving), std::move(backward),
                     std::move(trained)};
}

// Copies the backward nodes; `made` is told of each gradient, as an index of
// trained, once it is there and nothing will read its param any more.
template <typename Made>
void CopyBackward(const PieceGraphs& graphs, Linker& linker, const Made& made) {
  std::multimap<NodeId, size_t> ready;
  for (size_t i = 0; i < graphs.trained.size(); ++i) {
    ready.emplace(graphs.trained[i].last, i);
  }
  const auto tell = [&](NodeId id) {
    const auto [begin, end] = ready.equal_range(id);
    for (auto it = begin; it != end; ++it) made(it->second);
  };
  tell(kNoNode);
  for (NodeId id = 0; id < graphs.backward.num_nodes(); ++id) {
    linker.CopyBackwardNode(id);
    tell(id);
  }
}

// Where the pieces of a batch lie in its inputs.
class BatchAxes {
 public:
  explicit BatchAxes(const Graph& whole) : whole_(whole) {}

  /// Notes where `piece`, the next one, lies. Error: it is not a part.
  Status Add(const Graph& piece);
  /// Error: the pieces do not make up the batch.
  Status CheckComplete() const;

  /// The last added piece's share of the batch.
  double weight() const { return weight_; }
  /// What stands in it for the leaf `id` of `piece`, given the whole's.
  Value Part(const Graph& piece, ValueId id, Value whole) const;

 private:
  struct Split {
    int axis = 0;
    int64_t start = 0, end = 0;  // of the last added piece
  };

  Status Mismatch(const Graph& piece, const ValueInfo& info,
                  std::string_view why) const;

  const Graph& whole_;
  std::map<std::string, Split, std::less<>> splits_;  // by input
  double weight_ = 1;
};

Status BatchAxes::Mismatch(const Graph& piece, const ValueInfo& info,
                           std::string_view why) const {
  const std::optional<ValueId> id = whole_.Find(info.name);
  return Fail("piece ", Quoted(piece.name()), " has ", RoleName(info.role), " ",
              Quoted(info.name), " of ", info.type.ToString(), ", batch ",
              Quoted(whole_.name()), " has ",
              id ? whole_.value(*id).type.ToString() : std::string("none"),
              "; ", why);
}

Status BatchAxes::Add(const Graph& piece) {
  weight_ = 0;
  for (ValueId id = 0; id < piece.num_values(); ++id) {
    const ValueInfo& info = piece.value(id);
    if (!info.is_leaf()) continue;
    const std::optional<ValueId> in_whole = whole_.Find(info.name);
    if (!in_whole || whole_.value(*in_whole).role != info.role) {
      return Mismatch(piece, info, "build both with the same model");
    }
    const TensorType& all = whole_.value(*in_whole).type;
    const bool known = splits_.contains(info.name);
    if (all == info.type && !known) continue;
    const Shape& part = info.type.shape;
    int axis = known ? splits_[info.name].axis : 0;
    while (!known && axis < part.rank() && axis < all.shape.rank() &&
           part[axis] == all.shape[axis]) {
      ++axis;
    }
    Shape rest = part;
    if (axis < part.rank() && axis < all.shape.rank()) {
      rest[axis] = all.shape[axis];
    }
    if (info.role != Role::kInput || all != TensorType{info.type.dtype, rest}) {
      return Mismatch(piece, info,
                      "only inputs may differ, and in one dimension");
    }
    Split& split = splits_[info.name];
    split.axis = axis;
    split.start = split.end;
    split.end += part[axis];
    const double weight =
        static_cast<double>(part[axis]) / static_cast<double>(all.shape[axis]);
    if (split.end > all.shape[axis] || (weight_ != 0 && weight != weight_)) {
      return Mismatch(piece, info,
                      "all inputs must be cut at the same examples");
    }
    weight_ = weight;
  }
  if (weight_ > 0) return {};
  return Fail(
      "piece ", Quoted(piece.name()),
      " takes as much as the whole batch in every input; expected parts "
      "of it");
}

Status BatchAxes::CheckComplete() const {
  for (const auto& [name, split] : splits_) {
    const int64_t size =
        whole_.value(*whole_.Find(name)).type.shape[split.axis];
    if (split.end == size) continue;
    return Fail("the pieces take ", split.end, " of the ", size,
                " examples of input ", Quoted(name),
                "; expected every example once");
  }
  return {};
}

Value BatchAxes::Part(const Graph& piece, ValueId id, Value whole) const {
  const auto it = splits_.find(piece.value(id).name);
  if (it == splits_.end()) return whole;
  return Slice(whole, it->second.axis, it->second.start, it->second.end);
}

// Finishing may put copies between nodes: what begins where is found by name.
Result<MicroBatchedStep> FinishPieces(GraphBuilder& g,
                                      const std::vector<NodeId>& begins,
                                      std::vector<int64_t> counts) {
  if (g.error()) return *g.error();
  std::vector<std::string> names;
  for (const NodeId id : begins) {
    const Graph& graph = g.graph();
    names.push_back(graph.value(graph.node(id).results[0]).name);
  }
  MicroBatchedStep step{.counts = std::move(counts)};
  STOWAGE_ASSIGN_OR_RETURN(step.graph, g.Finish());
  for (const std::string& name : names) {
    const ValueId first = *step.graph.Find(name);
    step.begins.push_back(step.graph.value(first).producer);
  }
  step.begins.front() = 0;
  return step;
}

}  // namespace

Result<Graph> LinkBackward(const Graph& forward, const Graph& backward,
                           std::string_view loss) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph saving, SaveInLoops(forward, backward));
  GraphBuilder g(StrCat(forward.name(), ".linked"));
  Linker linker(saving, backward, loss, &g);
  linker.DeclareLeaves();
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(linker.WireUp());
  for (NodeId id = 0; id < backward.num_nodes(); ++id) {
    linker.CopyBackwardNode(id);
  }
  linker.DeclareOutputs();
  for (const GraphOutput& output : backward.outputs()) {
    g.Output(output.name, linker.backward(output.value));
  }
  return g.Finish();
}

Result<Graph> BuildTrainStep(const Graph& forward, std::string_view loss,
                             const TrainOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckOptions(forward, options));
  STOWAGE_ASSIGN_OR_RETURN(const PieceGraphs graphs,
                           Differentiate(forward, loss, options));
  GraphBuilder g(StrCat(forward.name(), ".step"));
  Linker linker(graphs.forward, graphs.backward, loss, &g);
  Updater updater(options, &g);
  linker.DeclareLeaves();
  updater.DeclareInputs();
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(linker.WireUp());

  const auto update = [&](size_t i) {
    const Trained& trained = graphs.trained[i];
    updater.Update(linker.forward(trained.param),
                   linker.backward(trained.gradient));
  };
  CopyBackward(graphs, linker, [&](size_t i) {
    if (!options.clip_norm) update(i);
  });
  linker.DeclareOutputs();
  std::map<std::string, Value> by_param;
  std::vector<Value> gradients;
  for (const Trained& trained : graphs.trained) {
    gradients.push_back(linker.backward(trained.gradient));
    by_param[graphs.forward.value(trained.param).name] = gradients.back();
  }
  DeclareGradients(options, by_param, &g);
  if (options.clip_norm) {
    updater.Clip(gradients);
    for (size_t i = 0; i < graphs.trained.size(); ++i) update(i);
  }
  return g.Finish();
}

Result<MicroBatchedStep> BuildMicroBatchedStep(
    const Graph& whole, std::span<const Graph* const> pieces,
    std::string_view loss, const TrainOptions& options, Pieces which) {
  STOWAGE_RETURN_IF_ERROR(CheckOptions(whole, options));
  std::map<const Graph*, PieceGraphs> differentiated;
  for (const Graph* const piece : pieces) {
    if (differentiated.contains(piece)) continue;
    STOWAGE_ASSIGN_OR_RETURN(PieceGraphs graphs,
                             Differentiate(*piece, loss, options));
    differentiated.emplace(piece, std::move(graphs));
  }

  GraphBuilder g(StrCat(whole.name(), ".step"));
  GraphCopy leaves(whole, &g);
  for (ValueId id = 0; id < whole.num_values(); ++id) {
    if (whole.value(id).is_leaf()) leaves.DeclareLeaf(id);
  }
  Updater updater(options, &g);
  updater.DeclareInputs();

  BatchAxes axes(whole);
  std::map<std::string, Value> gradients;  // by param; of the pieces so far
  std::map<std::string, Value> states;     // as the pieces so far left them
  PieceOutputs outputs(whole, options.sums, loss, &g);
  STOWAGE_RETURN_IF_ERROR(outputs.Begin(*pieces.front()));
  int64_t first_dropout = 0;
  std::vector<NodeId> begins;  // of the pieces, as long as the graph grows
  std::vector<int64_t> counts;
  std::map<const Graph*, size_t> between;  // by kind: the piece that is built
  for (size_t p = 0; p < pieces.size(); ++p) {
    const PieceGraphs& graphs = differentiated.at(pieces[p]);
    const Graph& piece = graphs.forward;
    STOWAGE_RETURN_IF_ERROR(axes.Add(piece));
    const bool is_first = p == 0;
    const bool is_last = p + 1 == pieces.size();
    if (which == Pieces::kOneOfAKind && !is_first && !is_last) {
      const auto [kind, is_new] = between.emplace(pieces[p], begins.size());
      if (!is_new) {
        ++counts[kind->second];
        first_dropout += DropoutIds(piece);
        outputs.Skip(piece);
        continue;
      }
    }
    begins.push_back(g.graph().num_nodes());
    counts.push_back(1);
    const std::string suffix = StrCat("/", p + 1);
    Linker linker(piece, graphs.backward, loss, &g,
                  {.suffix = suffix,
                   .weight = axes.weight(),
                   .first_dropout = first_dropout});
    first_dropout += DropoutIds(piece);
    g.SetOrigin(Phase::kForward, "");
    for (ValueId id = 0; id < piece.num_values(); ++id) {
      if (!piece.value(id).is_leaf()) continue;
      const std::string& name = piece.value(id).name;
      const auto state = states.find(name);
      linker.MapLeaf(id, state != states.end()
                             ? state->second
                             : axes.Part(piece, id, leaves[*whole.Find(name)]));
    }
    linker.CopyForward();
    STOWAGE_RETURN_IF_ERROR(linker.WireUp());
    STOWAGE_RETURN_IF_ERROR(outputs.Add(piece, axes.weight(), linker));
    for (const ValueId id : piece.Leaves(Role::kState)) {
      states[piece.value(id).name] = linker.last_content(id);
    }
    CopyBackward(graphs, linker, [&](size_t i) {
      const Trained& trained = graphs.trained[i];
      const Value made = linker.backward(trained.gradient);
      const std::string& name = piece.value(trained.param).name;
      Value& sum = gradients[name];
      if (is_first) {
        sum = made;
      } else {
        g.SetOrigin(Phase::kBackward, name, piece.value(trained.param).source);
        sum = Add(sum, made);
        g.SetRole(sum, Role::kGradient);
      }
      if (is_last) g.Name(GradientName(name), sum);
      if (is_last && !options.clip_norm) {
        updater.Update(linker.forward(trained.param), sum);
      }
    });
    outputs.AddLoss(piece, axes.weight(), linker);
  }
  STOWAGE_RETURN_IF_ERROR(axes.CheckComplete());
  STOWAGE_RETURN_IF_ERROR(outputs.Finish());
  DeclareGradients(options, gradients, &g);
  if (options.clip_norm) {
    std::vector<Value> all;
    for (const auto& [name, sum] : gradients) all.push_back(sum);
    updater.Clip(all);
    for (const auto& [name, sum] : gradients) {
      updater.Update(leaves[*whole.Find(name)], sum);
    }
  }
  return FinishPieces(g, begins, std::move(counts));
}

}  // namespace stowage

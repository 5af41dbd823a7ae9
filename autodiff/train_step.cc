#include "autodiff/train_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "autodiff/dropout_ids.h"
#include "autodiff/gradient_buckets.h"
#include "autodiff/linker.h"
#include "autodiff/model_states.h"
#include "autodiff/piece_outputs.h"
#include "autodiff/saved_in_loops.h"
#include "autodiff/shard_weights.h"
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
    Update(name, param, gradient);
  }

  // The same where `target` is the param called `name`, or a block of it.
  void Update(const std::string& name, Value target, Value gradient) {
    if (!target.ok()) return;
    const ParamGroup* const group = FindParamGroup(options_.groups, name);
    UpdateInputs inputs = inputs_;
    if (group != nullptr) inputs.lr = ScaledRate(group->lr_scale);
    g_.SetOrigin(Phase::kUpdate, name, g_.info(target).source);
    EmitUpdate(OptimizerOfGroup(options_.optimizer, group), target, gradient,
               inputs);
  }

  void Clip(const std::vector<Value>& gradients) {
    g_.SetOrigin(Phase::kUpdate, "grad_norm");
    SetClip(EmitClipScale(g_, gradients, *options_.clip_norm));
  }
  void ClipBySquares(const std::vector<Value>& squares) {
    g_.SetOrigin(Phase::kUpdate, "grad_norm");
    SetClip(EmitClipScaleOfSquares(g_, squares, *options_.clip_norm));
  }

 private:
  void SetClip(const ClipScale& clip) {
    inputs_.clip_scale = clip.scale;
    g_.Output("grad_norm", g_.Name("grad_norm", clip.norm));
  }

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

// Where the pieces of `part`, which is all or some of the batch `whole`, lie in its
// inputs.
class BatchAxes {
 public:
  BatchAxes(const Graph& whole, const Graph& part)
      : whole_(whole), part_(part) {}

  /// Notes where `piece`, the next one, lies. Error: it is not a part.
  Status Add(const Graph& piece);
  /// Error: the pieces do not make up the part.
  Status CheckComplete() const;

  /// The last added piece's share of the batch.
  double weight() const { return weight_; }
  /// What stands in it for the leaf `id` of `piece`, given the whole's.
  Value Part(const Graph& piece, ValueId id, Value whole) const;
  bool are_first() const {
    return std::ranges::all_of(
        splits_, [](const auto& split) { return split.second.axis == 0; });
  }
  /// The inputs that are cut.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, split] : splits_) names.push_back(name);
    return names;
  }

 private:
  struct Split {
    int axis = 0;
    int64_t start = 0, end = 0;  // of the last added piece
  };

  Status Mismatch(const Graph& piece, const ValueInfo& info,
                  std::string_view why) const;

  const Graph& whole_;
  const Graph& part_;
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
    const int64_t size = part_.value(*part_.Find(name)).type.shape[split.axis];
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
  if (whole.type() == piece.value(id).type) return whole;
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

// A gradient that a piece has made, when nothing will read its param any more.
struct Gradient {
  std::string name;  // of the param
  Value param;
  Value gradient;
  SourceLoc source;
  bool is_first, is_last;  // piece
};

// Pieces one after the other: everything of a step but what becomes of the gradients.
class PiecesInTurn {
 public:
  // The pieces make up `part` of the batch `whole`, or all of it.
  PiecesInTurn(const Graph& whole, const Graph& part,
               std::span<const Graph* const> pieces, std::string_view loss,
               const TrainOptions& options, GraphBuilder* g)
      : part_(part),
        pieces_(pieces),
        loss_(loss),
        options_(options),
        g_(*g),
        leaves_(part, g),
        axes_(whole, part),
        outputs_(whole, part, options.sums, loss, g) {}

  // `add` takes each gradient, `end_piece` is called after each piece. The ranks before
  // this one have drawn dropouts for as many pieces each.
  template <typename Add, typename EndPiece>
  Status Run(const Ranks& ranks, Pieces which, Updater* updater, const Add& add,
             const EndPiece& end_piece);

  const std::vector<NodeId>& begins() const { return begins_; }
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  void MapLeaves(const Graph& piece, Linker* linker);

  const Graph& part_;
  const std::span<const Graph* const> pieces_;
  const std::string_view loss_;
  const TrainOptions& options_;
  GraphBuilder& g_;
  GraphCopy leaves_;
  BatchAxes axes_;
  PieceOutputs outputs_;
  std::map<std::string, Value> states_;  // as the pieces so far left them
  std::vector<NodeId> begins_;  // of the pieces, as long as the graph grows
  std::vector<int64_t> counts_;
};

void PiecesInTurn::MapLeaves(const Graph& piece, Linker* linker) {
  g_.SetOrigin(Phase::kForward, "");
  for (ValueId id = 0; id < piece.num_values(); ++id) {
    if (!piece.value(id).is_leaf()) continue;
    const std::string& name = piece.value(id).name;
    const auto state = states_.find(name);
    linker->MapLeaf(id,
                    state != states_.end()
                        ? state->second
                        : axes_.Part(piece, id, leaves_[*part_.Find(name)]));
  }
}

template <typename Add, typename EndPiece>
Status PiecesInTurn::Run(const Ranks& ranks, Pieces which, Updater* updater,
                         const Add& add, const EndPiece& end_piece) {
  std::map<const Graph*, PieceGraphs> differentiated;
  for (const Graph* const piece : pieces_) {
    if (differentiated.contains(piece)) continue;
    STOWAGE_ASSIGN_OR_RETURN(PieceGraphs graphs,
                             Differentiate(*piece, loss_, options_));
    differentiated.emplace(piece, std::move(graphs));
  }
  for (ValueId id = 0; id < part_.num_values(); ++id) {
    if (part_.value(id).is_leaf()) leaves_.DeclareLeaf(id);
  }
  updater->DeclareInputs();
  STOWAGE_RETURN_IF_ERROR(outputs_.Begin(*pieces_.front()));
  int64_t first_dropout = 0;
  for (const Graph* const piece : pieces_) {
    first_dropout += ranks.rank * DropoutIds(differentiated.at(piece).forward);
  }
  std::map<const Graph*, size_t> between;  // by kind: the piece that is built
  for (size_t p = 0; p < pieces_.size(); ++p) {
    const PieceGraphs& graphs = differentiated.at(pieces_[p]);
    const Graph& piece = graphs.forward;
    STOWAGE_RETURN_IF_ERROR(axes_.Add(piece));
    const bool is_first = p == 0;
    const bool is_last = p + 1 == pieces_.size();
    if (which == Pieces::kOneOfAKind && !is_first && !is_last) {
      const auto [kind, is_new] = between.emplace(pieces_[p], begins_.size());
      if (!is_new) {
        ++counts_[kind->second];
        first_dropout += DropoutIds(piece);
        outputs_.Skip(piece);
        continue;
      }
    }
    begins_.push_back(g_.graph().num_nodes());
    counts_.push_back(1);
    const std::string suffix = pieces_.size() > 1 ? StrCat("/", p + 1) : "";
    Linker linker(piece, graphs.backward, loss_, &g_,
                  {.suffix = suffix,
                   .weight = axes_.weight(),
                   .first_dropout = first_dropout});
    first_dropout += DropoutIds(piece);
    MapLeaves(piece, &linker);
    linker.CopyForward();
    STOWAGE_RETURN_IF_ERROR(linker.WireUp());
    STOWAGE_RETURN_IF_ERROR(outputs_.Add(piece, axes_.weight(), linker));
    for (const ValueId id : piece.Leaves(Role::kState)) {
      states_[piece.value(id).name] = linker.last_content(id);
    }
    CopyBackward(graphs, linker, [&](size_t i) {
      const Trained& trained = graphs.trained[i];
      const ValueInfo& param = piece.value(trained.param);
      add(Gradient{.name = param.name,
                   .param = linker.forward(trained.param),
                   .gradient = linker.backward(trained.gradient),
                   .source = param.source,
                   .is_first = is_first,
                   .is_last = is_last});
    });
    end_piece();
    outputs_.AddLoss(piece, axes_.weight(), linker);
  }
  STOWAGE_RETURN_IF_ERROR(axes_.CheckComplete());
  return outputs_.Finish(ranks.ranks);
}

// That the step can be split so.
Status CheckSharding(const Ranks& ranks, const TrainOptions& options) {
  if (ranks.shard == Sharding::kNone) return {};
  const auto check = [&](const Optimizer& optimizer) -> Status {
    if (UpdatesElementwise(optimizer)) return {};
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[ranks] optimizer ", OptimizerName(optimizer),
               " cannot update a block of a param by itself, as sharding ",
               ShardingName(ranks.shard),
               " wants; expected sgd, momentum, nesterov, rmsprop, adagrad, "
               "adam, adamw or lion, or sharding none")};
  };
  STOWAGE_RETURN_IF_ERROR(check(options.optimizer));
  if (options.gradients.empty()) return {};
  return Fail("sharding ", ShardingName(ranks.shard),
              " leaves no rank with a whole gradient to give out; expected "
              "sharding none");
}

// What becomes of a rank's gradients: they are summed over all ranks, and the params
// updated, whole or by blocks.
class RankUpdates {
 public:
  RankUpdates(const Ranks& ranks, const TrainOptions& options, Updater* updater,
              GraphBuilder* g)
      : ranks_(ranks),
        options_(options),
        updater_(*updater),
        g_(*g),
        buckets_(ranks, options.clip_norm.has_value(), g,
                 [this](const Summed& summed) { Take(summed); }) {}

  void Add(const std::string& name, Value param, Value gradient, bool is_last) {
    params_[name] = param;
    is_last_ = is_last;
    const std::string whole = GradientName(name);
    if (gradient.ok() && g_.info(gradient).name == whole) {
      g_.Name(StrCat("part:", whole), gradient);  // of the sum over ranks
    }
    buckets_.Add(name, gradient);
  }
  void FinishPiece() { buckets_.Flush(); }

  void Finish() {
    if (options_.clip_norm) {
      std::vector<Value> squares;
      for (const auto& [name, sum] : sums_) {
        squares.push_back(squares_.at(name));
      }
      updater_.ClipBySquares(squares);
      for (const auto& [name, sum] : sums_) Update(name, sum);
    }
    DeclareGradients(options_, sums_, &g_);
  }

 private:
  void Take(const Summed& summed) {
    const auto [known, is_new] = sums_.emplace(summed.param, summed.sum);
    if (!is_new) {
      known->second = stowage::Add(known->second, summed.sum);
      g_.SetRole(known->second, Role::kGradient);
    }
    if (options_.clip_norm) squares_[summed.param] = summed.squares;
    if (!is_last_) return;
    const std::string name = GradientName(summed.param);
    g_.Name(ranks_.shard == Sharding::kNone ? name : OwnName(name),
            known->second);
    if (!options_.clip_norm) Update(summed.param, known->second);
  }

  void Update(const std::string& name, Value sum) {
    const Value param = params_.at(name);
    if (ranks_.shard == Sharding::kNone) {
      updater_.Update(param, sum);
      return;
    }
    if (!param.ok()) return;
    g_.SetOrigin(Phase::kUpdate, name, g_.info(param).source);
    const std::string own = OwnName(name);
    const Value block = g_.Name(own, OwnBlock(param, ranks_.ranks));
    updater_.Update(name, block, sum);
    const std::optional<Value> updated = g_.Find(StrCat("new:", own));
    if (!updated) return;  // an error is recorded
    g_.SetOrigin(Phase::kUpdate, name, g_.info(param).source);
    const Value gathered = AllGatherUpdate(param, *updated, ranks_.ranks);
    g_.Name(StrCat("new:", name), gathered);
  }

  const Ranks ranks_;
  const TrainOptions& options_;
  Updater& updater_;
  GraphBuilder& g_;
  GradientBuckets buckets_;
  bool is_last_ = false;                 // piece
  std::map<std::string, Value> params_;  // by name, as sums_ and squares_
  std::map<std::string, Value> sums_;
  std::map<std::string, Value> squares_;
};

// Puts what `rewrite` makes of a step in its place: pieces begin at the first node of
// theirs that is still there.
template <typename Rewriter>
Status Rewrite(MicroBatchedStep* step, const Rewriter& rewrite) {
  STOWAGE_ASSIGN_OR_RETURN(Graph rewritten, rewrite(step->graph));
  for (NodeId& begin : step->begins) {
    for (NodeId id = begin; id < step->graph.num_nodes(); ++id) {
      const ValueId result = step->graph.node(id).results[0];
      const auto found = rewritten.Find(step->graph.value(result).name);
      if (!found) continue;
      begin = rewritten.value(*found).producer;
      break;
    }
  }
  step->begins.front() = 0;
  step->graph = std::move(rewritten);
  return {};
}

Error NoRepeat(const Graph& piece, std::string_view why) {
  return Error{ErrorCode::kUnsupported,
               StrCat("[autodiff] piece ", Quoted(piece.name()), " ", why,
                      "; a loop repeats pieces that do the same with the next "
                      "examples")};
}

// That all pieces like `piece` do the same with other examples.
Status CheckRepeats(const Graph& piece) {
  if (DropoutIds(piece) > 0) {
    return NoRepeat(piece, "draws dropouts, each piece others");
  }
  const Uses uses(piece, ComputeLayouts(piece));
  for (ValueId id = 0; id < piece.num_values(); ++id) {
    if (piece.value(id).is_leaf() && uses.overwriter(id) != kNoNode) {
      return NoRepeat(piece, StrCat("writes ", Quoted(piece.value(id).name)));
    }
  }
  return {};
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
  GraphBuilder g(StrCat(whole.name(), ".step"));
  Updater updater(options, &g);
  std::map<std::string, Value> gradients;  // by param; of the pieces so far
  const auto add = [&](const Gradient& made) {
    Value& sum = gradients[made.name];
    if (made.is_first) {
      sum = made.gradient;
    } else {
      g.SetOrigin(Phase::kBackward, made.name, made.source);
      sum = Add(sum, made.gradient);
      g.SetRole(sum, Role::kGradient);
    }
    if (made.is_last) g.Name(GradientName(made.name), sum);
    if (made.is_last && !options.clip_norm) updater.Update(made.param, sum);
  };
  PiecesInTurn loop(whole, whole, pieces, loss, options, &g);
  STOWAGE_RETURN_IF_ERROR(loop.Run({}, which, &updater, add, [] {}));
  DeclareGradients(options, gradients, &g);
  if (options.clip_norm) {
    std::vector<Value> all;
    for (const auto& [name, sum] : gradients) all.push_back(sum);
    updater.Clip(all);
    for (const auto& [name, sum] : gradients) {
      updater.Update(*g.Find(name), sum);
    }
  }
  return FinishPieces(g, loop.begins(), loop.counts());
}

Result<MicroBatchedStep> BuildRankStep(const Graph& whole, const Graph& part,
                                       std::span<const Graph* const> pieces,
                                       std::string_view loss,
                                       const Ranks& ranks,
                                       const TrainOptions& options,
                                       Pieces which) {
  STOWAGE_RETURN_IF_ERROR(CheckOptions(whole, options));
  STOWAGE_RETURN_IF_ERROR(CheckRanks(ranks));
  STOWAGE_RETURN_IF_ERROR(CheckSharding(ranks, options));
  GraphBuilder g(StrCat(whole.name(), ".step"));
  Updater updater(options, &g);
  RankUpdates updates(ranks, options, &updater, &g);
  // What is split leaves with every piece, so that no whole sum waits for the next.
  const bool leaves_at_once = ranks.shard >= Sharding::kGradients &&
                              pieces.size() > 1 && !options.clip_norm;
  std::map<std::string, Value> gradients;  // by param; of the pieces so far
  const auto add = [&](const Gradient& made) {
    Value& sum = gradients[made.name];
    if (leaves_at_once || made.is_first) {
      sum = made.gradient;
    } else {
      g.SetOrigin(Phase::kBackward, made.name, made.source);
      sum = Add(sum, made.gradient);
      g.SetRole(sum, Role::kGradient);
    }
    if (!leaves_at_once && !made.is_last) return;
    updates.Add(made.name, made.param, sum, made.is_last);
  };
  PiecesInTurn loop(whole, part, pieces, loss, options, &g);
  STOWAGE_RETURN_IF_ERROR(
      loop.Run(ranks, which, &updater, add, [&] { updates.FinishPiece(); }));
  updates.Finish();
  STOWAGE_ASSIGN_OR_RETURN(MicroBatchedStep step,
                           FinishPieces(g, loop.begins(), loop.counts()));
  STOWAGE_RETURN_IF_ERROR(Rewrite(&step, [&](const Graph& graph) {
    return JoinModelStates(graph, ranks.ranks);
  }));
  if (ranks.shard == Sharding::kWeights) {
    STOWAGE_RETURN_IF_ERROR(Rewrite(&step, [&](const Graph& graph) {
      return ShardWeights(graph, ranks.ranks);
    }));
  }
  return step;
}

Result<RepeatedPiece> BuildRepeatedPiece(const Graph& whole, const Graph& piece,
                                         int64_t times, std::string_view loss,
                                         const TrainOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckOptions(whole, options));
  STOWAGE_RETURN_IF_ERROR(CheckRepeats(piece));
  STOWAGE_ASSIGN_OR_RETURN(const PieceGraphs graphs,
                           Differentiate(piece, loss, options));
  GraphBuilder g(StrCat(whole.name(), ".step"));
  GraphCopy leaves(whole, &g);
  for (ValueId id = 0; id < whole.num_values(); ++id) {
    if (whole.value(id).is_leaf()) leaves.DeclareLeaf(id);
  }
  Updater updater(options, &g);
  updater.DeclareInputs();
  std::map<std::string, Value> gradients;  // by param; of the pieces so far
  for (const Trained& trained : graphs.trained) {
    const ValueInfo& param = graphs.forward.value(trained.param);
    gradients[param.name] =
        g.LeafLike({.name = StrCat("sum:", GradientName(param.name)),
                    .type = graphs.backward.value(trained.gradient).type,
                    .role = Role::kSaved,
                    .source = param.source});
  }
  PieceOutputs outputs(whole, whole, options.sums, loss, &g);
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> joined,
                           outputs.BeginRepeated(piece));

  BatchAxes axes(whole, whole);
  STOWAGE_RETURN_IF_ERROR(axes.Add(piece));
  if (!axes.are_first() || !outputs.join_first()) {
    return NoRepeat(piece,
                    "has its examples in another dimension than the first");
  }
  Linker linker(graphs.forward, graphs.backward, loss, &g,
                {.suffix = "/1", .weight = axes.weight()});
  for (ValueId id = 0; id < graphs.forward.num_values(); ++id) {
    const ValueInfo& info = graphs.forward.value(id);
    if (!info.is_leaf()) continue;
    linker.MapLeaf(
        id, axes.Part(graphs.forward, id, leaves[*whole.Find(info.name)]));
  }
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(linker.WireUp());
  STOWAGE_RETURN_IF_ERROR(outputs.Add(graphs.forward, axes.weight(), linker));
  std::vector<size_t> made;  // of graphs.trained, as they come
  CopyBackward(graphs, linker, [&](size_t i) {
    const ValueInfo& param = graphs.forward.value(graphs.trained[i].param);
    g.SetOrigin(Phase::kBackward, param.name, param.source);
    Value& sum = gradients[param.name];
    sum = Add(sum, linker.backward(graphs.trained[i].gradient));
    g.SetRole(sum, Role::kGradient);
    g.Name(GradientName(param.name), sum);
    made.push_back(i);
  });
  outputs.AddLoss(graphs.forward, axes.weight(), linker);
  for (int64_t i = 1; i < times; ++i) {
    STOWAGE_RETURN_IF_ERROR(axes.Add(piece));
    outputs.Skip(piece);
  }
  STOWAGE_RETURN_IF_ERROR(axes.CheckComplete());
  STOWAGE_RETURN_IF_ERROR(outputs.Finish());
  DeclareGradients(options, gradients, &g);

  const NodeId updates = g.graph().num_nodes();
  if (options.clip_norm) {
    std::vector<Value> all;
    for (const auto& [name, sum] : gradients) all.push_back(sum);
    updater.Clip(all);
  }
  for (const size_t i : made) {
    const ValueId param = graphs.trained[i].param;
    updater.Update(linker.forward(param),
                   gradients[graphs.forward.value(param).name]);
  }
  STOWAGE_ASSIGN_OR_RETURN(MicroBatchedStep step,
                           FinishPieces(g, {0, updates}, {times, 1}));
  return RepeatedPiece{.graph = std::move(step.graph),
                       .updates = step.begins.back(),
                       .cut = axes.Names(),
                       .joined = joined};
}

}  // namespace stowage

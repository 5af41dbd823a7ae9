#include "autodiff/rank_step.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/micro_batches_in_turn.h"
#include "autodiff/step_parts.h"
#include "autodiff/train_step.h"
#include "autodiff/vjp.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage {

namespace {

// Error: the step cannot be sharded in this way.
Status CheckSharding(const Ranks& ranks, const TrainOptions& options) {
  if (ranks.shard == Sharding::kNone) return {};
  if (options.ema) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[ranks] sharding ", ShardingName(ranks.shard),
                        " leaves no rank with the whole averages of the "
                        "params; expected sharding none, or no ema")};
  }
  const auto check = [&](const Optimizer& optimizer) -> Status {
    if (UpdatesByBlocks(optimizer)) return {};
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[ranks] optimizer ", OptimizerName(optimizer),
               " cannot update a block of a param by itself, as sharding ",
               ShardingName(ranks.shard),
               " wants; expected any optimizer but adafactor, asgd, muon, "
               "nadam and rules of a program's own, or sharding none")};
  };
  STOWAGE_RETURN_IF_ERROR(check(options.optimizer));
  for (const ParamGroup& group : options.groups) {
    if (group.optimizer) STOWAGE_RETURN_IF_ERROR(check(*group.optimizer));
  }
  if (options.gradients.empty()) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[autodiff] sharding ", ShardingName(ranks.shard),
             " leaves no rank with a whole gradient to give out; expected "
             "sharding none")};
}

// The use of a rank's gradients: they are summed over all ranks, and the params updated,
// whole or by blocks.
class RankUpdates {
 public:
  RankUpdates(const Ranks& ranks, const TrainOptions& options, Updater* updater,
              GraphBuilder* g)
      : ranks_(ranks),
        options_(options),
        updater_(*updater),
        g_(*g),
        buckets_(ranks, UpdatesWait(options), g,
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
  void FinishMicroBatch() { buckets_.Flush(); }

  void Finish() {
    if (UpdatesWait(options_)) {
      std::vector<Value> squares;
      for (const auto& [name, sum] : sums_) {
        squares.push_back(squares_.at(name));
      }
      updater_.AwaitSquares(squares);
      for (const auto& [name, sum] : sums_) Update(name, sum);
    }
    updater_.GiveOut(sums_);
  }

 private:
  void Take(const Summed& summed) {
    const auto [known, is_new] = sums_.emplace(summed.param, summed.sum);
    if (!is_new) {
      known->second = stowage::Add(known->second, summed.sum);
      g_.SetRole(known->second, Role::kGradient);
    }
    if (UpdatesWait(options_)) squares_[summed.param] = summed.squares;
    if (!is_last_) return;
    const std::string name = GradientName(summed.param);
    g_.Name(ranks_.shard == Sharding::kNone ? name : OwnName(name),
            known->second);
    if (!UpdatesWait(options_)) Update(summed.param, known->second);
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
    const int64_t elements = param.shape().num_elements();
    const Value block =
        g_.Name(own, OwnBlock(param, ranks_.ranks, BlockGranule(elements)));
    updater_.Update(
        {.param = name,
         .elements = elements,
         .first = ranks_.rank * BlockElements(elements, ranks_.ranks)},
        block, sum);
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
  bool is_last_ = false;                 // micro-batch
  std::map<std::string, Value> params_;  // by name, as sums_ and squares_
  std::map<std::string, Value> sums_;
  std::map<std::string, Value> squares_;
};

}  // namespace

Result<MicroBatchedStep> BuildRankStep(
    const Graph& whole, const Graph& part,
    std::span<const Graph* const> micro_batches, std::string_view loss,
    const Ranks& ranks, const TrainOptions& options, MicroBatches which) {
  STOWAGE_RETURN_IF_ERROR(CheckTrainOptions(whole, options));
  STOWAGE_RETURN_IF_ERROR(CheckRanks(ranks));
  STOWAGE_RETURN_IF_ERROR(CheckSharding(ranks, options));
  GraphBuilder g(StrCat(whole.name(), ".step"));
  Updater updater(options, &g);
  RankUpdates updates(ranks, options, &updater, &g);
  // Sharded gradients are reduced after every micro-batch, so that no whole sum stays live.
  const bool leaves_at_once = ranks.shard >= Sharding::kGradients &&
                              micro_batches.size() > 1 && !UpdatesWait(options);
  std::map<std::string, Value>
      gradients;  // by param; of the micro-batches so far
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
  MicroBatchesInTurn loop(whole, part, micro_batches, loss, ranks, options, &g);
  STOWAGE_RETURN_IF_ERROR(
      loop.Run(which, &updater, add, [&] { updates.FinishMicroBatch(); }));
  updates.Finish();
  STOWAGE_ASSIGN_OR_RETURN(MicroBatchedStep step,
                           FinishMicroBatches(g, loop.begins(), loop.counts()));
  STOWAGE_RETURN_IF_ERROR(RewriteStep(&step, [&](const Graph& graph) {
    return JoinModelStates(graph, ranks.ranks);
  }));
  if (ranks.shard == Sharding::kWeights) {
    STOWAGE_RETURN_IF_ERROR(RewriteStep(&step, [&](const Graph& graph) {
      return ShardWeights(graph, ranks.ranks);
    }));
  }
  return step;
}

namespace {

int64_t Elements(Value value) { return value.shape().num_elements(); }

int64_t BlockOf(Value value, int64_t ranks) {
  return BlockElements(Elements(value), ranks);
}

// The granule of a value that is split by itself.
int64_t GranuleOf(Value value) { return BlockGranule(Elements(value)); }

// As one row for each rank, padded with zeros.
Value InRows(Value value, int64_t ranks) {
  const int64_t elements = Elements(value);
  const int64_t block = BlockOf(value, ranks);
  Value flat = Reshape(value, {elements});
  if (ranks * block > elements)
    flat = Pad(flat, {0}, {ranks * block - elements});
  return Reshape(flat, {ranks, block});
}

}  // namespace

GradientBuckets::GradientBuckets(const Ranks& ranks, bool wants_squares,
                                 GraphBuilder* g, Take take)
    : ranks_(ranks),
      wants_squares_(wants_squares),
      g_(*g),
      take_(std::move(take)) {}

void GradientBuckets::Add(const std::string& param, Value gradient) {
  if (!gradient.ok()) return;
  const Waiting added = {param, gradient};
  if (BytesIn(gradient) >= ranks_.bucket_bytes) {
    Leave({added});
    return;
  }
  std::vector<Waiting>& waiting = waiting_[gradient.dtype()];
  waiting.push_back(added);
  Bytes bytes = 0;
  for (const Waiting& w : waiting) bytes += BytesIn(w.gradient);
  if (bytes >= ranks_.bucket_bytes) Leave(std::exchange(waiting, {}));
}

void GradientBuckets::Flush() {
  for (auto& [dtype, waiting] : waiting_) {
    if (!waiting.empty()) Leave(std::exchange(waiting, {}));
  }
  TakeSums(std::exchange(under_way_, {}));
}

void GradientBuckets::Leave(std::vector<Waiting> waiting) {
  g_.SetOrigin(Phase::kBackward, waiting.back().param);
  const Value sum = sums_whole() ? AllReduce(Joined(waiting), ranks_.ranks)
                                 : Scattered(waiting);
  if (waiting.size() > 1) g_.SetRole(sum, Role::kGradient);
  // The previous bucket has overlapped with the computation of these gradients.
  TakeSums(std::exchange(under_way_, {std::move(waiting), sum}));
}

Value GradientBuckets::Joined(const std::vector<Waiting>& waiting) const {
  if (waiting.size() == 1) return waiting[0].gradient;
  std::vector<Value> parts;
  for (const Waiting& w : waiting) {
    parts.push_back(Reshape(w.gradient, {Elements(w.gradient)}));
  }
  return Concat(parts, 0);
}

Value GradientBuckets::Scattered(const std::vector<Waiting>& waiting) const {
  if (waiting.size() == 1) {
    const Value gradient = waiting[0].gradient;
    return ReduceScatter(gradient, ranks_.ranks, GranuleOf(gradient));
  }
  std::vector<Value> rows;
  for (const Waiting& w : waiting) {
    rows.push_back(InRows(w.gradient, ranks_.ranks));
  }
  return ReduceScatter(Concat(rows, 1), ranks_.ranks);
}

Bytes GradientBuckets::BytesIn(Value gradient) const {
  if (sums_whole()) return gradient.type().bytes();
  return ranks_.ranks * BlockOf(gradient, ranks_.ranks) *
         SizeOf(gradient.dtype());
}

void GradientBuckets::TakeSums(const Bucket& bucket) {
  if (bucket.gradients.size() == 1) {
    TakeSum(bucket.gradients[0].param, bucket.sum);
    return;
  }
  int64_t begin = 0;
  for (const Waiting& w : bucket.gradients) {
    g_.SetOrigin(Phase::kBackward, w.param);
    const int64_t count =
        sums_whole() ? Elements(w.gradient) : BlockOf(w.gradient, ranks_.ranks);
    const Value part = Slice(bucket.sum, 0, begin, begin + count);
    TakeSum(w.param, sums_whole() ? Reshape(part, w.gradient.shape()) : part);
    begin += count;
  }
}

void GradientBuckets::TakeSum(const std::string& param, Value sum) {
  g_.SetOrigin(Phase::kBackward, param);
  Summed summed = {param, sum};
  if (wants_squares_) {
    summed.squares = Cast(SumSquares(sum), DType::kF32);
    if (ranks_.shard != Sharding::kNone) {
      summed.sum = OwnBlock(sum, ranks_.ranks, GranuleOf(sum));
    }
  }
  g_.SetRole(summed.sum, Role::kGradient);
  take_(summed);
}

namespace {

class WeightSharder {
 public:
  WeightSharder(const Graph& graph, int64_t ranks)
      : graph_(graph),
        ranks_(ranks),
        layouts_(ComputeLayouts(graph)),
        g_(graph.name()),
        copy_(graph, &g_) {}

  Result<Graph> Run() {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueInfo& info = graph_.value(id);
      if (info.is_leaf()) DeclareLeaf(id, info);
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (IsSplit(output.value)) {
        return Refuse(output.value, "is an output");
      }
    }
    FindGathers();
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      STOWAGE_RETURN_IF_ERROR(CopyNode(id));
    }
    copy_.DeclareOutputs();
    return g_.Finish();
  }

 private:
  // A param: its block, and its gathered values for the current and for later readers.
  struct Split {
    Value block;
    Value whole = {};
    std::map<ValueId, Value> views = {};  // of `whole`
    std::deque<Value> ahead = {};
  };
  // A param to gather before `reader`.
  struct Gather {
    ValueId param = 0;
    NodeId reader = kNoNode;
  };

  void DeclareLeaf(ValueId id, const ValueInfo& info) {
    if (info.role != Role::kParam) {
      copy_.DeclareLeaf(id);
      return;
    }
    const int64_t block = BlockElements(info.type.shape.num_elements(), ranks_);
    g_.SetOrigin(Phase::kForward, "", info.source);
    splits_[id].block =
        g_.Param(OwnName(info.name), info.type.dtype, {block}, Init::Zeros());
  }

  ValueId root(ValueId id) const { return layouts_[Index(id)].root; }
  bool IsSplit(ValueId id) const { return splits_.contains(root(id)); }

  Error Refuse(ValueId id, std::string_view what) const {
    return {
        ErrorCode::kUnsupported,
        StrCat("[ranks] param ", Quoted(graph_.value(root(id)).name), " ", what,
               "; a param that is split can only be read, and be "
               "updated block by block")};
  }

  // Whether `node` reads no split param as a whole: it takes the block, is a view (taken again
  // from the gathered value) or gathers the new content.
  bool ReadsNothingWhole(const Node& node) const {
    if (node.inputs.empty()) return false;
    const ValueId of = node.inputs[0];
    if (node.op == OpKind::kOwnBlock) return splits_.contains(of);
    return IsSplit(of) &&
           (GetOpDef(node.op).is_view() || node.op == OpKind::kAllGatherUpdate);
  }

  // Finds the params to gather, by reader.
  void FindGathers() {
    std::map<ValueId, NodeId> last;  // reader of each
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (ReadsNothingWhole(node)) continue;
      for (const ValueId input : node.inputs) {
        if (!IsSplit(input)) continue;
        const auto [read, is_first] = last.emplace(root(input), id);
        const bool is_near = !is_first &&
                             graph_.node(read->second).phase == node.phase &&
                             id - read->second <= kReadersApart;
        read->second = id;
        if (!is_near) gathers_.push_back({root(input), id});
      }
    }
  }

  // The end of the gathers from `first` on for one reader.
  size_t EndOfReader(size_t first) const {
    size_t end = first;
    while (end < gathers_.size() &&
           gathers_[end].reader == gathers_[first].reader) {
      ++end;
    }
    return end;
  }

  // Starts the gathers for the readers after `reader`: those of its phase, up to the next that
  // reads a matrix.
  void GatherAhead(NodeId reader) {
    const Phase phase = graph_.node(reader).phase;
    for (bool has_matrix = false; !has_matrix;) {
      if (begun_ == gathers_.size()) return;
      if (graph_.node(gathers_[begun_].reader).phase != phase) return;
      for (const size_t end = EndOfReader(begun_); begun_ < end; ++begun_) {
        const Gather& gather = gathers_[begun_];
        has_matrix |= graph_.value(gather.param).type.shape.rank() > 1;
        Begin(gather);
      }
    }
  }

  void Begin(const Gather& gather) {
    Split& split = splits_.at(gather.param);
    const ValueInfo& info = graph_.value(gather.param);
    copy_.SetOrigin(gather.reader);
    const Value whole = AllGather(split.block, ranks_, info.type.shape);
    if (!g_.Find(info.name)) g_.Name(info.name, whole);
    split.ahead.push_back(whole);
  }

  Status CopyNode(NodeId id) {
    const Node& node = graph_.node(id);
    if (ReadsNothingWhole(node)) {
      if (node.op == OpKind::kOwnBlock) {
        copy_.Map(node.results[0], splits_.at(node.inputs[0]).block);
      }
      return {};
    }
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      const ValueId target = node.inputs[static_cast<size_t>(r)];
      if (IsSplit(target)) return Refuse(target, "is updated as a whole");
    }
    TakeGathers(id);
    for (const ValueId input : node.inputs) {
      if (!IsSplit(input)) continue;
      copy_.Map(input, ViewOf(splits_.at(root(input)), input));
    }
    copy_.CopyNode(id);
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      const Value target = copy_[node.inputs[static_cast<size_t>(r)]];
      const Value result = copy_[node.results[static_cast<size_t>(r)]];
      if (!result.ok()) continue;
      if (g_.info(target).role == Role::kParam)
        g_.SetRole(result, Role::kParam);
    }
    return {};
  }

  // The params gathered for `reader` replace those gathered before.
  void TakeGathers(NodeId reader) {
    if (taken_ == gathers_.size() || gathers_[taken_].reader != reader) return;
    const size_t end = EndOfReader(taken_);
    for (; begun_ < end; ++begun_) Begin(gathers_[begun_]);
    // Unless those of the next reader are in flight.
    if (begun_ == end) GatherAhead(reader);
    for (; taken_ < end; ++taken_) {
      Split& split = splits_.at(gathers_[taken_].param);
      split.whole = split.ahead.front();
      split.ahead.pop_front();
      split.views.clear();
    }
  }

  // The gathered value of `id`, a split param or a view of one.
  Value ViewOf(Split& split, ValueId id) {
    const ValueInfo& info = graph_.value(id);
    if (info.is_leaf()) return split.whole;
    if (const auto known = split.views.find(id); known != split.views.end()) {
      return known->second;
    }
    const Node& node = graph_.node(info.producer);
    copy_.Map(node.inputs[0], ViewOf(split, node.inputs[0]));
    copy_.CopyNode(info.producer);
    for (const ValueId result : node.results) {
      split.views[result] = copy_[result];
    }
    return split.views.at(id);
  }

  const Graph& graph_;
  const int64_t ranks_;
  const Layouts layouts_;
  GraphBuilder g_;
  GraphCopy copy_;
  std::map<ValueId, Split> splits_;  // by param
  std::vector<Gather> gathers_;      // in the order of their readers
  size_t begun_ = 0, taken_ = 0;     // of them
};

}  // namespace

Result<Graph> ShardWeights(const Graph& graph, int64_t ranks) {
  return WeightSharder(graph, ranks).Run();
}

namespace {

// The state that a forward node writes in place, if any.
const ValueInfo* WrittenState(const Graph& graph, const Node& node) {
  if (node.phase != Phase::kForward) return nullptr;
  for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
    const ValueInfo& written = graph.value(node.inputs[static_cast<size_t>(r)]);
    if (written.role == Role::kState) return &written;
  }
  return nullptr;
}

// `target` moved towards each rank's `x`, in rank order.
Value MoveToAll(Value target, Value x, Value weight, int64_t ranks) {
  const int64_t elements = x.shape().num_elements();
  const Value all =
      AllGather(Reshape(x, {elements}), ranks, {ranks * elements});
  for (int64_t r = 0; r < ranks; ++r) {
    const Value part = Slice(all, 0, r * elements, (r + 1) * elements);
    target = LerpUpdate(target, Reshape(part, x.shape()), weight);
  }
  return target;
}

}  // namespace

Result<Graph> JoinModelStates(const Graph& step, int64_t ranks) {
  const auto writes = [&](const Node& node) {
    return WrittenState(step, node) != nullptr;
  };
  if (std::ranges::none_of(step.nodes(), writes)) return step;
  GraphBuilder g(step.name());
  GraphCopy copy(step, &g);
  copy.DeclareLeaves();
  for (NodeId id = 0; id < step.num_nodes(); ++id) {
    const Node& node = step.node(id);
    const ValueInfo* const state = WrittenState(step, node);
    if (state == nullptr) {
      copy.CopyNode(id);
      continue;
    }
    if (node.op != OpKind::kLerpUpdate) {
      return Error{
          ErrorCode::kUnsupported,
          StrCat("[ranks] the model writes its state ", Quoted(state->name),
                 " by ", OpName(node.op), ", which ", ranks,
                 " ranks cannot do together; expected lerp_update, or one "
                 "rank")};
    }
    copy.SetOrigin(id);
    const Value moved = MoveToAll(copy[node.inputs[0]], copy[node.inputs[1]],
                                  copy[node.inputs[2]], ranks);
    const std::string& name = step.value(node.results[0]).name;
    if (!g.Find(name)) g.Name(name, moved);
    copy.Map(node.results[0], moved);
  }
  copy.DeclareOutputs();
  return g.Finish();
}

}  // namespace stowage

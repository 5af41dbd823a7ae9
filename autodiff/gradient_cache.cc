#include "autodiff/gradient_cache.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "autodiff/backward.h"
#include "autodiff/param_groups.h"
#include "autodiff/split_model.h"
#include "autodiff/step_parts.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "ir/control_flow.h"
#include "ir/graph_copy.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// A value of both graphs that the head reads from the encoder. One that holds the batch `runs`
// times, concatenated, is read in as many parts.
struct Cut {
  ValueId part = 0;
  ValueId whole = 0;
  BatchValue value = {};

  std::string PieceName(const Graph& graph, int64_t run) const {
    const std::string name = StrCat("encoded:", graph.value(whole).name);
    return value.runs == 1 ? name : StrCat(name, "#", run + 1);
  }
  // Part `run` of `all`, a value of a micro-batch or of the whole batch.
  Value Piece(Value all, int64_t run) const {
    if (value.runs == 1) return all;
    const int64_t size = all.shape()[value.axis] / value.runs;
    return Slice(all, value.axis, run * size, (run + 1) * size);
  }
};

class Cutter {
 public:
  Cutter(const Graph& whole, const Graph& part, const BatchAnalysis& analysis)
      : whole_(whole),
        analysis_(analysis),
        part_of_(Index(whole.num_values()), kNone),
        is_seen_(Index(whole.num_values()), false),
        is_in_head_(Index(whole.num_nodes()), false) {
    for (ValueId id = part.num_values(); id-- > 0;) {
      const ValueId counterpart = analysis.whole[Index(id)];
      if (counterpart >= 0) part_of_[Index(counterpart)] = id;
    }
  }

  // Walks from `outputs` of the whole batch to the encoder's values.
  void Walk(std::vector<ValueId> outputs) {
    while (!outputs.empty()) {
      const ValueId id = outputs.back();
      outputs.pop_back();
      if (is_seen_[Index(id)]) continue;
      is_seen_[Index(id)] = true;
      const NodeId producer = whole_.value(id).producer;
      if (producer == kNoNode) continue;
      const Node& node = whole_.node(producer);
      const std::optional<BatchValue> value = OfEncoder(id);
      if (value && !(IsRearrangement(node.op) && OfEncoder(node.inputs[0]))) {
        cuts_.push_back(
            {.part = part_of_[Index(id)], .whole = id, .value = *value});
        continue;
      }
      is_in_head_[Index(producer)] = true;
      for (const ValueId input : node.inputs) outputs.push_back(input);
    }
    std::ranges::sort(cuts_, {}, &Cut::whole);
  }

  const std::vector<Cut>& cuts() const { return cuts_; }
  // Whether the encoder computes less than an eighth of the model's bytes, so that micro-batches
  // save little: examples are mixed at an early layer.
  bool IsMostlyHead() const {
    double head = 0, all = 0;
    for (NodeId id = 0; id < whole_.num_nodes(); ++id) {
      const Node& node = whole_.node(id);
      if (GetOpDef(node.op).is_view()) continue;
      for (const ValueId result : node.results) {
        const auto bytes =
            static_cast<double>(whole_.value(result).type.bytes());
        all += bytes;
        if (is_in_head_[Index(id)]) head += bytes;
      }
    }
    return all - head < all / 8;
  }
  bool IsInHead(NodeId id) const { return is_in_head_[Index(id)]; }

 private:
  static constexpr ValueId kNone = -1;

  // Ops that the head repeats instead of saving their result beside their operand.
  static bool IsRearrangement(OpKind op) {
    return op == OpKind::kPermute || op == OpKind::kReshape ||
           op == OpKind::kBroadcast || op == OpKind::kCopy;
  }

  // The kind of value `id` if micro-batches compute it; nothing if the head does, as it does
  // values that depend on inputs or on params alone.
  std::optional<BatchValue> OfEncoder(ValueId id) const {
    if (part_of_[Index(id)] == kNone) return std::nullopt;
    const BatchValue& value = analysis_.values[Index(part_of_[Index(id)])];
    const bool is_per_example =
        value.kind == BatchKind::kPerExample && !value.is_uniform;
    const bool is_total =
        value.kind == BatchKind::kSum || value.kind == BatchKind::kMean;
    if (value.of_inputs || !(is_per_example || is_total)) return std::nullopt;
    return value;
  }

  const Graph& whole_;
  const BatchAnalysis& analysis_;
  std::vector<ValueId> part_of_;  // by value of whole
  std::vector<bool> is_seen_;
  std::vector<bool> is_in_head_;  // by node of whole
  std::vector<Cut> cuts_;
};

class CacheBuilder {
 public:
  CacheBuilder(const Graph& whole, const Graph& part, const Graph& rewritten,
               double share, std::string_view loss, const TrainOptions& options)
      : whole_(whole),
        part_(part),
        rewritten_(rewritten),
        share_(share),
        loss_(loss),
        options_(options) {}

  Result<GradientCache> Build(const Cutter& cutter,
                              std::vector<std::string> outputs) {
    cache_.outputs = std::move(outputs);
    for (const Cut& cut : cutter.cuts()) {
      for (int64_t run = 0; run < cut.value.runs; ++run) {
        cache_.gradients.push_back({.value = cut.PieceName(whole_, run),
                                    .kind = cut.value.kind,
                                    .axis = cut.value.axis});
      }
    }
    STOWAGE_RETURN_IF_ERROR(BuildHead(cutter));
    STOWAGE_RETURN_IF_ERROR(BuildEncoder(cutter));
    STOWAGE_RETURN_IF_ERROR(BuildMicroBatch(cutter));
    return std::move(cache_);
  }

 private:
  ValueId InRewritten(const Cut& cut) const {
    return *rewritten_.Find(part_.value(cut.part).name);
  }

  // The head, forward and backward. The encoder's values are its params, so that it is
  // differentiated by them.
  Status BuildHead(const Cutter& cutter) {
    GraphBuilder g(StrCat(whole_.name(), ".head"));
    GraphCopy copy(whole_, &g);
    for (NodeId id = 0; id < whole_.num_nodes(); ++id) {
      if (!cutter.IsInHead(id)) continue;
      for (const ValueId input : whole_.node(id).inputs) {
        if (whole_.value(input).is_leaf() && !copy[input].ok()) {
          copy.DeclareLeaf(input);
        }
      }
    }
    for (const Cut& cut : cutter.cuts()) {
      const ValueInfo& info = whole_.value(cut.whole);
      std::vector<Value> pieces;
      for (int64_t run = 0; run < cut.value.runs; ++run) {
        TensorType type = info.type;
        if (cut.value.runs > 1) type.shape[cut.value.axis] /= cut.value.runs;
        pieces.push_back(g.LeafLike({.name = cut.PieceName(whole_, run),
                                     .type = std::move(type),
                                     .role = Role::kParam,
                                     .source = info.source}));
      }
      copy.Map(cut.whole, cut.value.runs == 1
                              ? pieces[0]
                              : Concat(pieces, cut.value.axis, info.source));
    }
    for (NodeId id = 0; id < whole_.num_nodes(); ++id) {
      if (cutter.IsInHead(id)) copy.CopyNode(id);
    }
    for (const std::string& name : cache_.outputs) {
      g.Output(name, copy[OutputOf(name)]);
    }
    STOWAGE_ASSIGN_OR_RETURN(const Graph head, g.Finish());

    std::set<std::string, std::less<>> cut_names;
    for (const CachedGradient& each : cache_.gradients) {
      cut_names.insert(each.value);
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> unreached,
                             FindUnreachedParams(head, loss_));
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<std::string> trained,
        WithoutFrozen(whole_, options_.wrt, options_.groups));
    std::vector<std::string> wrt;
    for (const ValueId id : head.Leaves(Role::kParam)) {
      const ValueInfo& info = head.value(id);
      const bool is_wanted =
          cut_names.contains(info.name) || trained.empty() ||
          std::ranges::find(trained, info.name) != trained.end();
      if (!IsFloat(info.type.dtype) || !is_wanted ||
          std::ranges::find(unreached, info.name) != unreached.end()) {
        continue;
      }
      wrt.push_back(info.name);
      if (!cut_names.contains(info.name)) {
        cache_.gradients.push_back({.value = info.name});
      }
    }
    for (CachedGradient& each : cache_.gradients) {
      if (std::ranges::find(wrt, each.value) == wrt.end()) continue;
      each.gradient = GradientName(each.value);
      each.leaf = StrCat("total:", each.gradient);
    }
    STOWAGE_ASSIGN_OR_RETURN(const Graph backward,
                             BuildBackward(head, loss_, {.wrt = wrt}));
    STOWAGE_ASSIGN_OR_RETURN(
        cache_.head,
        LinkBackward(head, backward, loss_,
                     options_.loss_scaling ? kHeadScale : std::string_view()));
    return {};
  }

  ValueId OutputOf(std::string_view name) const {
    for (const GraphOutput& output : whole_.outputs()) {
      if (output.name == name) return output.value;
    }
    return *whole_.Find(name);  // a loss that is no output
  }

  // Copies the nodes of `rewritten` for the cuts and, with them, for `outputs`.
  void CopyNodes(const Cutter& cutter, const std::vector<GraphOutput>& outputs,
                 GraphCopy* copy) const {
    std::vector<ValueId> wanted;
    for (const Cut& cut : cutter.cuts()) wanted.push_back(InRewritten(cut));
    for (const GraphOutput& output : outputs) wanted.push_back(output.value);
    const std::vector<bool> known(Index(rewritten_.num_values()), false);
    const std::vector<bool> nodes = NodesFor(rewritten_, wanted, known);
    for (NodeId id = 0; id < rewritten_.num_nodes(); ++id) {
      if (!nodes[Index(id)]) continue;
      for (const ValueId input : rewritten_.node(id).inputs) {
        if (rewritten_.value(input).is_leaf() && !(*copy)[input].ok()) {
          copy->DeclareLeaf(input);
        }
      }
      copy->CopyNode(id);
    }
  }

  Status BuildEncoder(const Cutter& cutter) {
    GraphBuilder g(StrCat(part_.name(), ".encoder"));
    GraphCopy copy(rewritten_, &g);
    CopyNodes(cutter, {}, &copy);
    for (const Cut& cut : cutter.cuts()) {
      for (int64_t run = 0; run < cut.value.runs; ++run) {
        g.Output(cut.PieceName(whole_, run),
                 cut.Piece(copy[InRewritten(cut)], run));
      }
    }
    STOWAGE_ASSIGN_OR_RETURN(cache_.encoder, g.Finish());
    return {};
  }

  Status BuildMicroBatch(const Cutter& cutter) {
    std::vector<GraphOutput> outputs;
    for (const GraphOutput& output : rewritten_.outputs()) {
      if (std::ranges::find(cache_.outputs, output.name) ==
          cache_.outputs.end()) {
        outputs.push_back(output);
      }
    }
    GraphBuilder g(part_.name());
    GraphCopy copy(rewritten_, &g);
    copy.DeclareLeaves();
    g.KeepFree(loss_);
    CopyNodes(cutter, outputs, &copy);
    const ValueInfo& loss = whole_.value(*whole_.Find(loss_));
    g.SetOrigin(Phase::kForward, "", loss.source);
    Value sum;
    const auto add = [&](Value value, const CachedGradient& each,
                         double weight) {
      if (each.leaf.empty()) return;
      const Value gradient = g.LeafLike({.name = each.leaf,
                                         .type = value.type(),
                                         .role = Role::kInput,
                                         .source = loss.source});
      Value term = Cast(ReduceSum(Mul(value, gradient)), loss.type.dtype);
      if (weight != 1) term = MulScalar(term, weight);
      sum = sum.builder() == nullptr ? term : Add(sum, term);
    };
    auto next = cache_.gradients.begin();
    for (const Cut& cut : cutter.cuts()) {
      for (int64_t run = 0; run < cut.value.runs; ++run, ++next) {
        add(cut.Piece(copy[InRewritten(cut)], run), *next,
            cut.value.kind == BatchKind::kMean ? share_ : 1);
      }
    }
    // Each micro-batch adds its share of the gradient that the head makes of a param.
    for (; next != cache_.gradients.end(); ++next) {
      add(copy[*rewritten_.Find(next->value)], *next, share_);
    }
    if (g.error()) return *g.error();
    g.Name(loss_, sum);
    for (const GraphOutput& output : outputs) {
      g.Output(output.name, copy[output.value]);
    }
    STOWAGE_ASSIGN_OR_RETURN(cache_.micro_batch, g.Finish());
    return {};
  }

  const Graph& whole_;
  const Graph& part_;
  const Graph& rewritten_;
  const double share_;
  const std::string_view loss_;
  const TrainOptions& options_;
  GradientCache cache_;
};

Error NoCache(const Graph& whole, std::string_view why) {
  return Error{ErrorCode::kUnsupported,
               StrCat("[micro-batches] graph ", Quoted(whole.name()),
                      " cannot be cut into an encoder and a head: ", why)};
}

}  // namespace

Result<GradientCache> CacheGradients(
    const Graph& whole, const Graph& part, const Graph& rewritten,
    const BatchAnalysis& analysis, const std::vector<BatchObstacle>& obstacles,
    double share, std::string_view loss, const TrainOptions& options) {
  if (!analysis.written.empty()) {
    return NoCache(whole, "it writes values itself");
  }
  std::vector<std::string> outputs;
  for (const BatchObstacle& obstacle : obstacles) {
    outputs.push_back(obstacle.name);
  }
  if (std::ranges::find(outputs, loss) == outputs.end()) {
    return NoCache(whole, "its loss is none of what compares examples");
  }
  std::vector<ValueId> ends;
  for (const std::string& name : outputs) {
    const std::optional<ValueId> id = whole.Find(name);
    if (!id) return NoCache(whole, StrCat("it has no ", Quoted(name)));
    ends.push_back(*id);
  }
  Cutter cutter(whole, part, analysis);
  cutter.Walk(std::move(ends));
  if (cutter.cuts().empty()) {
    return NoCache(whole, "no example has a value of its own");
  }
  if (cutter.IsMostlyHead()) {
    return NoCache(whole, "nearly all of it compares examples");
  }
  return CacheBuilder(whole, part, rewritten, share, loss, options)
      .Build(cutter, std::move(outputs));
}

namespace {

// Fewer are not worth a loop.
constexpr size_t kMinInLoop = 3;

class Encoders {
 public:
  Encoders(const GradientCache& cache, std::span<const EncoderPart> parts,
           const std::function<Value(std::string_view)>& leaf,
           const std::function<std::optional<Value>(std::string_view)>& known,
           GraphBuilder* g)
      : cache_(cache), parts_(parts), leaf_(leaf), known_(known), g_(*g) {}

  // The values of all examples, in the order of GradientCache::gradients.
  std::vector<Value> Encode() const {
    return IsLoop() ? EncodeInLoop() : EncodeInTurn();
  }

 private:
  const CachedGradient& of(size_t output) const {
    return cache_.gradients[output];
  }
  Shape WholeShape(size_t output) const {
    const std::string& name = of(output).value;
    return cache_.head.value(*cache_.head.Find(name)).type.shape;
  }

  // Whether all micro-batches do the same with the next examples of the first axis.
  bool IsLoop() const {
    if (parts_.size() < kMinInLoop || !parts_[0].axes.are_first()) return false;
    const Graph& encoder = parts_[0].encoder;
    for (size_t i = 0; i < encoder.outputs().size(); ++i) {
      if (of(i).kind == BatchKind::kPerExample && of(i).axis > 0) return false;
    }
    return std::ranges::all_of(parts_, [&](const EncoderPart& part) {
      return &part.encoder == &encoder && part.dropouts == 0;
    });
  }

  std::vector<Value> EncodeInLoop() const {
    const Graph& encoder = parts_[0].encoder;
    const auto times = static_cast<int64_t>(parts_.size());
    LoopOperands operands;
    std::vector<ValueId> sliced, whole;
    const std::vector<std::string> cut = parts_[0].axes.Names();
    for (ValueId id = 0; id < encoder.num_values(); ++id) {
      const ValueInfo& info = encoder.value(id);
      if (!info.is_leaf()) continue;
      if (std::ranges::find(cut, info.name) == cut.end()) {
        const std::optional<Value> total = known_(info.name);
        operands.whole.push_back(total ? *total : leaf_(info.name));
        whole.push_back(id);
        continue;
      }
      Shape shape = {times};
      for (const int64_t dim : info.type.shape) shape.push_back(dim);
      operands.sliced.push_back(Reshape(leaf_(info.name), shape));
      sliced.push_back(id);
    }
    const LoopResults loop =
        Loop(g_, times, operands,
             [&](LoopBody& body) {
               GraphCopy copy(encoder, &body.builder());
               for (size_t i = 0; i < sliced.size(); ++i) {
                 copy.Map(sliced[i], body.sliced(i));
               }
               for (size_t i = 0; i < whole.size(); ++i) {
                 copy.Map(whole[i], body.whole(i));
               }
               for (NodeId id = 0; id < encoder.num_nodes(); ++id)
                 copy.CopyNode(id);
               for (const GraphOutput& output : encoder.outputs()) {
                 body.Stack(copy[output.value]);
               }
             },
             {.name = encoder.name()});
    std::vector<Value> encoded;
    for (size_t i = 0; i < encoder.outputs().size(); ++i) {
      const Value all = loop.stacked[i];
      switch (of(i).kind) {
        case BatchKind::kPerExample:
          encoded.push_back(Reshape(all, WholeShape(i)));
          break;
        case BatchKind::kMean:
          encoded.push_back(ReduceMean(all, {0}));
          break;
        default:
          encoded.push_back(ReduceSum(all, {0}));
      }
    }
    return encoded;
  }

  std::vector<Value> EncodeInTurn() const {
    std::vector<Value> encoded(parts_[0].encoder.outputs().size());
    std::vector<int64_t> taken(encoded.size(), 0);
    int64_t first_dropout = 0;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const auto& [encoder, axes, dropouts] = parts_[p];
      GraphCopy copy(encoder, &g_, StrCat("/encode.", p + 1));
      copy.UseOrigin(std::string(kTotals));
      g_.SetOrigin(Phase::kForward, kTotals);
      for (ValueId id = 0; id < encoder.num_values(); ++id) {
        if (!encoder.value(id).is_leaf()) continue;
        const std::string& name = encoder.value(id).name;
        const std::optional<Value> total = known_(name);
        copy.Map(id, total ? *total : axes.Part(encoder, id, leaf_(name)));
      }
      for (NodeId id = 0; id < encoder.num_nodes(); ++id) {
        copy.CopyNode(id, WithDropoutIdsFrom(encoder.node(id), first_dropout));
      }
      first_dropout += dropouts;
      g_.SetOrigin(Phase::kForward, kTotals);
      for (size_t i = 0; i < encoded.size(); ++i) {
        Value part = copy[encoder.outputs()[i].value];
        if (of(i).kind == BatchKind::kPerExample) {
          if (p == 0) {
            encoded[i] = Fill(g_, 0, part.dtype(), WholeShape(i));
          }
          encoded[i] = SliceUpdate(encoded[i], part, of(i).axis, taken[i]);
          taken[i] += part.dim(of(i).axis);
          continue;
        }
        if (of(i).kind == BatchKind::kMean) {
          part = MulScalar(part, axes.weight());
        }
        encoded[i] = p == 0 ? part : Add(encoded[i], part);
      }
    }
    return encoded;
  }

  const GradientCache& cache_;
  const std::span<const EncoderPart> parts_;
  const std::function<Value(std::string_view)>& leaf_;
  const std::function<std::optional<Value>(std::string_view)>& known_;
  GraphBuilder& g_;
};

}  // namespace

HeadValues EmitHead(
    const GradientCache& cache, std::span<const EncoderPart> parts,
    const std::function<Value(std::string_view)>& leaf,
    const std::function<std::optional<Value>(std::string_view)>& known,
    const LossGradient& seed, GraphBuilder* g) {
  g->SetOrigin(Phase::kForward, kTotals);
  const std::vector<Value> encoded =
      Encoders(cache, parts, leaf, known, g).Encode();
  GraphCopy copy(cache.head, g, "/head");
  copy.UseOrigin(std::string(kTotals));
  std::map<std::string, Value, std::less<>> of_encoder;
  for (size_t i = 0; i < encoded.size(); ++i) {
    of_encoder[cache.gradients[i].value] = encoded[i];
  }
  for (ValueId id = 0; id < cache.head.num_values(); ++id) {
    const ValueInfo& info = cache.head.value(id);
    if (!info.is_leaf()) continue;
    const auto found = of_encoder.find(info.name);
    if (info.name == kHeadScale) {
      copy.Map(id, seed.scale.builder() != nullptr
                       ? seed.scale
                       : Fill(*g, seed.value, DType::kF32, {}));
    } else {
      copy.Map(id, found == of_encoder.end() ? leaf(info.name) : found->second);
    }
  }
  for (NodeId id = 0; id < cache.head.num_nodes(); ++id) copy.CopyNode(id);
  const auto output = [&](std::string_view name) {
    return name.empty() ? Value() : copy[*cache.head.Find(name)];
  };
  HeadValues made;
  for (const CachedGradient& each : cache.gradients) {
    made.gradients.push_back(output(each.gradient));
  }
  for (const std::string& name : cache.outputs) {
    made.outputs.push_back(output(name));
  }
  return made;
}

}  // namespace stowage

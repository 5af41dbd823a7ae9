#include "autodiff/micro_batches_in_turn.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "autodiff/step_parts.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/ops.h"

namespace stowage {

namespace {

bool IsThere(Value value) { return value.builder() != nullptr; }

void AddTo(Value part, Value* sum) {
  *sum = IsThere(*sum) ? Add(*sum, part) : part;
}

}  // namespace

MicroBatchOutputs::MicroBatchOutputs(const Graph& whole, const Graph& part,
                                     const SplitModel& model,
                                     std::string_view loss, GraphBuilder* g)
    : whole_(whole), part_(part), model_(model), loss_(loss), g_(*g) {}

TensorType MicroBatchOutputs::PartType(const Made& made) const {
  return part_.value(*part_.Find(made.output.name)).type;
}

Result<MicroBatchOutputs::Made> MicroBatchOutputs::Decide(
    const GraphOutput& output, const Graph& micro_batch) const {
  if (model_.IsWholeOutput(output.name)) {
    return Made{.output = output, .kind = Kind::kWhole};
  }
  const ValueInfo& whole = whole_.value(output.value);
  const std::optional<ValueId> id = micro_batch.Find(output.name);
  if (!id) {
    return InvalidArgumentError(
        "[autodiff] micro-batch ", Quoted(micro_batch.name()),
        " has no output ", Quoted(output.name), ", batch ",
        Quoted(whole_.name()), " has; build both with the same model");
  }
  const TensorType& part = micro_batch.value(*id).type;
  Made made = {.output = output};
  const std::string types =
      StrCat("output ", Quoted(output.name), " is ", part.ToString(),
             " in micro-batch ", Quoted(micro_batch.name()), " and ",
             whole.type.ToString(), " in batch ", Quoted(whole_.name()));
  if (whole.role == Role::kState || whole.role == Role::kParam) {
    made.kind = Kind::kLast;
    return made;
  }
  if (part == whole.type) {
    const DType dtype = part.dtype;
    switch (model_.KindOf(micro_batch, output.name)) {
      case BatchKind::kSame:
        if (output.value != whole_.Find(loss_)) {
          made.kind = Kind::kLast;
          return made;
        }
        break;
      case BatchKind::kMax:
        made.kind = Kind::kMax;
        return made;
      case BatchKind::kSum:
        made.kind = Kind::kSum;
        if (dtype != DType::kBool) return made;
        break;
      default:
        break;
    }
    if (made.kind == Kind::kMean && IsFloat(dtype)) return made;
    return InvalidArgumentError(
        "[autodiff] ", types, "; a ", made.kind == Kind::kSum ? "sum" : "mean",
        " over the batch is a number, so make it one by a cast");
  }
  if (part.dtype != whole.type.dtype ||
      part.shape.rank() != whole.type.shape.rank()) {
    return InvalidArgumentError("[autodiff] ", types,
                                "; build both with the same model");
  }
  int differing = 0;
  for (int axis = 0; axis < part.shape.rank(); ++axis) {
    if (part.shape[axis] == whole.type.shape[axis]) continue;
    made.axis = axis;
    ++differing;
  }
  made.kind = Kind::kJoined;
  if (differing == 1) return made;
  return InvalidArgumentError(
      "[autodiff] ", types,
      "; they may differ in one dimension, that of the examples");
}

Status MicroBatchOutputs::Begin(const Graph& micro_batch) {
  for (const GraphOutput& output : whole_.outputs()) {
    STOWAGE_ASSIGN_OR_RETURN(Made made, Decide(output, micro_batch));
    if (made.kind == Kind::kJoined) {
      const ValueInfo& whole = whole_.value(output.value);
      g_.SetOrigin(Phase::kForward, "", whole.source);
      const TensorType type = PartType(made);
      made.value = Fill(g_, 0, type.dtype, type.shape);
    }
    made_.push_back(std::move(made));
  }
  return {};
}

Result<std::vector<std::string>> MicroBatchOutputs::BeginRepeated(
    const Graph& micro_batch) {
  STOWAGE_RETURN_IF_ERROR(Begin(micro_batch));
  std::vector<std::string> joined;
  for (Made& made : made_) {
    const std::string& name = made.output.name;
    if (made.kind == Kind::kJoined) {
      joined.push_back(StrCat("joined:", name));
      g_.Name(joined.back(), made.value);
    } else if (made.kind == Kind::kWhole) {
      continue;
    } else if (made.kind == Kind::kMax || made.kind == Kind::kLast) {
      return Error{
          ErrorCode::kUnsupported,
          StrCat("[autodiff] output ", Quoted(name),
                 " is no sum, which is what a loop over micro-batches makes")};
    } else {
      const ValueInfo& part = micro_batch.value(*micro_batch.Find(name));
      made.value = g_.LeafLike({.name = StrCat("sum:", name),
                                .type = part.type,
                                .role = Role::kSaved,
                                .source = part.source});
    }
  }
  return joined;
}

bool MicroBatchOutputs::join_first() const {
  return std::ranges::all_of(made_, [](const Made& made) {
    return made.kind != Kind::kJoined || made.axis == 0;
  });
}

int64_t MicroBatchOutputs::PlacesOf(const Made& made,
                                    const Graph& micro_batch) const {
  return micro_batch.value(*micro_batch.Find(made.output.name))
      .type.shape[made.axis];
}

bool MicroBatchOutputs::IsLoss(const Made& made) const {
  return made.output.value == whole_.Find(loss_);
}

Value MicroBatchOutputs::PartOf(const Made& made, const Graph& micro_batch,
                                const Linker& linker, Phase phase) {
  const ValueId id = *micro_batch.Find(made.output.name);
  g_.SetOrigin(phase, phase == Phase::kBackward ? loss_ : std::string_view(),
               micro_batch.value(id).source);
  return linker.forward(id);
}

Status MicroBatchOutputs::Add(const Graph& micro_batch, double share,
                              const Linker& linker) {
  for (Made& made : made_) {
    if (IsLoss(made) || made.kind == Kind::kWhole) continue;
    const Value part = PartOf(made, micro_batch, linker, Phase::kForward);
    if (made.kind == Kind::kLast) made.value = part;
    if (made.kind == Kind::kSum) AddTo(part, &made.value);
    if (made.kind == Kind::kMax) {
      made.value = IsThere(made.value) ? Maximum(made.value, part) : part;
    }
    if (made.kind == Kind::kMean) AddTo(MulScalar(part, share), &made.value);
    if (made.kind != Kind::kJoined) continue;
    const TensorType& whole = whole_.value(made.output.value).type;
    const int64_t places = PlacesOf(made, micro_batch);
    const int64_t size = whole.shape[made.axis];
    if (made.taken + places > PartType(made).shape[made.axis] ||
        static_cast<double>(places) / static_cast<double>(size) != share) {
      return InvalidArgumentError(
          "[autodiff] output ", Quoted(made.output.name), " of micro-batch ",
          Quoted(micro_batch.name()), " has ", places, " places along axis ",
          made.axis, ", of batch ", Quoted(whole_.name()), " it is ",
          whole.ToString(), "; the micro-batch is ", share,
          " of the batch, and so must its part be");
    }
    made.value = SliceUpdate(made.value, part, made.axis, made.taken);
    made.taken += places;
  }
  return {};
}

void MicroBatchOutputs::AddLoss(const Graph& micro_batch, double share,
                                const Linker& linker) {
  for (Made& made : made_) {
    if (!IsLoss(made) || made.kind == Kind::kWhole) continue;
    const Value part = PartOf(made, micro_batch, linker, Phase::kBackward);
    if (made.kind == Kind::kSum) {
      AddTo(part, &made.value);
    } else {
      AddTo(MulScalar(part, share), &made.value);
    }
  }
}

void MicroBatchOutputs::Skip(const Graph& micro_batch) {
  for (Made& made : made_) {
    if (made.kind == Kind::kJoined) made.taken += PlacesOf(made, micro_batch);
  }
}

Status MicroBatchOutputs::Finish(int64_t ranks) {
  for (Made& made : made_) {
    if (made.kind == Kind::kWhole) {
      g_.Output(made.output.name, *model_.whole_output(made.output.name));
      continue;
    }
    const TensorType type = PartType(made);
    if (made.kind == Kind::kJoined && made.taken != type.shape[made.axis]) {
      return InvalidArgumentError("[autodiff] the micro-batches make ",
                                  made.taken, " of the ", type.shape[made.axis],
                                  " places of output ",
                                  Quoted(made.output.name));
    }
    const bool is_total = made.kind == Kind::kMean || made.kind == Kind::kSum;
    if (ranks > 1 && (is_total || made.kind == Kind::kJoined)) {
      g_.SetOrigin(Phase::kBackward, made.output.name);
      const std::optional<Value> part = g_.Find(made.output.name);
      const bool is_made = part && part->id() == made.value.id();
      const bool stays = is_made && !is_total;
      if (part && !stays && !g_.info(*part).is_leaf()) {
        g_.Name(StrCat("part:", made.output.name), *part);
      }
      if (is_total) made.value = AllReduce(made.value, ranks);
    }
    g_.Output(made.output.name, made.value);
  }
  return {};
}

void MicroBatchesInTurn::MapLeaves(const Graph& micro_batch, Linker* linker) {
  g_.SetOrigin(Phase::kForward, "");
  for (ValueId id = 0; id < micro_batch.num_values(); ++id) {
    if (!micro_batch.value(id).is_leaf()) continue;
    const std::string& name = micro_batch.value(id).name;
    if (const std::optional<Value> total = model_.total(name, axes_)) {
      linker->MapLeaf(id, *total);
      continue;
    }
    const auto state = states_.find(name);
    linker->MapLeaf(
        id, state != states_.end()
                ? state->second
                : axes_.Part(micro_batch, id, leaves_[*part_.Find(name)]));
  }
}

Status MicroBatchesInTurn::Run(MicroBatches which, Updater* updater,
                               const std::function<void(const Gradient&)>& add,
                               const std::function<void()>& end_micro_batch) {
  std::map<const Graph*, Differentiated> differentiated;
  for (const Graph* const micro_batch : micro_batches_) {
    STOWAGE_RETURN_IF_ERROR(model_.Add(*micro_batch));
    if (differentiated.contains(micro_batch)) continue;
    STOWAGE_ASSIGN_OR_RETURN(
        Differentiated graphs,
        Differentiate(model_.graph(*micro_batch), loss_, options_));
    differentiated.emplace(micro_batch, std::move(graphs));
  }
  for (ValueId id = 0; id < part_.num_values(); ++id) {
    if (part_.value(id).is_leaf()) leaves_.DeclareLeaf(id);
  }
  updater->DeclareInputs();
  model_.EmitTotals(
      [this](std::string_view name) { return leaves_[*part_.Find(name)]; },
      updater->Seed(), &g_);
  STOWAGE_RETURN_IF_ERROR(outputs_.Begin(*micro_batches_.front()));
  int64_t first_dropout = 0;
  for (const Graph* const micro_batch : micro_batches_) {
    first_dropout +=
        ranks_.rank * DropoutIds(differentiated.at(micro_batch).forward);
  }
  std::map<const Graph*, size_t>
      between;  // by kind: the micro-batch that is built
  for (size_t p = 0; p < micro_batches_.size(); ++p) {
    const Differentiated& graphs = differentiated.at(micro_batches_[p]);
    const Graph& micro_batch = graphs.forward;
    STOWAGE_RETURN_IF_ERROR(axes_.Add(*micro_batches_[p]));
    const bool is_first = p == 0;
    const bool is_last = p + 1 == micro_batches_.size();
    if (which == MicroBatches::kOneOfAKind && !is_first && !is_last) {
      const auto [kind, is_new] =
          between.emplace(micro_batches_[p], begins_.size());
      if (!is_new) {
        ++counts_[kind->second];
        first_dropout += DropoutIds(micro_batch);
        outputs_.Skip(micro_batch);
        continue;
      }
    }
    // Nodes before the first micro-batch belong to it.
    begins_.push_back(is_first ? 0 : g_.graph().num_nodes());
    counts_.push_back(1);
    const std::string suffix =
        micro_batches_.size() > 1 ? StrCat("/", p + 1) : "";
    Linker linker(micro_batch, graphs.backward, loss_, &g_,
                  {.suffix = suffix, .first_dropout = first_dropout});
    first_dropout += DropoutIds(micro_batch);
    MapLeaves(micro_batch, &linker);
    linker.CopyForward();
    STOWAGE_RETURN_IF_ERROR(linker.WireUp(
        model_.Seed(*micro_batches_[p], axes_.weight(), *updater)));
    STOWAGE_RETURN_IF_ERROR(outputs_.Add(micro_batch, axes_.weight(), linker));
    for (const ValueId id : micro_batch.Leaves(Role::kState)) {
      states_[micro_batch.value(id).name] = linker.last_content(id);
    }
    CopyBackward(graphs, linker, [&](size_t i) {
      const Trained& trained = graphs.trained[i];
      const ValueInfo& param = micro_batch.value(trained.param);
      add(Gradient{.name = param.name,
                   .param = linker.forward(trained.param),
                   .gradient = linker.backward(trained.gradient),
                   .source = param.source,
                   .is_first = is_first,
                   .is_last = is_last});
    });
    end_micro_batch();
    outputs_.AddLoss(micro_batch, axes_.weight(), linker);
  }
  STOWAGE_RETURN_IF_ERROR(axes_.CheckComplete());
  return outputs_.Finish(ranks_.ranks);
}

}  // namespace stowage

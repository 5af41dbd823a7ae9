#include "autodiff/pieces_in_turn.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "autodiff/differentiated.h"
#include "autodiff/dropout_ids.h"
#include "base/strings.h"

namespace stowage {

void PiecesInTurn::MapLeaves(const Graph& piece, Linker* linker) {
  g_.SetOrigin(Phase::kForward, "");
  for (ValueId id = 0; id < piece.num_values(); ++id) {
    if (!piece.value(id).is_leaf()) continue;
    const std::string& name = piece.value(id).name;
    if (const std::optional<Value> total = model_.total(name)) {
      linker->MapLeaf(id, *total);
      continue;
    }
    const auto state = states_.find(name);
    linker->MapLeaf(id,
                    state != states_.end()
                        ? state->second
                        : axes_.Part(piece, id, leaves_[*part_.Find(name)]));
  }
}

Status PiecesInTurn::Run(Pieces which, Updater* updater,
                         const std::function<void(const Gradient&)>& add,
                         const std::function<void()>& end_piece) {
  std::map<const Graph*, Differentiated> differentiated;
  for (const Graph* const piece : pieces_) {
    STOWAGE_RETURN_IF_ERROR(model_.Add(*piece));
    if (differentiated.contains(piece)) continue;
    STOWAGE_ASSIGN_OR_RETURN(
        Differentiated graphs,
        Differentiate(model_.graph(*piece), loss_, options_));
    differentiated.emplace(piece, std::move(graphs));
  }
  for (ValueId id = 0; id < part_.num_values(); ++id) {
    if (part_.value(id).is_leaf()) leaves_.DeclareLeaf(id);
  }
  updater->DeclareInputs();
  model_.EmitTotals(
      [this](std::string_view name) { return leaves_[*part_.Find(name)]; },
      &g_);
  STOWAGE_RETURN_IF_ERROR(outputs_.Begin(*pieces_.front()));
  int64_t first_dropout = 0;
  for (const Graph* const piece : pieces_) {
    first_dropout += ranks_.rank * DropoutIds(differentiated.at(piece).forward);
  }
  std::map<const Graph*, size_t> between;  // by kind: the piece that is built
  for (size_t p = 0; p < pieces_.size(); ++p) {
    const Differentiated& graphs = differentiated.at(pieces_[p]);
    const Graph& piece = graphs.forward;
    STOWAGE_RETURN_IF_ERROR(axes_.Add(*pieces_[p]));
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
    // What is made before the first is its own.
    begins_.push_back(is_first ? 0 : g_.graph().num_nodes());
    counts_.push_back(1);
    const std::string suffix = pieces_.size() > 1 ? StrCat("/", p + 1) : "";
    Linker linker(piece, graphs.backward, loss_, &g_,
                  {.suffix = suffix, .first_dropout = first_dropout});
    first_dropout += DropoutIds(piece);
    MapLeaves(piece, &linker);
    linker.CopyForward();
    STOWAGE_RETURN_IF_ERROR(linker.WireUp(
        updater->Seed(model_.LossWeight(*pieces_[p], axes_.weight()))));
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
  return outputs_.Finish(ranks_.ranks);
}

}  // namespace stowage

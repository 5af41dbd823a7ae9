#include "planner/fit/recompute/chain.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "base/hash.h"
#include "base/index.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/uses.h"
#include "planner/fit/recompute/revolve.h"

namespace stowage::fit {
namespace {

constexpr size_t kMostStretches = 64;  // in a piece
constexpr size_t kFewestPieces = 3;

class ChainFinder {
 public:
  ChainFinder(const Graph& graph, const Rehearsal& rehearsal)
      : graph_(graph), rehearsal_(rehearsal), uses_(rehearsal.uses()) {}

  std::optional<Chain> Find() {
    FindBorders();
    if (borders_.size() < kFewestPieces) return {};
    for (size_t k = 0; k < borders_.size(); ++k) digests_.push_back(Digest(k));
    const std::optional<Repeat> repeat = Longest();
    return repeat ? Make(*repeat) : std::nullopt;
  }

 private:
  // All that forward nodes after `node` read of those up to it.
  struct Border {
    ValueId value = 0;
    NodeId node = 0;
  };
  // Stretch k ends at border k: `pieces` times `stretches` of them, from `first`.
  struct Repeat {
    size_t first = 0, stretches = 1, pieces = 0;
    size_t covered() const { return stretches * pieces; }
  };

  bool IsForward(NodeId n) const {
    return graph_.node(n).phase == Phase::kForward;
  }

  void FindBorders() {
    // By node: how many values live on, read by forward nodes, and their sum, which
    // is the value where there is one.
    const size_t nodes = Index(graph_.num_nodes());
    std::vector<int64_t> count(nodes + 1, 0);
    std::vector<int64_t> sum(nodes + 1, 0);
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (graph_.value(id).is_leaf() || rehearsal_.root(id) != id) continue;
      const std::span<const NodeId> readers = uses_.forward_readers(id);
      if (readers.empty()) continue;
      const size_t from = Index(graph_.value(id).producer);
      count[from] += 1;
      sum[from] += id;
      count[Index(readers.back())] -= 1;
      sum[Index(readers.back())] -= id;
    }
    for (size_t n = 0; n < nodes; ++n) {
      if (n > 0) {
        count[n] += count[n - 1];
        sum[n] += sum[n - 1];
      }
      if (count[n] != 1) continue;
      const auto value = static_cast<ValueId>(sum[n]);
      if (!rehearsal_.is_candidate(value)) continue;
      if (!borders_.empty() && borders_.back().value == value) continue;
      borders_.push_back({value, static_cast<NodeId>(n)});
    }
  }

  NodeId Begin(size_t stretch) const {
    return stretch == 0 ? 0 : borders_[stretch - 1].node + 1;
  }

  // Equal for stretches that do the same: 0 where one may not be in a chain.
  uint64_t Digest(size_t stretch) const {
    Fnv1a hash;
    const NodeId begin = Begin(stretch);
    std::string text;
    for (NodeId n = begin; n <= borders_[stretch].node; ++n) {
      if (!IsForward(n)) return 0;
      const Node& node = graph_.node(n);
      text = StrCat(OpName(node.op), " ");
      for (const ValueId input : node.inputs) {
        // A leaf, the border before the stretch, or a leaf in its place.
        const ValueInfo& info = graph_.value(input);
        text += info.producer >= begin
                    ? StrCat(n - info.producer, ".", info.result, " ")
                    : StrCat(info.type.ToString(), " ");
      }
      hash.Update(text);
      for (const ValueId result : node.results) {
        hash.Update(graph_.value(result).type.ToString());
      }
    }
    return hash.digest() | 1;
  }

  // Of the longest, the one whose borders are smallest.
  std::optional<Repeat> Longest() const {
    std::optional<Repeat> best;
    for (size_t p = 1; p <= std::min(kMostStretches, digests_.size() / 3);
         ++p) {
      size_t run = 0;
      for (size_t k = p; k <= digests_.size(); ++k) {
        const bool goes_on = k < digests_.size() && digests_[k] != 0 &&
                             digests_[k] == digests_[k - p];
        if (goes_on) {
          ++run;
          continue;
        }
        Consider(k - p - run, p, run + p, &best);
        run = 0;
      }
    }
    return best;
  }

  void Consider(size_t first, size_t stretches, size_t length,
                std::optional<Repeat>* best) const {
    if (length / stretches < kFewestPieces) return;
    if (*best && length - length % stretches <= (*best)->covered()) return;
    const auto bytes = [&](const Repeat& repeat) {
      return rehearsal_.bytes(
          borders_[repeat.first + repeat.stretches - 1].value);
    };
    Repeat found{first, stretches, length / stretches};
    for (size_t by = 1; by < stretches; ++by) {
      const Repeat shifted{first + by, stretches, (length - by) / stretches};
      if (shifted.pieces >= kFewestPieces && bytes(shifted) < bytes(found)) {
        found = shifted;
      }
    }
    *best = found;
  }

  // The nodes of the piece that what is wanted is made by, views left out.
  std::vector<NodeId> Makers(NodeId begin, NodeId end,
                             const std::vector<ValueId>& wanted) const {
    std::set<NodeId> makers;
    std::vector<ValueId> stack = wanted;
    while (!stack.empty()) {
      const NodeId n = graph_.value(stack.back()).producer;
      stack.pop_back();
      if (n == kNoNode || n < begin || n >= end) continue;
      if (!makers.insert(n).second) continue;
      const std::vector<ValueId>& inputs = graph_.node(n).inputs;
      stack.insert(stack.end(), inputs.begin(), inputs.end());
    }
    std::erase_if(makers, [&](NodeId n) { return rehearsal_.is_view(n); });
    return {makers.begin(), makers.end()};
  }

  // The first node behind forward that reads the value; kNoNode without one.
  NodeId FirstLater(ValueId value) const {
    const std::span<const NodeId> later = uses_.later_readers(value);
    return later.empty() ? kNoNode : later.front();
  }

  std::optional<Chain> Make(const Repeat& repeat) const {
    Chain chain;
    for (size_t k = 0; k < repeat.pieces; ++k) {
      const size_t from = repeat.first + k * repeat.stretches;
      const Border& last = borders_[from + repeat.stretches - 1];
      const NodeId begin = Begin(from);
      const NodeId end = last.node + 1;
      Chain::Piece piece{.to_border = Makers(begin, end, {last.value})};
      std::vector<NodeId> stages;
      if (from > 0) stages.push_back(FirstLater(borders_[from - 1].value));
      std::vector<ValueId> inner;
      for (NodeId n = begin; n < end; ++n) {
        for (const ValueId result : graph_.node(n).results) {
          if (result == last.value || !rehearsal_.is_candidate(result) ||
              !rehearsal_.is_saved(result)) {
            continue;
          }
          inner.push_back(result);
          stages.push_back(FirstLater(result));
        }
      }
      std::erase(stages, kNoNode);
      piece.to_inner = Makers(begin, end, inner);
      // Nothing has to be there for a first piece that starts from leaves.
      if (!stages.empty()) piece.stage = *std::ranges::min_element(stages);
      const bool is_wanted = piece.stage != kNoNode;
      if (k > 0 && (!is_wanted || (chain.pieces.back().stage != kNoNode &&
                                   piece.stage >= chain.pieces.back().stage))) {
        return {};
      }
      chain.pieces.push_back(std::move(piece));
    }
    const size_t end = repeat.first + repeat.covered();
    chain.last_stage = FirstLater(borders_[end - 1].value);
    if (chain.last_stage != kNoNode &&
        chain.last_stage >= chain.pieces.back().stage) {
      chain.last_stage = kNoNode;
    }
    return chain;
  }

  const Graph& graph_;
  const Rehearsal& rehearsal_;
  const Uses& uses_;
  std::vector<Border> borders_;
  std::vector<uint64_t> digests_;  // of the stretches that end at them
};

}  // namespace

Script Chain::Again(int64_t places) const {
  Script script;
  const std::vector<RevolveStep> steps = RevolveStepsAgain(states(), places);
  auto step = steps.begin();
  const auto run = [&](NodeId stage, const std::vector<NodeId>& nodes) {
    for (const NodeId n : nodes) script.push_back({stage, n});
  };
  for (int64_t k = static_cast<int64_t>(pieces.size()) - 1; k >= 0; --k) {
    const Piece& piece = pieces[Index(k)];
    for (; step != steps.end() && step->read == k; ++step) {
      run(piece.stage, pieces[Index(step->made - 1)].to_border);
    }
    if (Index(k) + 1 < pieces.size()) run(piece.stage, piece.to_inner);
  }
  return script;
}

int64_t Chain::NodesAgain(int64_t places) const {
  const auto border = static_cast<int64_t>(pieces.front().to_border.size());
  const auto inner = static_cast<int64_t>(pieces.front().to_inner.size());
  return (RevolveSteps(states(), places) - (states() - 1)) * border +
         (static_cast<int64_t>(pieces.size()) - 1) * inner;
}

std::optional<Chain> FindChain(const Graph& graph, const Rehearsal& rehearsal) {
  return ChainFinder(graph, rehearsal).Find();
}

}  // namespace stowage::fit

#include "planner/fit/recompute/class_climb.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "planner/fit/recompute/chain.h"

namespace stowage::fit {
namespace {

constexpr size_t kStrides[] = {0, 2, 3, 4, 6};
// Below this share of the step's operations, moves that were worth little when they were
// tried last are not tried again; from it on, all moves are tried each time.
constexpr double kThoroughCost = 0.03;
// By how much a move that is not tried may have become worth more.
constexpr double kMaxGrowth = 4;
constexpr double kMinCostToFill = 0.01;

}  // namespace

ClassClimb::ClassClimb(const Graph& graph, Simulation& simulation,
                       const std::vector<std::vector<size_t>>& classes,
                       Frontier& frontier, Climb& climb)
    : graph_(graph),
      simulation_(simulation),
      classes_(classes),
      frontier_(frontier),
      climb_(climb) {
  FindLateValues();
}

void ClassClimb::FindLateValues() {
  const std::optional<Chain> chain = FindChain(graph_, simulation_);
  if (!chain) return;
  std::vector<NodeId> stays_from(Index(graph_.num_values()), 0);
  for (const Chain::Piece& piece : chain->pieces) {
    const NodeId last = piece.to_border.back();
    for (const auto* nodes : {&piece.to_border, &piece.to_inner}) {
      for (const NodeId node : *nodes) {
        if (node == last) continue;
        for (const ValueId id : graph_.node(node).results) {
          stays_from[Index(id)] = piece.stage;
        }
      }
    }
  }
  simulation_.SetStaysFrom(std::move(stays_from));
}

// How the value of a gap is recomputed for all readers but those before its piece's.
Fate ClassClimb::Once(size_t gap) const {
  const ValueId id = simulation_.gaps()[gap].value;
  return simulation_.stays_from(id) > 0 ? Fate::kRecomputedLate
                                        : Fate::kRecomputed;
}

// All moves of the classes that hold at least `min_bytes`, and that a later node reads.
void ClassClimb::FindMoves(Bytes min_bytes) {
  moves_.clear();
  for (size_t place = 0; place < classes_.size(); ++place) {
    const auto members = static_cast<Bytes>(classes_[place].size());
    const size_t first = classes_[place].front();
    const Gap& gap = simulation_.gaps()[first];
    if (gap.end == graph_.num_nodes() ||
        simulation_.bytes(gap.value) * members < min_bytes) {
      continue;
    }
    for (const Fate fate : {Once(first), Fate::kRecomputedEachTime}) {
      for (const size_t stride : kStrides) {
        if (stride > classes_[place].size()) break;
        moves_.push_back({moves_.size(), place, fate, stride,
                          std::numeric_limits<double>::infinity()});
      }
    }
  }
}

std::vector<Fate> ClassClimb::With(std::vector<Fate> fates,
                                   const Move& move) const {
  const std::vector<size_t>& members = classes_[move.place];
  for (size_t k = 0; k < members.size(); ++k) {
    const bool kept =
        move.stride > 0 && (members.size() - k) % move.stride == 0;
    fates[members[k]] = kept ? Fate::kKept : move.fate;
  }
  return fates;
}

bool ClassClimb::Reach(Bytes target, std::vector<Fate>* fates) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  if (!frontier_.Try(*fates)) return false;
  while (frontier_.latest().peak > target) {
    const Frontier::Outcome before = frontier_.latest();
    const double excess = frontier_.Excess(target);
    if (before.cost > kThoroughCost * simulation_.cost()) {
      for (Move& move : moves_) move.worth = kUnknown;
    }
    std::vector<Move> moves = moves_;
    std::ranges::stable_sort(moves, std::greater(), &Move::worth);
    std::optional<Move> best;
    bool tried_all = true;
    for (const Move& move : moves) {
      if (move.worth != kUnknown) tried_all = false;
      if (move.worth * kMaxGrowth <= (best ? best->worth : 0)) break;
      const std::vector<Fate> trial = With(*fates, move);
      double& worth = moves_[move.index].worth;
      worth = trial != *fates && frontier_.Try(trial)
                  ? frontier_.Worth(before, excess, target)
                  : 0;
      if (worth > (best ? best->worth : 0)) best = moves_[move.index];
    }
    if (best) {
      *fates = With(*fates, *best);
    } else if (tried_all || frontier_.is_spent()) {
      return false;
    } else {
      for (Move& move : moves_) move.worth = kUnknown;
    }
    if (!frontier_.Try(*fates)) return false;
  }
  return true;
}

void ClassClimb::Down(Bytes start, std::vector<Fate> given) {
  const Bytes rung = std::max<Bytes>(1, start / kTargets / 2);
  FindMoves(/*min_bytes=*/rung / 16);
  std::vector<Fate> fates = std::move(given);
  for (size_t gap = 0; gap < fates.size(); ++gap) {
    if (fates[gap] == Fate::kRecomputed) fates[gap] = Once(gap);
  }
  for (Bytes target = start - rung; target > 0; target -= rung) {
    if (!Reach(target, &fates)) return;
    if (frontier_.latest().cost < kMinCostToFill * simulation_.cost()) {
      continue;
    }
    std::vector<Fate> refilled = fates;
    climb_.KeepBest(target, &refilled);
  }
}

}  // namespace stowage::fit

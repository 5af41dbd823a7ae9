#include "planner/recompute_exact.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"

namespace stowage {
namespace {

constexpr size_t kMostValues = 13;
constexpr int64_t kMostStates = 1 << 19;
constexpr double kNever = std::numeric_limits<double>::infinity();

using Set = uint32_t;  // of candidates, by their position

size_t Index(int32_t id) { return static_cast<size_t>(id); }

// A node that is no view, as the path sees it.
struct Move {
  NodeId node = 0;
  Set needs = 0;
  Set gives = 0;
  Set over = 0;        // of needs: result 0 may be written over these
  Bytes results = 0;   // all that own bytes
  Bytes in_place = 0;  // less so much when written over one of them
  Bytes scratch = 0;
  bool takes_over = false;  // result 0 has the place of a gradient that dies
  double cost = 0;
  NodeId last_stage = 0;  // later, a param that it reads has been updated
};

class Path {
 public:
  Path(const Graph& graph, const Rehearsal& rehearsal, Bytes peak)
      : graph_(graph), rehearsal_(rehearsal), peak_(peak) {
    const auto candidates = rehearsal.candidates();
    position_.assign(Index(graph.num_values()), -1);
    for (size_t k = 0; k < candidates.size(); ++k) {
      position_[Index(candidates[k])] = static_cast<int>(k);
    }
    sets_ = size_t{1} << candidates.size();
    weight_.assign(sets_, 0);
    for (size_t s = 1; s < sets_; ++s) {
      size_t lowest = 0;
      while ((s >> lowest & 1) == 0) ++lowest;
      weight_[s] = weight_[s & (s - 1)] + rehearsal.bytes(candidates[lowest]);
    }
    Describe();
  }

  std::optional<Script> Find() {
    cost_.assign(sets_, kNever);
    cost_[0] = 0;
    came_.assign((moves_.size() + 1) * sets_, {0, kNowhere});
    for (size_t stage = 0; stage < moves_.size(); ++stage) {
      BetweenNodes(stage);
      RunStage(stage);
    }
    const auto best = std::min_element(cost_.begin(), cost_.end());
    if (*best == kNever) return std::nullopt;
    return Trace(static_cast<Set>(best - cost_.begin()));
  }

 private:
  static constexpr int32_t kNowhere = -1;
  static constexpr int32_t kLetGo = -2;
  static constexpr int32_t kRan = -3;
  struct Came {
    Set from;
    int32_t how;  // of the above, or the index of the move that ran again
  };

  int Position(ValueId id) const {
    return position_[Index(rehearsal_.root(id))];
  }
  bool IsPacked(ValueId id) const {  // and no candidate
    const ValueInfo& info = graph_.value(id);
    return rehearsal_.root(id) == id && position_[Index(id)] < 0 &&
           (!info.is_leaf() || info.role == Role::kSaved);
  }

  void Describe() {
    // Of what is no candidate: when it is read last, in moves.
    std::vector<size_t> last(Index(graph_.num_values()), 0);
    std::vector<NodeId> updated(Index(graph_.num_values()), graph_.num_nodes());
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      if (rehearsal_.is_view(n)) continue;
      Move move;
      move.node = n;
      move.cost = rehearsal_.node_cost(n);
      move.scratch = rehearsal_.workspace(n);
      const Node& node = graph_.node(n);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId root = rehearsal_.root(node.inputs[i]);
        last[Index(root)] = moves_.size();
        if (Position(root) >= 0) move.needs |= Set{1} << Position(root);
      }
      for (const ValueId result : node.results) {
        const ValueId root = rehearsal_.root(result);
        if (root != result) {
          updated[Index(root)] = std::min(updated[Index(root)], n);
          continue;
        }
        last[Index(result)] = moves_.size();
        move.results += rehearsal_.bytes(result);
        if (Position(result) >= 0) move.gives |= Set{1} << Position(result);
      }
      moves_.push_back(move);
    }
    for (const GraphOutput& output : graph_.outputs()) {
      last[Index(rehearsal_.root(output.value))] = moves_.size();
    }
    others_.assign(moves_.size(), 0);
    for (size_t m = 0; m < moves_.size(); ++m) {
      Move& move = moves_[m];
      const Node& node = graph_.node(move.node);
      move.last_stage = graph_.num_nodes();
      for (const ValueId input : node.inputs) {
        move.last_stage =
            std::min(move.last_stage, updated[Index(rehearsal_.root(input))]);
      }
      DescribeInPlace(last, m, &move);
      for (const ValueId result : node.results) {
        if (!IsPacked(result)) continue;
        for (size_t t = m + 1; t <= last[Index(result)] && t < moves_.size();
             ++t) {
          others_[t] += rehearsal_.bytes(result);
        }
      }
    }
    Bytes saved = 0;  // these count throughout, lest running again extends them
    for (const ValueId id : graph_.Leaves(Role::kSaved)) {
      saved += rehearsal_.bytes(id);
    }
    for (Bytes& bytes : others_) bytes += saved;
  }

  void DescribeInPlace(const std::vector<size_t>& last, size_t m, Move* move) {
    const Node& node = graph_.node(move->node);
    const ValueId result = node.results[0];
    if (rehearsal_.root(result) != result) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId root = rehearsal_.root(node.inputs[i]);
      if (!rehearsal_.may_take_over(move->node, root)) continue;
      move->in_place = rehearsal_.bytes(result);
      if (Position(root) >= 0) {
        move->over |= Set{1} << Position(root);
      } else if (IsPacked(root) && !graph_.value(root).is_leaf() &&
                 last[Index(root)] == m) {
        move->takes_over = true;
      }
    }
  }

  // What is live while `move` runs, beside `others` that have no part in it.
  bool Fits(Bytes others, Set there, const Move& move, bool in_place) const {
    return others + weight_[there] + move.results + move.scratch -
               (in_place ? move.in_place : 0) <=
           peak_;
  }

  template <typename Reach>
  void TryMove(Bytes others, Set there, const Move& move, bool takes_over,
               Reach reach) const {
    if (Fits(others, there, move, takes_over)) reach(there | move.gives);
    for (Set left = move.over; left != 0; left &= left - 1) {
      const Set taken = left & (~left + 1);
      if (Fits(others, there, move, true)) {
        reach((there & ~taken) | move.gives);
      }
    }
  }

  // Values may go and nodes may run again, before the node of the stage runs.
  void BetweenNodes(size_t stage) {
    using Entry = std::pair<double, Set>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (Set s = 0; s < sets_; ++s) {
      if (cost_[s] < kNever) queue.push({cost_[s], s});
    }
    while (!queue.empty()) {
      const double cost = queue.top().first;
      const Set s = queue.top().second;
      queue.pop();
      if (cost > cost_[s]) continue;
      const auto reach = [&](Set to, double price, int32_t how) {
        if (price >= cost_[to]) return;
        cost_[to] = price;
        came_[stage * sets_ + to] = {s, how};
        queue.push({price, to});
      };
      for (Set left = s; left != 0; left &= left - 1) {
        reach(s & ~(left & (~left + 1)), cost, kLetGo);
      }
      for (size_t m = 0; m < stage; ++m) {
        const Move& move = moves_[m];
        if ((move.gives & ~s) == 0 || (move.needs & ~s) != 0 ||
            move.last_stage < moves_[stage].node) {
          continue;
        }
        TryMove(others_[stage], s & ~move.gives, move, false, [&](Set to) {
          reach(to, cost + move.cost, static_cast<int32_t>(m));
        });
      }
    }
  }

  void RunStage(size_t stage) {
    const Move& move = moves_[stage];
    std::vector<double> next(sets_, kNever);
    for (Set s = 0; s < sets_; ++s) {
      if (cost_[s] == kNever || (move.needs & ~s) != 0) continue;
      TryMove(others_[stage], s, move, move.takes_over, [&](Set to) {
        if (cost_[s] >= next[to]) return;
        next[to] = cost_[s];
        came_[(stage + 1) * sets_ + to] = {s, kRan};
      });
    }
    cost_ = std::move(next);
  }

  Script Trace(Set set) const {
    Script script;
    size_t stage = moves_.size();
    while (stage > 0 || set != 0) {
      const Came& came = came_[stage * sets_ + set];
      STOWAGE_CHECK(came.how != kNowhere);
      if (came.how == kRan) {
        --stage;
      } else if (came.how != kLetGo) {
        script.push_back({moves_[stage].node, moves_[Index(came.how)].node});
      }
      set = came.from;
    }
    std::reverse(script.begin(), script.end());
    return script;
  }

  const Graph& graph_;
  const Rehearsal& rehearsal_;
  const Bytes peak_;
  size_t sets_ = 1;
  std::vector<int> position_;  // per value
  std::vector<Bytes> weight_;  // per set
  std::vector<Move> moves_;
  std::vector<Bytes> others_;  // per move: what else is there when it runs
  std::vector<double> cost_;   // per set
  std::vector<Came> came_;     // per stage and set
};

}  // namespace

bool IsSmallStep(const Graph& graph, const Rehearsal& rehearsal) {
  const size_t values = rehearsal.candidates().size();
  return values <= kMostValues &&
         (int64_t{graph.num_nodes()} << values) <= kMostStates;
}

std::optional<Script> CheapestScript(const Graph& graph,
                                     const Rehearsal& rehearsal, Bytes peak) {
  return Path(graph, rehearsal, peak).Find();
}

}  // namespace stowage

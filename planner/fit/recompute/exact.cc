#include "planner/fit/recompute/exact.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/uses.h"

namespace stowage::fit {
namespace {

constexpr size_t kMaxValues = 64;
// Ways to let go of values that are tried cost as much as a new set.
constexpr int64_t kTrialsPerSet = 16;
constexpr double kNever = std::numeric_limits<double>::infinity();

using Set = uint64_t;  // of values, by their position

int LowestIn(Set set) { return std::countr_zero(set); }

// Whether a value is there at times and at times not.
bool ComesAndGoes(const Graph& graph, const Simulation& simulation,
                  ValueId id) {
  return simulation.root(id) == id && !graph.value(id).is_leaf();
}

// A node that is no view, as the path sees it. A stage is a node's place among
// these.
struct Move {
  NodeId node = 0;
  Set needs = 0;
  Set gives = 0;
  Set over = 0;        // of needs: result 0 may be written over these
  Bytes results = 0;   // all that own bytes
  Bytes in_place = 0;  // less so much when written over one of them
  Bytes scratch = 0;
  Bytes others = 0;  // outputs and saved leaves that are there beside
  double cost = 0;
  size_t last_stage = 0;   // in which it may run again
  size_t last_useful = 0;  // later, nobody wants what it makes
};

class Path {
 public:
  Path(const Graph& graph, const Simulation& simulation, Bytes peak,
       bool gradients, int64_t* effort)
      : graph_(graph),
        simulation_(simulation),
        peak_(peak),
        gradients_(gradients),
        effort_(*effort) {
    position_.assign(Index(graph.num_values()), -1);
    for (ValueId id = 0; id < graph.num_values(); ++id) {
      if (!ComesAndGoes(graph, simulation, id)) continue;
      if (simulation.uses().is_output(id)) continue;
      position_[Index(id)] = static_cast<int>(sizes_.size());
      sizes_.push_back(simulation.bytes(id));
    }
    Describe();
    DescribeOthers();
    FindUses();
    // Sums of eight values at a time.
    for (size_t part = 0; part < sums_.size(); ++part) {
      for (size_t s = 1; s < 256; ++s) {
        const size_t v = part * 8 + static_cast<size_t>(LowestIn(s));
        sums_[part][s] =
            sums_[part][s & (s - 1)] + (v < sizes_.size() ? sizes_[v] : 0);
      }
    }
  }

  std::optional<Script> Cheapest() {
    if (moves_.empty()) return std::nullopt;  // nothing can be changed
    Reach(0, 0, 0, -1, -1);
    while (!ahead_.empty()) {
      const Entry entry = ahead_.top();
      ahead_.pop();
      const State state = states_[Index(entry.state)];
      if (state.is_done) continue;
      states_[Index(entry.state)].is_done = true;
      if (state.stage == moves_.size()) return Trace(entry.state);
      if (effort_ <= 0) return std::nullopt;
      if (!IsBeaten(state)) Leave(entry.state);
    }
    return std::nullopt;
  }

 private:
  struct State {
    size_t stage;  // moves before it have run
    Set there;
    double cost;
    double least;  // that is yet to come
    int32_t from;  // state
    int32_t ran;   // move, from there
    bool is_done = false;
  };
  struct Entry {
    double least;  // of all paths through the state
    size_t stage;
    int32_t state;
    // The cheapest on top; of these the furthest, of these the first.
    bool operator<(const Entry& other) const {
      if (least != other.least) return least > other.least;
      if (stage != other.stage) return stage < other.stage;
      return state > other.state;
    }
  };

  Set Bit(ValueId id) const {
    const int position = position_[Index(simulation_.root(id))];
    return position < 0 ? 0 : Set{1} << position;
  }

  void Describe() {
    maker_.resize(sizes_.size());
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      if (simulation_.is_view(n)) continue;
      const Node& node = graph_.node(n);
      Move move;
      move.node = n;
      move.cost = simulation_.node_cost(n);
      move.scratch = simulation_.workspace(n);
      for (const ValueId input : node.inputs) move.needs |= Bit(input);
      for (const ValueId result : node.results) {
        if (simulation_.root(result) != result) continue;
        move.results += simulation_.bytes(result);
        move.gives |= Bit(result);
        if (Bit(result) == 0) continue;  // an output
        maker_[Index(LowestIn(Bit(result)))] = moves_.size();
      }
      const ValueId first = node.results[0];
      for (const ValueId input : node.inputs) {
        const ValueId root = simulation_.root(input);
        if (simulation_.root(first) == first && Bit(root) != 0 &&
            simulation_.may_take_over(n, root)) {
          move.in_place = simulation_.bytes(first);
          move.over |= Bit(root);
        }
      }
      moves_.push_back(move);
    }
    for (Move& move : moves_) {
      const bool may_run =
          gradients_ || graph_.node(move.node).phase == Phase::kForward;
      const NodeId last =
          may_run ? simulation_.last_stage(move.node) : move.node;
      while (move.last_stage + 1 < moves_.size() &&
             moves_[move.last_stage + 1].node <= last) {
        ++move.last_stage;
      }
    }
  }

  void DescribeOthers() {
    Bytes others =
        0;  // saved leaves throughout, lest running again extends them
    for (const ValueId id : graph_.Leaves(Role::kSaved)) {
      others += simulation_.bytes(id);
    }
    for (Move& move : moves_) {
      move.others = others;
      for (const ValueId result : graph_.node(move.node).results) {
        if (simulation_.uses().is_output(result) &&
            simulation_.root(result) == result) {
          others += simulation_.bytes(result);
        }
      }
    }
  }

  // Who may still want a value: a node that has not run, or one that may run
  // again for somebody who does.
  void FindUses() {
    wanted_.assign(moves_.size() + 1, 0);
    std::vector<size_t> last(sizes_.size(), 0);
    for (size_t m = moves_.size(); m-- > 0;) {
      Move& move = moves_[m];
      move.last_useful = m;
      for (Set left = move.gives; left != 0; left &= left - 1) {
        move.last_useful =
            std::max(move.last_useful,
                     std::min(last[Index(LowestIn(left))], move.last_stage));
      }
      for (Set left = move.needs; left != 0; left &= left - 1) {
        size_t& mine = last[Index(LowestIn(left))];
        mine = std::max(mine, move.last_useful);
      }
    }
    for (size_t v = 0; v < sizes_.size(); ++v) {
      for (size_t stage = 0; stage <= last[v] && stage < moves_.size();
           ++stage) {
        wanted_[stage] |= Set{1} << v;
      }
    }
    needed_.assign(moves_.size() + 1, 0);
    Set made = 0;
    for (const Move& move : moves_) made |= move.gives;
    for (size_t m = moves_.size(); m-- > 0;) {
      made &= ~moves_[m].gives;
      needed_[m] = (needed_[m + 1] | moves_[m].needs) & made;
    }
  }

  Bytes Weight(Set set) const {
    Bytes sum = 0;
    for (size_t part = 0; set != 0; ++part, set >>= 8) {
      sum += sums_[part][set & 255];
    }
    return sum;
  }

  // What has to run again if bytes were free.
  double Least(size_t stage, Set there) const {
    double cost = 0;
    Set had = there;
    for (Set missing = needed_[stage] & ~had; missing != 0;) {
      const Move& move = moves_[maker_[Index(LowestIn(missing))]];
      if (move.last_stage < stage) return kNever;
      cost += move.cost;
      had |= move.gives;
      missing = (missing | move.needs) & ~had;
    }
    return cost;
  }

  void Reach(size_t stage, Set there, double cost, int32_t from, int32_t ran) {
    there &= wanted_[stage];
    int32_t& known = Known(stage, there);
    double least = kNever;
    if (known >= 0) {
      State& old = states_[Index(known)];
      if (old.cost <= cost) return;
      least = old.least;
      old.is_done = true;
    } else {
      least = Least(stage, there);
    }
    known = static_cast<int32_t>(states_.size());
    states_.push_back({stage, there, cost, least, from, ran});
    if (least == kNever) return;
    --effort_;
    ahead_.push({cost + least, stage, known});
  }

  // The latest state of so many moves and these values, to be read or written;
  // -1 where there is none. Linear probing in a table that is at most half full.
  int32_t& Known(size_t stage, Set there) {
    if (2 * states_.size() >= table_.size()) {
      table_.assign(std::max<size_t>(2 * table_.size(), 1024), -1);
      for (size_t k = 0; k < states_.size(); ++k) {
        Find(states_[k].stage, states_[k].there) = static_cast<int32_t>(k);
      }
    }
    return Find(stage, there);
  }
  int32_t& Find(size_t stage, Set there) {
    const uint64_t hash = (there ^ stage << 56) * 0x9e3779b97f4a7c15u;
    const size_t mask = table_.size() - 1;
    for (size_t at = (hash ^ hash >> 32) & mask;; at = (at + 1) & mask) {
      const int32_t k = table_[at];
      if (k < 0 || (states_[Index(k)].stage == stage &&
                    states_[Index(k)].there == there)) {
        return table_[at];
      }
    }
  }

  // Whether another state has a value more at no more cost.
  bool IsBeaten(const State& state) {
    for (Set left = wanted_[state.stage] & ~state.there; left != 0;
         left &= left - 1) {
      const int32_t k = Find(state.stage, state.there | (left & (~left + 1)));
      if (k >= 0 && states_[Index(k)].cost <= state.cost) return true;
    }
    return false;
  }

  void Leave(int32_t index) {
    const size_t stage = states_[Index(index)].stage;
    const Set there = states_[Index(index)].there;
    for (size_t m = 0; m <= stage; ++m) {
      const Move& move = moves_[m];
      if ((move.needs & ~there) != 0) continue;
      if (m < stage && ((move.gives & wanted_[stage] & ~there) == 0 ||
                        move.last_useful < stage)) {
        continue;
      }
      const Bytes excess = moves_[stage].others + Weight(there & ~move.gives) +
                           move.results + move.scratch - peak_;
      Run(index, m, 0, excess);
      if (excess <= 0) continue;
      for (Set left = move.over; left != 0; left &= left - 1) {
        Run(index, m, left & (~left + 1), excess - move.in_place);
      }
    }
  }

  // Lets go of sets of values that are just large enough, and runs the move.
  void Run(int32_t index, size_t m, Set over, Bytes excess) {
    const State state = states_[Index(index)];
    const Move& move = moves_[m];
    const bool first = m == state.stage;
    const double cost = first ? state.cost : state.cost + move.cost;
    const auto run = [&](Set let_go) {
      Reach(state.stage + first, (state.there & ~let_go & ~over) | move.gives,
            cost, index, static_cast<int32_t>(m));
    };
    if (excess <= 0) {
      run(0);
      return;
    }
    idle_.clear();
    for (Set left = state.there & ~move.needs & ~move.gives; left != 0;
         left &= left - 1) {
      idle_.push_back(LowestIn(left));
    }
    std::ranges::sort(idle_, [&](int a, int b) {
      return std::pair(-sizes_[Index(a)], a) < std::pair(-sizes_[Index(b)], b);
    });
    Bytes rest = 0;
    for (const int v : idle_) rest += sizes_[Index(v)];
    LetGo(0, 0, excess, rest, run);
  }

  // By falling size: so a set that has just become large enough can spare none.
  // Most ways may lead to sets that are known, and there are exponentially many.
  template <typename Do>
  void LetGo(size_t next, Set let_go, Bytes excess, Bytes rest, const Do& run) {
    if (++trials_ % kTrialsPerSet == 0) --effort_;
    if (effort_ <= 0) return;
    if (excess <= 0) {
      run(let_go);
      return;
    }
    if (rest < excess) return;
    const int v = idle_[next];
    rest -= sizes_[Index(v)];
    LetGo(next + 1, let_go | Set{1} << v, excess - sizes_[Index(v)], rest, run);
    LetGo(next + 1, let_go, excess, rest, run);
  }

  Script Trace(int32_t index) const {
    Script script;
    for (; states_[Index(index)].from >= 0;
         index = states_[Index(index)].from) {
      const State& state = states_[Index(index)];
      const size_t stage = states_[Index(state.from)].stage;
      if (Index(state.ran) == stage) continue;
      script.push_back({moves_[stage].node, moves_[Index(state.ran)].node});
    }
    std::reverse(script.begin(), script.end());
    return script;
  }

  const Graph& graph_;
  const Simulation& simulation_;
  const Bytes peak_;
  const bool gradients_;
  int64_t& effort_;
  int64_t trials_ = 0;
  std::vector<int> position_;  // per value of the graph
  std::vector<Bytes> sizes_;   // per position, and so below
  std::vector<size_t> maker_;
  std::array<std::array<Bytes, 256>, kMaxValues / 8> sums_ = {};
  std::vector<Move> moves_;
  std::vector<Set> wanted_;  // per stage: by who has not run, or may run again
  std::vector<Set> needed_;  // per stage: made before, read by who has not run
  std::vector<State> states_;
  std::vector<int32_t> table_;
  std::priority_queue<Entry> ahead_;
  std::vector<int> idle_;  // what may be let go, largest first
};

}  // namespace

bool IsSmallStep(const Graph& graph, const Simulation& simulation) {
  // The path knows nothing of what stays while an exchange is under way. And with the many
  // small values about one, the sets of a step of 20 nodes are more than can be gone
  // through.
  for (const Node& node : graph.nodes()) {
    if (IsExchange(node.op)) return false;
  }
  size_t values = 0;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    values += ComesAndGoes(graph, simulation, id);
  }
  return values <= kMaxValues;
}

std::optional<Script> CheapestScript(const Graph& graph,
                                     const Simulation& simulation, Bytes peak,
                                     bool gradients, int64_t* effort) {
  return Path(graph, simulation, peak, gradients, effort).Cheapest();
}

}  // namespace stowage::fit

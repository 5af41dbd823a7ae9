#include "planner/fit/order/search.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "planner/fit/min_cut.h"

namespace stowage::fit {

namespace {

constexpr size_t kMaxFailed = 1 << 20;  // some 60 MB

}  // namespace

OrderSearch::OrderSearch(const OrderProblem& problem) : state_(problem) {
  std::mt19937_64 random(1);  // the same in every process
  for (int32_t task = 0; task < problem.num_tasks(); ++task) {
    task_hashes_.push_back({random(), random()});
  }
}

void OrderSearch::Run(int32_t task) {
  const Hash& hash = task_hashes_[static_cast<size_t>(task)];
  hash_.low ^= hash.low;
  hash_.high ^= hash.high;
  state_.Run(task);
  order_.push_back(task);
}

void OrderSearch::TakeBackTo(size_t mark) {
  while (order_.size() > mark) {
    const int32_t task = order_.back();
    order_.pop_back();
    state_.TakeBack(task);
    const Hash& hash = task_hashes_[static_cast<size_t>(task)];
    hash_.low ^= hash.low;
    hash_.high ^= hash.high;
  }
}

void OrderSearch::RunObvious(Bytes limit) {
  for (size_t i = 0; i < state_.ready().size();) {
    const int32_t task = state_.ready()[i];
    ++steps_;
    if (state_.LiveAfter(task) > state_.live() ||
        state_.LiveDuring(task) > limit) {
      ++i;
      continue;
    }
    Run(task);
    i = 0;  // others may fit now
  }
}

std::vector<int32_t> OrderSearch::Candidates(Bytes limit,
                                             std::span<const int32_t> ranks,
                                             OrderTaste taste) {
  struct Candidate {
    Bytes live;
    int32_t rank;
    int32_t task;
  };
  std::vector<Candidate> candidates;
  for (const int32_t task : state_.ready()) {
    ++steps_;
    const Bytes during = state_.LiveDuring(task);
    if (during > limit) {
      next_ = std::min(next_, during);
      continue;
    }
    const Bytes after = taste == OrderTaste::kMin ? state_.LiveAfter(task) : 0;
    candidates.push_back({after, ranks[static_cast<size_t>(task)], task});
  }
  // The last is tried first.
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) {
              return std::tie(a.live, a.rank, a.task) >
                     std::tie(b.live, b.rank, b.task);
            });
  std::vector<int32_t> tasks;
  for (const Candidate& candidate : candidates) tasks.push_back(candidate.task);
  return tasks;
}

OrderSearch::Outcome OrderSearch::Try(Bytes limit,
                                      std::span<const int32_t> ranks,
                                      OrderTaste taste, int64_t effort) {
  if (limit != failed_limit_) {
    failed_.clear();
    failed_limit_ = limit;
    next_ = std::numeric_limits<Bytes>::max();
  }
  const int64_t last = steps_ + effort;
  TakeBackTo(0);
  if (state_.live() > limit) {
    next_ = state_.live();
    return Outcome::kInfeasible;
  }
  // The branches above the current set; each ran tasks since its mark.
  struct Branch {
    size_t mark;
    Hash hash;
    std::vector<int32_t> untried;
  };
  std::vector<Branch> branches;
  size_t mark = 0;
  for (;;) {
    RunObvious(limit);
    if (state_.done()) return Outcome::kFound;
    if (!failed_.contains(hash_)) {
      branches.push_back({mark, hash_, Candidates(limit, ranks, taste)});
    } else {
      TakeBackTo(mark);
    }
    while (!branches.empty() && branches.back().untried.empty()) {
      failed_.insert(branches.back().hash);
      TakeBackTo(branches.back().mark);
      branches.pop_back();
    }
    if (branches.empty()) return Outcome::kInfeasible;
    if (steps_ > last || failed_.size() > kMaxFailed) return Outcome::kStopped;
    mark = order_.size();
    const int32_t task = branches.back().untried.back();
    branches.back().untried.pop_back();
    Run(task);
  }
}

namespace {

class NodeMover {
 public:
  NodeMover(const OrderProblem& problem, std::vector<int32_t> order,
            Bytes bound)
      : problem_(problem),
        bound_(bound),
        before_(problem.tasks.size()),
        order_(std::move(order)),
        position_(order_.size()),
        marked_(order_.size(), false) {
    for (int32_t task = 0; task < problem.num_tasks(); ++task) {
      for (const int32_t other : problem.tasks[Index(task)].after) {
        before_[Index(other)].push_back(task);
      }
    }
    for (size_t i = 0; i < order_.size(); ++i) {
      position_[Index(order_[i])] = static_cast<int32_t>(i);
    }
    Measure();
    best_ = order_;
    best_peak_ = peak_;
  }

  std::vector<int32_t> Run(int64_t effort) {
    int64_t since = 0;  // moves since the scale was last set
    while (steps_ < effort && best_peak_ > bound_) {
      steps_ += 4;
      if (++since % 256 == 0) Measure();
      const int32_t highest = highest_;
      const uint64_t kind = random_() % 4;
      if (kind == 0) {
        const int32_t from = Below(Size());
        const int32_t to = Below(Size());
        if (from > to) BringForward(order_[Index(from)], to);
        if (from < to) PutOff(order_[Index(from)], to);
        continue;
      }
      // A content that is live at the peak and may not have to be.
      const int32_t content =
          Below(static_cast<int32_t>(problem_.contents.size()));
      const OrderContent& c = problem_.contents[Index(content)];
      if (c.kept && c.maker < 0) continue;
      const int32_t last = LastReader(content);
      const int32_t born = c.maker < 0 ? -1 : position_[Index(c.maker)];
      if (born >= highest || (!c.kept && last <= highest)) continue;
      if (kind < 3 && !c.kept) {
        // Moves its last reader before the peak.
        const int32_t to = born + 1 + Below(highest - born);
        BringForward(order_[Index(last)], to);
      } else if (born >= 0) {
        // Moves its maker after the peak.
        PutOff(c.maker, highest + Below(Size() - highest));
      }
    }
    return std::move(best_);
  }

 private:
  int32_t Size() const { return static_cast<int32_t>(order_.size()); }
  int32_t Below(int32_t count) {
    return static_cast<int32_t>(random_() % static_cast<uint64_t>(count));
  }

  // The position of the last reader of a content; -1 without readers.
  int32_t LastReader(int32_t content) const {
    int32_t last = -1;
    for (const int32_t r : problem_.contents[Index(content)].readers) {
      last = std::max(last, position_[Index(r)]);
    }
    return last;
  }

  // The live bytes while the task at `at` runs; updates `live` from before the task to after it.
  Bytes LiveDuring(int32_t at, Bytes* live) const {
    const OrderTask& t = problem_.tasks[Index(order_[Index(at)])];
    Bytes during = *live + t.scratch;
    for (const int32_t made : t.makes) {
      const OrderContent& content = problem_.contents[Index(made)];
      during += content.size;
      if (content.kept || !content.readers.empty()) *live += content.size;
    }
    Bytes replaced = 0;
    for (const int32_t read : t.reads) {
      const OrderContent& content = problem_.contents[Index(read)];
      if (content.kept || LastReader(read) != at) continue;
      *live -= content.size;
      if (std::find(t.may_replace.begin(), t.may_replace.end(), read) !=
          t.may_replace.end()) {
        replaced = content.size;
      }
    }
    return during - replaced;
  }

  // The penalty of `during` live bytes, an integer so that it is the same on every machine.
  int64_t Cost(Bytes during) const {
    if (during <= bound_) return 0;
    const int64_t excess = 1 + (during - bound_) / unit_;
    const int64_t capped = std::min<int64_t>(excess, 1 << 14);
    return capped * capped * capped;
  }

  // Measures the whole order anew and sets the scale of costs.
  void Measure() {
    live_.assign(order_.size() + 1, 0);
    for (const OrderContent& content : problem_.contents) {
      if (content.maker < 0 && (content.kept || !content.readers.empty())) {
        live_[0] += content.size;
      }
    }
    during_.assign(order_.size(), 0);
    for (int32_t at = 0; at < Size(); ++at) {
      Bytes live = live_[Index(at)];
      during_[Index(at)] = LiveDuring(at, &live);
      live_[Index(at) + 1] = live;
    }
    steps_ += Size();
    FindHighest();
    unit_ = std::max<Bytes>(1, (peak_ - bound_) / 256);
  }

  void FindHighest() {
    steps_ += Size() / 8;  // a plain scan
    const auto highest = std::max_element(during_.begin(), during_.end());
    highest_ = static_cast<int32_t>(highest - during_.begin());
    peak_ = *highest;
  }

  // Moves `task`, with its predecessors, forward to position `to`.
  void BringForward(int32_t task, int32_t to) {
    const int32_t from = position_[Index(task)];
    if (from <= to) return;
    // The tasks of the block are marked from the back.
    marked_[Index(task)] = true;
    block_.clear();
    rest_.clear();
    for (int32_t at = from; at >= to; --at) {
      const int32_t t = order_[Index(at)];
      if (!marked_[Index(t)]) {
        rest_.push_back(t);
        continue;
      }
      marked_[Index(t)] = false;
      block_.push_back(t);
      for (const int32_t other : problem_.tasks[Index(t)].after) {
        if (position_[Index(other)] >= to) marked_[Index(other)] = true;
      }
    }
    window_.assign(block_.rbegin(), block_.rend());
    window_.insert(window_.end(), rest_.rbegin(), rest_.rend());
    Take(to);
  }

  // Moves `task`, with its successors, back to position `to`.
  void PutOff(int32_t task, int32_t to) {
    const int32_t from = position_[Index(task)];
    if (from >= to) return;
    marked_[Index(task)] = true;
    block_.clear();
    window_.clear();
    for (int32_t at = from; at <= to; ++at) {
      const int32_t t = order_[Index(at)];
      if (!marked_[Index(t)]) {
        window_.push_back(t);
        continue;
      }
      marked_[Index(t)] = false;
      block_.push_back(t);
      for (const int32_t next : before_[Index(t)]) {
        if (position_[Index(next)] <= to) marked_[Index(next)] = true;
      }
    }
    window_.insert(window_.end(), block_.begin(), block_.end());
    Take(from);
  }

  // Puts window_ at position `begin`, unless that is worse.
  void Take(int32_t begin) {
    const auto size = static_cast<int32_t>(window_.size());
    const auto swap_in = [&] {
      for (int32_t i = 0; i < size; ++i) {
        std::swap(order_[Index(begin + i)], window_[Index(i)]);
        position_[Index(order_[Index(begin + i)])] = begin + i;
      }
    };
    int64_t gain = 0;
    for (int32_t i = 0; i < size; ++i) gain += Cost(during_[Index(begin + i)]);
    swap_in();
    steps_ += size;
    new_live_.clear();
    new_during_.clear();
    Bytes live = live_[Index(begin)];
    for (int32_t i = 0; i < size; ++i) {
      new_during_.push_back(LiveDuring(begin + i, &live));
      new_live_.push_back(live);
      gain -= Cost(new_during_.back());
      if (gain < 0) {
        swap_in();
        return;
      }
    }
    std::copy(new_during_.begin(), new_during_.end(), during_.begin() + begin);
    std::copy(new_live_.begin(), new_live_.end(), live_.begin() + begin + 1);
    FindHighest();
    if (peak_ < best_peak_) {
      best_peak_ = peak_;
      best_ = order_;
    }
  }

  const OrderProblem& problem_;
  const Bytes bound_;
  std::vector<std::vector<int32_t>> before_;  // tasks that wait for a task
  std::vector<int32_t> order_;
  std::vector<int32_t> position_;
  std::vector<Bytes> live_;    // before each position, and at the end
  std::vector<Bytes> during_;  // each position
  Bytes peak_ = 0;
  int32_t highest_ = 0;  // the first position of the peak
  Bytes unit_ = 1;
  std::vector<int32_t> best_;
  Bytes best_peak_ = 0;
  int64_t steps_ = 0;
  std::mt19937_64 random_{1};

  // Of the current move.
  std::vector<bool> marked_;
  std::vector<int32_t> block_;
  std::vector<int32_t> rest_;
  std::vector<int32_t> window_;
  std::vector<Bytes> new_live_;
  std::vector<Bytes> new_during_;
};

}  // namespace

std::vector<int32_t> ImproveByMoves(const OrderProblem& problem,
                                    std::vector<int32_t> order, Bytes bound,
                                    int64_t effort) {
  if (order.empty()) return order;
  return NodeMover(problem, std::move(order), bound).Run(effort);
}

namespace {

enum class Side : uint8_t { kFree, kBefore, kAfter };

class Cutter {
 public:
  Cutter(const OrderProblem& problem, int32_t task)
      : problem_(problem), task_(task), sides_(problem.tasks.size()) {
    MarkAfter();
    MarkBefore(task, &sides_);
    sides_[Index(task)] = Side::kAfter;
  }

  OrderCut Cut() const {
    const OrderTask& t = problem_.tasks[Index(task_)];
    Bytes own = t.scratch;
    for (const int32_t made : t.makes) {
      own += problem_.contents[Index(made)].size;
    }
    OrderCut best = CutWith(sides_);
    // Replacing a content saves its bytes, but requires that all its other readers have run.
    for (const int32_t content : t.may_replace) {
      const std::optional<std::vector<Side>> sides = WithReadersOf(content);
      if (!sides) continue;
      OrderCut cut = CutWith(*sides);
      cut.bytes -= problem_.contents[Index(content)].size;
      if (cut.bytes < best.bytes) best = std::move(cut);
    }
    best.bytes += own;
    return best;
  }

 private:
  void MarkAfter() {
    std::vector<std::vector<int32_t>> before(problem_.tasks.size());
    for (int32_t task = 0; task < problem_.num_tasks(); ++task) {
      for (const int32_t other : problem_.tasks[Index(task)].after) {
        before[Index(other)].push_back(task);
      }
    }
    std::vector<int32_t> stack = {task_};
    while (!stack.empty()) {
      const int32_t at = stack.back();
      stack.pop_back();
      for (const int32_t task : before[Index(at)]) {
        if (sides_[Index(task)] == Side::kAfter) continue;
        sides_[Index(task)] = Side::kAfter;
        stack.push_back(task);
      }
    }
  }

  // Marks the predecessors of `task`.
  void MarkBefore(int32_t task, std::vector<Side>* sides) const {
    std::vector<int32_t> stack = {task};
    while (!stack.empty()) {
      const int32_t at = stack.back();
      stack.pop_back();
      for (const int32_t other : problem_.tasks[Index(at)].after) {
        if ((*sides)[Index(other)] == Side::kBefore) continue;
        (*sides)[Index(other)] = Side::kBefore;
        stack.push_back(other);
      }
    }
  }

  // The sides if the task is the last reader of `content`; nothing if that is impossible.
  std::optional<std::vector<Side>> WithReadersOf(int32_t content) const {
    const OrderContent& c = problem_.contents[Index(content)];
    if (c.kept) return std::nullopt;
    std::vector<Side> sides = sides_;
    for (const int32_t reader : c.readers) {
      if (reader == task_) continue;
      if (sides[Index(reader)] == Side::kAfter) return std::nullopt;
      MarkBefore(reader, &sides);
      sides[Index(reader)] = Side::kBefore;
    }
    return sides;
  }

  // A content that may be live across the cut.
  struct Between {
    int maker;                 // a vertex
    std::vector<int> readers;  // vertices; empty if one is on the far side
    Bytes size;
  };

  OrderCut CutWith(const std::vector<Side>& sides) const {
    constexpr int kSource = 0;
    constexpr int kSink = 1;
    int count = 2;
    std::vector<int> vertices(sides.size(), kSource);
    for (size_t i = 0; i < sides.size(); ++i) {
      if (sides[i] == Side::kFree) vertices[i] = count++;
      if (sides[i] == Side::kAfter) vertices[i] = kSink;
    }
    Bytes always = 0;
    std::vector<Between> between;
    for (const OrderContent& content : problem_.contents) {
      Between b = {kSource, {}, content.size};
      if (content.maker >= 0) b.maker = vertices[Index(content.maker)];
      if (b.maker == kSink || content.size == 0) continue;
      bool outlives = content.kept;
      for (const int32_t reader : content.readers) {
        outlives = outlives || sides[Index(reader)] == Side::kAfter;
        if (sides[Index(reader)] == Side::kFree) {
          b.readers.push_back(vertices[Index(reader)]);
        }
      }
      if (outlives) b.readers.clear();
      if (outlives && b.maker == kSource) {
        always += content.size;
      } else if (outlives || !b.readers.empty()) {
        between.push_back(std::move(b));
      }
    }

    MinCut network(count + static_cast<int>(between.size()));
    for (size_t i = 0; i < sides.size(); ++i) {
      if (sides[i] != Side::kFree) continue;
      for (const int32_t other : problem_.tasks[i].after) {
        if (sides[Index(other)] != Side::kFree) continue;
        network.AddEdge(vertices[i], vertices[Index(other)], MinCut::kInfinite);
      }
    }
    for (const Between& b : between) {
      const int read = count++;
      network.AddEdge(b.maker, read, b.size);
      for (const int reader : b.readers) {
        network.AddEdge(read, reader, MinCut::kInfinite);
      }
      if (b.readers.empty()) {
        network.AddEdge(read, kSink, MinCut::kInfinite);
      }
    }
    OrderCut cut;
    cut.bytes = always + network.Solve(kSource, kSink);
    for (size_t i = 0; i < sides.size(); ++i) {
      cut.before.push_back(
          sides[i] == Side::kBefore ||
          (sides[i] == Side::kFree && network.is_source_side(vertices[i])));
    }
    return cut;
  }

  const OrderProblem& problem_;
  const int32_t task_;
  std::vector<Side> sides_;
};

}  // namespace

OrderCut CutAt(const OrderProblem& problem, int32_t task) {
  return Cutter(problem, task).Cut();
}

}  // namespace stowage::fit

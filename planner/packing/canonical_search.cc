#include "planner/packing/canonical_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/packing/part.h"

namespace stowage::packing {
namespace {

constexpr Bytes kMax = std::numeric_limits<Bytes>::max();

// Columns with more unplaced items than this get the simpler test only.
constexpr int32_t kMaxSorted = 128;

// Conflicts count for more the later they are: each bump by this much more.
constexpr double kBumpGrowth = 1.0005;
constexpr double kLargestBump = 1e100;

}  // namespace

CanonicalSearch::CanonicalSearch(std::vector<SearchItem> items, int32_t columns)
    : items_(std::move(items)), columns_(columns) {
  const int32_t count = static_cast<int32_t>(items_.size());
  by_begin_.resize(count);
  std::iota(by_begin_.begin(), by_begin_.end(), 0);
  std::stable_sort(by_begin_.begin(), by_begin_.end(),
                   [&](int32_t a, int32_t b) {
                     return items_[a].range.begin < items_[b].range.begin;
                   });

  unit_ = 0;
  uniform_ = true;
  for (const SearchItem& item : items_) {
    STOWAGE_CHECK(item.size > 0);
    STOWAGE_CHECK(item.range.begin < item.range.end);
    unit_ = std::gcd(unit_, item.alignment);
    uniform_ = uniform_ && !item.offset &&
               item.alignment == items_[0].alignment &&
               item.size % item.alignment == 0;
  }
  unit_ = std::max<Bytes>(unit_, 1);
  for (const SearchItem& item : items_) {
    padding_ = std::max(padding_, AlignUp(item.size, unit_) - item.size);
  }

  neighbours_.resize(count);
  fixed_neighbours_.resize(count);
  std::vector<int32_t> open;
  for (const int32_t i : by_begin_) {
    const int32_t begin = items_[i].range.begin;
    open.erase(
        std::remove_if(open.begin(), open.end(),
                       [&](int32_t j) { return items_[j].range.end <= begin; }),
        open.end());
    for (const int32_t j : open) {
      neighbours_[i].push_back(j);
      neighbours_[j].push_back(i);
    }
    open.push_back(i);
  }
  for (int32_t i = 0; i < count; ++i) {
    for (const int32_t j : neighbours_[i]) {
      if (items_[j].offset) fixed_neighbours_[i].push_back(j);
    }
    std::sort(fixed_neighbours_[i].begin(), fixed_neighbours_[i].end(),
              [&](int32_t a, int32_t b) {
                return std::tie(*items_[a].offset, a) <
                       std::tie(*items_[b].offset, b);
              });
  }

  twin_.assign(count, -1);
  std::vector<int32_t> alike(count);
  std::iota(alike.begin(), alike.end(), 0);
  const auto key = [&](int32_t i) {
    const SearchItem& item = items_[i];
    return std::make_tuple(item.range.begin, item.range.end, item.size,
                           item.alignment, item.offset.value_or(-1), i);
  };
  std::sort(alike.begin(), alike.end(),
            [&](int32_t a, int32_t b) { return key(a) < key(b); });
  for (int32_t k = 1; k < count; ++k) {
    const SearchItem& a = items_[alike[k - 1]];
    const SearchItem& b = items_[alike[k]];
    if (a.range.begin == b.range.begin && a.range.end == b.range.end &&
        a.size == b.size && a.alignment == b.alignment && !a.offset &&
        !b.offset) {
      twin_[alike[k]] = alike[k - 1];
    }
  }

  state_.resize(count);
  low_.resize(count);
  least_.resize(count);
  offset_.resize(count);
  conflicts_.assign(count, 0);
  column_items_.resize(columns_);
  positions_.resize(count);
  live_.resize(columns_);
  unplaced_.resize(columns_);
  witness_.resize(columns_);
  is_marked_.assign(columns_, 0);
  for (const int32_t i : by_begin_) {
    for (int32_t c = items_[i].range.begin; c < items_[i].range.end; ++c) {
      positions_[i].push_back(static_cast<int32_t>(column_items_[c].size()));
      column_items_[c].push_back(i);
    }
  }
}

CanonicalSearch::Outcome CanonicalSearch::Run(
    Bytes capacity, const std::vector<double>& priorities, int64_t effort,
    Deadline deadline) {
  STOWAGE_CHECK(priorities.size() == items_.size());
  priorities_ = &priorities;
  capacity_ = capacity;
  most_steps_ = steps_ + effort;
  deadline_ = deadline;
  stopped_ = false;
  Reset();
  for (size_t i = 0; i < items_.size(); ++i) {
    if (least_[i] > capacity_ - items_[i].size) {
      BlameItem(static_cast<int32_t>(i));
      return Outcome::kInfeasible;
    }
  }
  for (int32_t c = 0; c < columns_; ++c) {
    if (!ColumnFits(c)) {
      BlameColumn(c);
      return Outcome::kInfeasible;
    }
  }
  std::vector<int32_t> all = by_begin_;
  if (Solve(&all)) return Outcome::kFound;
  return stopped_ ? Outcome::kStopped : Outcome::kInfeasible;
}

void CanonicalSearch::Reset() {
  trail_.clear();
  for (int32_t c = 0; c < columns_; ++c) {
    live_[c] = static_cast<int32_t>(column_items_[c].size());
    witness_[c] = -1;
    unplaced_[c] = 0;
    for (const int32_t i : column_items_[c]) {
      unplaced_[c] += AlignUp(items_[i].size, unit_);
    }
  }
  for (size_t i = 0; i < items_.size(); ++i) {
    state_[i] = State::kFree;
    low_[i] = items_[i].offset ? *items_[i].offset
                               : PastFixed(static_cast<int32_t>(i), 0);
    least_[i] = low_[i];
  }
}

// Solves the unplaced items of `group`, which are in the order of by_begin_.
bool CanonicalSearch::Solve(std::vector<int32_t>* group) {
  if (!Splits(*group)) return SolveConnected(group);
  std::vector<std::vector<int32_t>> parts;
  int32_t reach = -1;
  for (const int32_t i : *group) {
    if (state_[i] == State::kPlaced) continue;
    if (items_[i].range.begin >= reach) parts.emplace_back();
    parts.back().push_back(i);
    reach = std::max(reach, items_[i].range.end);
  }
  std::stable_sort(
      parts.begin(), parts.end(),
      [](const auto& a, const auto& b) { return a.size() < b.size(); });
  for (std::vector<int32_t>& part : parts) {
    if (parts.size() > 1) urgent_.clear();  // they may be of another part
    if (!SolveConnected(&part)) return false;
  }
  return true;
}

// Whether the unplaced items of the group are none or fall apart, or have
// become so few that a shorter list is worth its making.
bool CanonicalSearch::Splits(const std::vector<int32_t>& group) const {
  size_t unplaced = 0;
  int32_t reach = -1;
  bool apart = false;
  for (const int32_t i : group) {
    if (state_[i] == State::kPlaced) continue;
    apart = apart || (unplaced > 0 && items_[i].range.begin >= reach);
    reach = std::max(reach, items_[i].range.end);
    ++unplaced;
  }
  return apart || 2 * unplaced <= group.size();
}

// Either the lowest item stands where it would, or it is lifted; and so on with
// the next lowest. False, with all undone, when neither can be; the state is
// left as it is when the search is stopped.
bool CanonicalSearch::SolveConnected(std::vector<int32_t>* group) {
  const size_t entry = trail_.size();
  while (true) {
    int32_t item = Urgent();
    if (item < 0) item = Lowest(*group);
    if (item < 0) break;
    const bool forced = IsForced(item, *group);
    if (!LeavesGap(item)) {
      if (OutOfEffort()) return false;
      const size_t mark = trail_.size();
      if (Place(item, *group) && Solve(group)) return true;
      if (stopped_) return false;
      UndoTo(mark);
    }
    if (forced) break;
    Lift(item);
    if (!Propagate(*group)) break;
  }
  UndoTo(entry);
  return false;
}

// The free item that would stand lowest, -1 when there is none. Of equal items
// the first is placed first.
int32_t CanonicalSearch::Lowest(const std::vector<int32_t>& group) const {
  int32_t best = -1;
  for (const int32_t i : group) {
    if (state_[i] != State::kFree) continue;
    if (best >= 0 && low_[i] > low_[best]) continue;
    if (best >= 0 && low_[i] == low_[best] &&
        (*priorities_)[i] <= (*priorities_)[best]) {
      continue;
    }
    if (twin_[i] >= 0 && state_[twin_[i]] != State::kPlaced) continue;
    best = i;
  }
  return best;
}

// An item that must stand where it would, since in some column nothing else can
// be next without wasting too much; -1 when none is known. Placing it early
// shows sooner what else is impossible.
int32_t CanonicalSearch::Urgent() {
  int32_t best = -1;
  for (const int32_t i : urgent_) {
    if (state_[i] != State::kFree || items_[i].offset) continue;
    if (best >= 0 && low_[i] >= low_[best]) continue;
    if (twin_[i] >= 0 && state_[twin_[i]] != State::kPlaced) continue;
    if (!LeavesGap(i)) best = i;
  }
  return best;
}

// Whether something unplaced would still fit under the item.
bool CanonicalSearch::LeavesGap(int32_t item) {
  steps_ += static_cast<int64_t>(neighbours_[item].size());
  for (const int32_t j : neighbours_[item]) {
    if (state_[j] != State::kPlaced && low_[j] + items_[j].size <= low_[item]) {
      return true;
    }
  }
  return false;
}

// A fixed item stands where it stands. And an item that spans the whole group
// may as well lie on its floor, when that is flat: what was under it changes
// places with it.
bool CanonicalSearch::IsForced(int32_t item,
                               const std::vector<int32_t>& group) const {
  if (items_[item].offset) return true;
  if (!uniform_) return false;
  const ColumnRange range = items_[item].range;
  for (const int32_t i : group) {
    if (state_[i] == State::kPlaced) continue;
    if (low_[i] != low_[item] || items_[i].range.begin < range.begin ||
        items_[i].range.end > range.end) {
      return false;
    }
  }
  return true;
}

bool CanonicalSearch::Place(int32_t item, const std::vector<int32_t>& group) {
  const SearchItem& placed = items_[item];
  const Bytes end = low_[item] + placed.size;
  Save(item);
  state_[item] = State::kPlaced;
  offset_[item] = low_[item];
  const Bytes rounded = AlignUp(placed.size, unit_);
  for (int32_t c = placed.range.begin; c < placed.range.end; ++c) {
    unplaced_[c] -= rounded;
    --live_[c];
    std::vector<int32_t>& live = column_items_[c];
    int32_t& position = positions_[item][c - placed.range.begin];
    const int32_t other = live[live_[c]];
    std::swap(live[position], live[live_[c]]);
    std::swap(position, positions_[other][c - items_[other].range.begin]);
  }
  steps_ += placed.range.end - placed.range.begin;
  steps_ += static_cast<int64_t>(neighbours_[item].size() + group.size() / 4);
  MarkColumns(item);
  for (const int32_t j : neighbours_[item]) {
    if (state_[j] == State::kPlaced || low_[j] >= end) continue;
    if (items_[j].offset) {
      UnmarkColumns();
      return BlameItem(j);
    }
    Save(j);
    low_[j] = PastFixed(j, AlignUp(end, items_[j].alignment));
    state_[j] = State::kFree;
    if (least_[j] < low_[j]) {
      least_[j] = low_[j];
      MarkColumns(j);
      if (least_[j] > capacity_ - items_[j].size) {
        UnmarkColumns();
        return BlameItem(j);
      }
    }
  }
  return Propagate(group);
}

void CanonicalSearch::Lift(int32_t item) {
  Save(item);
  state_[item] = State::kLifted;
}

// Draws conclusions from what has changed; false when one is a contradiction.
bool CanonicalSearch::Propagate(const std::vector<int32_t>& group) {
  if (!RaiseLifted(group)) {
    UnmarkColumns();
    return false;
  }
  urgent_.clear();
  for (const int32_t c : marked_) {
    if (ColumnFits(c)) continue;
    UnmarkColumns();
    return BlameColumn(c);
  }
  UnmarkColumns();
  return true;
}

bool CanonicalSearch::RaiseLifted(const std::vector<int32_t>& group) {
  constexpr int kPasses = 3;  // raising one may raise another
  bool changed = true;
  for (int pass = 0; pass < kPasses && changed; ++pass) {
    changed = false;
    for (const int32_t i : group) {
      if (state_[i] != State::kLifted) continue;
      const Bytes top = low_[i] + items_[i].size;
      Bytes lowest_end = kMax;
      bool blocked = false;  // can anything keep it from where it would stand?
      for (const int32_t j : neighbours_[i]) {
        if (state_[j] == State::kPlaced) continue;
        lowest_end = std::min(lowest_end, least_[j] + items_[j].size);
        blocked = blocked || least_[j] < top;
      }
      steps_ += static_cast<int64_t>(neighbours_[i].size());
      if (!blocked) return BlameItem(i);
      if (lowest_end <= least_[i]) continue;
      Save(i);
      least_[i] = AlignUp(lowest_end, items_[i].alignment);
      MarkColumns(i);
      changed = true;
      if (least_[i] > capacity_ - items_[i].size) return BlameItem(i);
    }
  }
  return true;
}

// Whether the unplaced items of a column, each not below its least offset, fit
// below the capacity: stacking them in order of these offsets is best. Sizes
// count in whole units, save the padding of the topmost.
bool CanonicalSearch::ColumnFits(int32_t column) {
  const int32_t live = live_[column];
  if (live == 0) return true;
  const Bytes slack = capacity_ + padding_ - unplaced_[column];
  const std::vector<int32_t>& items = column_items_[column];
  if (live > kMaxSorted) {
    const int32_t witness = witness_[column];
    if (witness >= 0 && state_[witness] != State::kPlaced &&
        least_[witness] <= slack) {
      return true;
    }
    for (int32_t k = 0; k < live; ++k) {
      ++steps_;
      if (least_[items[k]] > slack) continue;
      witness_[column] = items[k];
      return true;
    }
    return false;
  }

  steps_ += live;
  Bytes lowest = kMax;
  Bytes highest = 0;
  for (int32_t k = 0; k < live; ++k) {
    const Bytes least = least_[items[k]];
    lowest = std::min(lowest, least);
    highest = std::max(highest, least);
  }
  if (lowest > slack) return false;
  if (highest <= slack) return true;
  int32_t able = 0;
  int32_t only = -1;
  for (int32_t k = 0; k < live; ++k) {
    if (least_[items[k]] > slack) continue;
    only = items[k];
    ++able;
  }
  if (able == 1 && state_[only] == State::kFree) urgent_.push_back(only);
  releases_.clear();
  for (int32_t k = 0; k < live; ++k) {
    releases_.push_back(
        {least_[items[k]], AlignUp(items_[items[k]].size, unit_)});
  }
  std::sort(releases_.begin(), releases_.end(),
            [](const Release& a, const Release& b) { return a.from < b.from; });
  steps_ += 2 * live;
  Bytes top = 0;
  for (const Release& release : releases_) {
    top = std::max(top, release.from) + release.size;
  }
  return top <= capacity_ + padding_;
}

// The lowest offset from `low`, aligned, that is clear of fixed items not yet
// placed.
Bytes CanonicalSearch::PastFixed(int32_t item, Bytes low) const {
  for (const int32_t j : fixed_neighbours_[item]) {
    const SearchItem& fixed = items_[j];
    if (low + items_[item].size <= *fixed.offset) break;
    low = std::max(low,
                   AlignUp(*fixed.offset + fixed.size, items_[item].alignment));
  }
  return low;
}

void CanonicalSearch::MarkColumns(int32_t item) {
  for (int32_t c = items_[item].range.begin; c < items_[item].range.end; ++c) {
    if (is_marked_[c]) continue;
    is_marked_[c] = 1;
    marked_.push_back(c);
  }
}

void CanonicalSearch::UnmarkColumns() {
  for (const int32_t c : marked_) is_marked_[c] = 0;
  marked_.clear();
}

bool CanonicalSearch::BlameItem(int32_t item) {
  Bump(item);
  bump_ *= kBumpGrowth;
  return false;
}

bool CanonicalSearch::BlameColumn(int32_t column) {
  for (int32_t k = 0; k < live_[column]; ++k) Bump(column_items_[column][k]);
  bump_ *= kBumpGrowth;
  return false;
}

void CanonicalSearch::Bump(int32_t item) {
  conflicts_[item] += bump_;
  if (conflicts_[item] < kLargestBump) return;
  for (double& conflicts : conflicts_) conflicts /= kLargestBump;
  bump_ /= kLargestBump;
}

void CanonicalSearch::Save(int32_t item) {
  trail_.push_back({item, state_[item], low_[item], least_[item]});
}

void CanonicalSearch::UndoTo(size_t mark) {
  for (; trail_.size() > mark; trail_.pop_back()) {
    const Change& change = trail_.back();
    const int32_t i = change.item;
    if (state_[i] == State::kPlaced) {
      const Bytes rounded = AlignUp(items_[i].size, unit_);
      for (int32_t c = items_[i].range.begin; c < items_[i].range.end; ++c) {
        unplaced_[c] += rounded;
        ++live_[c];
      }
    }
    state_[i] = change.state;
    low_[i] = change.low;
    least_[i] = change.least;
  }
}

bool CanonicalSearch::OutOfEffort() {
  constexpr int64_t kNodesBetweenLooks = 64;
  if (steps_ > most_steps_) stopped_ = true;
  if (++nodes_ % kNodesBetweenLooks == 0 && IsPast(deadline_)) stopped_ = true;
  return stopped_;
}

namespace {

// The portfolio: every run multiplies lifetime, or one in three lifetime x size,
// by the share of the conflicts that a buffer had a part in.
constexpr int64_t kPortfolio = 3;
constexpr int64_t kByArea = 0;

// The shortest run: this many steps, or this many times what it takes to place
// every buffer without ever turning back, roughly.
constexpr int64_t kShortRun = 500'000;
constexpr int64_t kPasses = 32;

// From the second round of the portfolio on, each priority is lowered by up to
// this share, at random.
constexpr double kNoise = 0.2;

// The share of the conflicts of those that had none, so that their order counts.
constexpr double kMinShare = 1e-9;

std::vector<size_t> Occupying(const Problem& problem) {
  std::vector<size_t> buffers;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].size > 0) buffers.push_back(i);
  }
  return buffers;
}

CanonicalSearch MakeSearch(const Problem& problem,
                           const std::vector<size_t>& buffers) {
  const Columns columns = ComputeColumns(problem);
  std::vector<SearchItem> items;
  items.reserve(buffers.size());
  for (const size_t i : buffers) {
    const Buffer& b = problem.buffers[i];
    items.push_back({columns.ranges[i], b.size, b.alignment, b.offset});
  }
  return CanonicalSearch(std::move(items), columns.count);
}

// 1 1 2 1 1 2 4 ...; `k` counts from 0.
int64_t Luby(int64_t k) {
  ++k;
  while (true) {
    int64_t power = 1;
    while (2 * power - 1 < k) power *= 2;
    if (2 * power - 1 == k) return power;
    k -= power - 1;
  }
}

double Lifetime(const Buffer& b) {
  return static_cast<double>(b.upper) - static_cast<double>(b.lower);
}

}  // namespace

RestartingSearch::RestartingSearch(const Problem& problem)
    : problem_(problem),
      buffers_(Occupying(problem)),
      search_(MakeSearch(problem, buffers_)),
      random_(1) {
  priorities_.resize(buffers_.size());
  short_run_ = std::max(kShortRun, kPasses * CountConflicts(problem));
}

CanonicalSearch::Outcome RestartingSearch::Try(Bytes capacity, int64_t effort,
                                               Deadline deadline) {
  using Outcome = CanonicalSearch::Outcome;
  const int64_t most_steps = search_.steps() + effort;
  while (true) {
    const int64_t left = most_steps - search_.steps();
    if (left <= 0) return Outcome::kStopped;
    if (IsPast(deadline)) return Outcome::kStopped;
    Prioritize(runs_);
    const int64_t limit = std::min(left, short_run_ * Luby(runs_));
    ++runs_;
    const Outcome outcome = search_.Run(capacity, priorities_, limit, deadline);
    if (outcome == Outcome::kFound) TakeSolution();
    if (outcome != Outcome::kStopped) return outcome;
  }
}

void RestartingSearch::Prioritize(int64_t run) {
  const std::vector<double>& conflicts = search_.conflicts();
  double most = 0;
  for (const double c : conflicts) most = std::max(most, c);
  for (size_t k = 0; k < buffers_.size(); ++k) {
    const Buffer& b = problem_.buffers[buffers_[k]];
    const double share = most > 0 ? conflicts[k] / most + kMinShare : 1;
    double priority = share * Lifetime(b);
    if (run % kPortfolio == kByArea) priority *= static_cast<double>(b.size);
    if (run >= kPortfolio) {
      const double noise = static_cast<double>(random_() % 1024) / 1024;
      priority *= 1 - kNoise * noise;
    }
    priorities_[k] = priority;
  }
}

void RestartingSearch::TakeSolution() {
  solution_.offsets.assign(problem_.buffers.size(), 0);
  solution_.height = 0;
  for (size_t k = 0; k < buffers_.size(); ++k) {
    solution_.offsets[buffers_[k]] = search_.offsets()[k];
  }
  for (size_t i = 0; i < problem_.buffers.size(); ++i) {
    const Buffer& b = problem_.buffers[i];
    if (b.offset) solution_.offsets[i] = *b.offset;
    solution_.height =
        std::max(solution_.height, solution_.offsets[i] + b.size);
  }
}

int64_t CountConflicts(const Problem& problem) {
  struct Event {
    Time time;
    bool birth;
  };
  std::vector<Event> events;
  for (const Buffer& b : problem.buffers) {
    if (b.size == 0) continue;
    events.push_back({b.lower, true});
    events.push_back({b.upper, false});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.birth < b.birth;
  });
  int64_t pairs = 0;
  int64_t live = 0;
  for (const Event& event : events) {
    if (event.birth) pairs += live++;
    if (!event.birth) --live;
  }
  return pairs;
}

}  // namespace stowage::packing

#include "planner/packing/greedy.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "planner/packing/free_space.h"
#include "planner/packing/part.h"

namespace stowage::packing {
namespace {

// So many buffers are stacked and swept first, which is faster than finding
// gaps in the hold.
constexpr size_t kMany = 4096;

// What is packed anew around what ended above the target: that many columns on
// both sides, one after the other, while it is no more than a share of all, with
// a share of the work.
constexpr int32_t kMargins[] = {8, 64, 512};
constexpr int32_t kWindowShare = 4;
constexpr int64_t kWindowWorkShare = 64;

// How often an item may be part of such columns, on average.
constexpr size_t kMaxVisits = 8;

// How much effort (Hold::effort) the first order may take, a multiple of the work
// or so much for each item, whichever is more; and all orders together. About so
// much it takes for each item and level of the hold's tree, as a rule: where that
// is too much already, it is not begun when there is another packing.
constexpr int64_t kFirstEffort = 2;
constexpr int64_t kFirstEffortPerItem = 128;
constexpr int64_t kMaxEffort = 6;
constexpr int64_t kUsualEffort = 8;

// Between looks at the clock, so many items are placed.
constexpr size_t kItemsBetweenLooks = 64;

// How often each order is mended at most for kGreedyWork; for more, more often.
constexpr int64_t kRounds = 32;

enum class Order { kPressure, kLifetime, kPeak, kSize, kArea, kBirth, kDeath };
constexpr Order kOrders[] = {Order::kPressure, Order::kLifetime, Order::kPeak,
                             Order::kSize,     Order::kArea,     Order::kBirth,
                             Order::kDeath};

const char* OrderName(Order order) {
  switch (order) {
    case Order::kPressure:
      return "pressure";
    case Order::kLifetime:
      return "lifetime";
    case Order::kPeak:
      return "peak";
    case Order::kSize:
      return "size";
    case Order::kArea:
      return "area";
    case Order::kBirth:
      return "birth";
    case Order::kDeath:
      return "death";
  }
  STOWAGE_CHECK(false);
}

// The bytes alive in each column, and the most in any range of columns.
class Pressure {
 public:
  // Sizes are rounded up to whole units.
  Pressure(const Part& part, Bytes unit) {
    while (leaves_ < static_cast<size_t>(part.columns)) leaves_ *= 2;
    tree_.resize(2 * leaves_);
    std::vector<Bytes> change(static_cast<size_t>(part.columns) + 1);
    change[0] = part.floor;
    for (const Item& item : part.items) {
      const Bytes size = AlignUp(item.size, unit);
      change[static_cast<size_t>(item.range.begin)] += size;
      change[static_cast<size_t>(item.range.end)] -= size;
    }
    std::partial_sum(change.begin(), change.end() - 1, &tree_[leaves_]);
    peak_ = static_cast<int32_t>(
        std::max_element(tree_.begin() + static_cast<ptrdiff_t>(leaves_),
                         tree_.end()) -
        (tree_.begin() + static_cast<ptrdiff_t>(leaves_)));
    for (size_t k = leaves_ - 1; k > 0; --k) {
      tree_[k] = std::max(tree_[2 * k], tree_[2 * k + 1]);
    }
  }

  int32_t peak() const { return peak_; }  // the first of the fullest columns
  Bytes most() const { return tree_[1]; }

  Bytes Most(ColumnRange range) const {
    Bytes most = 0;
    size_t left = static_cast<size_t>(range.begin) + leaves_;
    size_t right = static_cast<size_t>(range.end) + leaves_;
    for (; left < right; left /= 2, right /= 2) {
      if (left & 1) most = std::max(most, tree_[left++]);
      if (right & 1) most = std::max(most, tree_[--right]);
    }
    return most;
  }

 private:
  size_t leaves_ = 1;
  std::vector<Bytes> tree_;
  int32_t peak_ = 0;
};

// Packs one part as a whole.
class Greedy {
 public:
  Greedy(const Part& part, Bytes target, int64_t work, Deadline deadline)
      : part_(part),
        items_(part.items),
        work_(work),
        deadline_(deadline),
        offsets_(part.items.size()),
        height_of_fixed_(part.floor) {
    for (size_t k = 0; k < items_.size(); ++k) {
      const Item& item = items_[k];
      if (item.offset != Item::kFree) {
        offsets_[k] = item.offset;
        height_of_fixed_ = std::max(height_of_fixed_, item.offset + item.size);
        fixed_.push_back(static_cast<uint32_t>(k));
      } else if (IsLasting(part, item)) {
        lasting_.push_back(static_cast<uint32_t>(k));
      } else {
        passing_.push_back(static_cast<uint32_t>(k));
      }
    }
    std::stable_sort(lasting_.begin(), lasting_.end(),
                     [&](uint32_t i, uint32_t j) {
                       return WastesLess(items_[i], items_[j]);
                     });
    // From below, neighbours merge at once in the hold.
    std::stable_sort(fixed_.begin(), fixed_.end(), [&](uint32_t i, uint32_t j) {
      return items_[i].offset < items_[j].offset;
    });
    // When all alignments have a common factor, every buffer takes whole units
    // of it, save the last unit of the topmost. This gives the sizes as the
    // packer must pay them, and a bound above which stopping early is no loss.
    Bytes unit = 0;
    for (const Item& item : items_) unit = std::gcd(unit, item.alignment);
    Bytes padding = 0;
    for (const Item& item : items_) {
      padding = std::max(padding, AlignUp(item.size, unit) - item.size);
    }
    pressure_.emplace(part, unit);
    target_ = std::max(target, pressure_->most() - padding);
  }

  PartPacking Run() {
    if (items_.size() >= kMany) PackFast();
    if (!Ends()) {
      TryOrders(std::max(kFirstEffort * work_, kFirstEffortPerItem * Count()));
    }
    if (best_.offsets.empty()) PackFast();  // not even one order was finished
    return std::move(best_);
  }

  // What may be nothing, after so much effort.
  std::optional<PartPacking> RunOrders(int64_t first_effort) {
    TryOrders(first_effort);
    if (best_.offsets.empty()) return std::nullopt;
    return std::move(best_);
  }

  // What has been done in the hold; see Hold::effort.
  int64_t effort() const { return hold_ ? hold_->effort() : 0; }

 private:
  int64_t Count() const { return static_cast<int64_t>(items_.size()); }

  // Whether there is a packing, and nothing better is to be looked for.
  bool Ends() const {
    if (best_.offsets.empty()) return false;
    return best_.height <= target_ || IsPast(deadline_);
  }

  // The packings that take O(n log n), whatever the shape.
  void PackFast() {
    Stack();
    if (height_ > target_) MendWindows();
    Keep("stack");
    for (const Order order : {Order::kBirth, Order::kDeath}) {
      if (Ends()) return;
      Sweep(order);
      Keep(StrCat(OrderName(order), ", best fit"));
    }
  }

  void TryOrders(int64_t first_effort) {
    const int64_t levels = std::bit_width(static_cast<uint32_t>(part_.columns));
    if (!best_.offsets.empty() &&
        kUsualEffort * levels * Count() > first_effort) {
      return;
    }
    hold_.emplace(part_.columns);
    std::vector<std::vector<uint32_t>> sequences(std::size(kOrders));
    const int64_t rounds = kRounds * std::max<int64_t>(1, work_ / kGreedyWork);
    effort_limit_ = first_effort;
    for (int64_t round = 0; round < rounds; ++round) {
      for (size_t k = 0; k < std::size(kOrders); ++k) {
        if (round == 0) sequences[k] = Sequence(kOrders[k]);
        if (!Fill(sequences[k])) return;
        Keep(StrCat(OrderName(kOrders[k]), round > 0 ? ", mended" : ""));
        if (height_ <= target_) return;
        if (round == 0 && k == 0) {
          work_limit_ = hold_->work() + work_;
          effort_limit_ = hold_->effort() + kMaxEffort * work_;
        }
        if (IsPast(deadline_)) return;
        if (!Mend(&sequences[k])) return;
      }
    }
  }

  // The passing items in the given order.
  std::vector<uint32_t> Sequence(Order order) const {
    struct Entry {
      double first;  // larger goes earlier
      double second;
      uint32_t item;
    };
    std::vector<Entry> entries;
    entries.reserve(passing_.size());
    for (const uint32_t k : passing_) {
      const Item& item = items_[k];
      const double size = static_cast<double>(item.size);
      const double lifetime =
          static_cast<double>(item.upper) - static_cast<double>(item.lower);
      switch (order) {
        case Order::kPressure:
          entries.push_back(
              {static_cast<double>(pressure_->Most(item.range)), size, k});
          break;
        case Order::kPeak: {
          const int32_t peak = pressure_->peak();
          const int32_t distance = std::max(
              {0, item.range.begin - peak, peak - (item.range.end - 1)});
          entries.push_back({static_cast<double>(-distance), size, k});
          break;
        }
        case Order::kSize:
          entries.push_back({size, lifetime, k});
          break;
        case Order::kArea:
          entries.push_back({size * lifetime, size, k});
          break;
        case Order::kLifetime:
          entries.push_back({lifetime, size, k});
          break;
        case Order::kBirth:
          entries.push_back({-static_cast<double>(item.lower),
                             static_cast<double>(item.upper), k});
          break;
        case Order::kDeath:
          entries.push_back({static_cast<double>(item.upper),
                             -static_cast<double>(item.lower), k});
          break;
      }
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) {
                if (a.first != b.first) return a.first > b.first;
                if (a.second != b.second) return a.second > b.second;
                return a.item < b.item;
              });
    std::vector<uint32_t> sequence;
    sequence.reserve(entries.size());
    for (const Entry& entry : entries) sequence.push_back(entry.item);
    return sequence;
  }

  // Puts each item on top of all that lives with it, longest-lived first.
  void Stack() {
    Skyline skyline(part_.columns);
    height_ = height_of_fixed_;
    if (part_.floor > 0) skyline.Raise({0, part_.columns}, part_.floor);
    for (const uint32_t k : fixed_) {
      const Bytes end = items_[k].offset + items_[k].size;
      skyline.Raise(items_[k].range,
                    std::max(skyline.Top(items_[k].range), end));
    }
    const auto put = [&](uint32_t k) {
      const Item& item = items_[k];
      offsets_[k] = AlignUp(skyline.Top(item.range), item.alignment);
      skyline.Raise(item.range, offsets_[k] + item.size);
      height_ = std::max(height_, offsets_[k] + item.size);
    };
    for (const uint32_t k : lasting_) put(k);
    by_lifetime_ = Sequence(Order::kLifetime);
    for (const uint32_t k : by_lifetime_) put(k);
  }

  // Puts each item into the tightest gap there is when it is born or, with time
  // run backwards, when it dies, above all that is fixed.
  void Sweep(Order order) {
    const bool backwards = order == Order::kDeath;
    const auto begin = [&](uint32_t k) {
      const ColumnRange range = items_[k].range;
      return backwards ? part_.columns - range.end : range.begin;
    };
    const auto end = [&](uint32_t k) {
      const ColumnRange range = items_[k].range;
      return backwards ? part_.columns - range.begin : range.end;
    };
    BestFit heap(height_of_fixed_);
    std::vector<BestFit::Block> blocks(items_.size());
    height_ = height_of_fixed_;
    const auto put = [&](uint32_t k) {
      blocks[k] = heap.Take(items_[k].size, items_[k].alignment);
      offsets_[k] = heap.offset(blocks[k]);
      height_ = std::max(height_, offsets_[k] + items_[k].size);
    };
    for (const uint32_t k : lasting_) put(k);
    const std::vector<uint32_t> deaths = ByColumn(end);
    auto dead = deaths.begin();
    for (const uint32_t k : ByColumn(begin)) {
      for (; end(*dead) <= begin(k); ++dead) heap.Free(blocks[*dead]);
      put(k);
    }
  }

  // The passing items by a column of each, those of equal columns longest-lived
  // first.
  template <typename ColumnOf>
  std::vector<uint32_t> ByColumn(ColumnOf column_of) const {
    std::vector<uint32_t> firsts(static_cast<size_t>(part_.columns) + 2, 0);
    for (const uint32_t k : passing_) {
      ++firsts[static_cast<size_t>(column_of(k)) + 1];
    }
    std::partial_sum(firsts.begin(), firsts.end(), firsts.begin());
    std::vector<uint32_t> sorted(passing_.size());
    for (const uint32_t k : by_lifetime_) {
      sorted[firsts[static_cast<size_t>(column_of(k))]++] = k;
    }
    return sorted;
  }

  // Where something ended above the target, packs all that lives around it
  // anew, between what reaches in from before and after. Whatever is won stays.
  void MendWindows() {
    int64_t effort = 0;  // as much as the work is allowed
    for (const int32_t margin : kMargins) {
      if (IsPast(deadline_)) break;
      const std::vector<ColumnRange> windows = WindowsAboveTarget(margin);
      int64_t width = 0;
      for (const ColumnRange w : windows) width += w.end - w.begin;
      if (width > part_.columns / kWindowShare) break;
      const std::vector<std::vector<uint32_t>> living = LivingIn(windows);
      for (size_t w = 0; w < living.size(); ++w) {
        if (effort > work_ || IsPast(deadline_)) break;
        effort += MendWindow(windows[w], living[w], work_ - effort);
      }
      height_ = height_of_fixed_;
      for (size_t k = 0; k < items_.size(); ++k) {
        height_ = std::max(height_, offsets_[k] + items_[k].size);
      }
      if (height_ <= target_) break;
    }
  }

  // The columns of what ended above the target, with a margin; disjoint.
  std::vector<ColumnRange> WindowsAboveTarget(int32_t margin) const {
    std::vector<ColumnRange> windows;
    for (size_t k = 0; k < items_.size(); ++k) {
      if (offsets_[k] + items_[k].size <= target_) continue;
      const ColumnRange range = items_[k].range;
      windows.push_back({std::max(0, range.begin - margin),
                         std::min(part_.columns, range.end + margin)});
    }
    std::sort(windows.begin(), windows.end(),
              [](ColumnRange a, ColumnRange b) { return a.begin < b.begin; });
    size_t count = 0;
    for (const ColumnRange w : windows) {
      if (count > 0 && w.begin <= windows[count - 1].end) {
        windows[count - 1].end = std::max(windows[count - 1].end, w.end);
      } else {
        windows[count++] = w;
      }
    }
    windows.resize(count);
    return windows;
  }

  // The items that live in each of the windows, which are disjoint and ascend.
  // Of none when that would be too many.
  std::vector<std::vector<uint32_t>> LivingIn(
      const std::vector<ColumnRange>& windows) const {
    std::vector<std::vector<uint32_t>> living(windows.size());
    size_t visits = 0;
    for (uint32_t k = 0; k < items_.size(); ++k) {
      const ColumnRange range = items_[k].range;
      auto window = std::upper_bound(
          windows.begin(), windows.end(), range.begin,
          [](int32_t column, ColumnRange w) { return column < w.end; });
      for (; window != windows.end() && window->begin < range.end; ++window) {
        if (++visits > kMaxVisits * items_.size()) return {};
        living[static_cast<size_t>(window - windows.begin())].push_back(k);
      }
    }
    return living;
  }

  // Returns the effort it took.
  int64_t MendWindow(ColumnRange window, const std::vector<uint32_t>& living,
                     int64_t most_effort) {
    Part inner;
    inner.columns = window.end - window.begin;
    inner.floor = part_.floor;
    Bytes height = 0;
    for (const uint32_t k : living) {
      const ColumnRange range = items_[k].range;
      Item item = items_[k];
      const bool inside =
          range.begin >= window.begin && range.end <= window.end;
      if (!inside) item.offset = offsets_[k];
      item.range = {std::max(range.begin, window.begin) - window.begin,
                    std::min(range.end, window.end) - window.begin};
      inner.items.push_back(item);
      height = std::max(height, offsets_[k] + items_[k].size);
    }
    Greedy greedy(inner, target_, work_ / kWindowWorkShare, deadline_);
    const std::optional<PartPacking> packing = greedy.RunOrders(most_effort);
    if (packing && packing->height < height) {
      for (size_t j = 0; j < living.size(); ++j) {
        offsets_[living[j]] = packing->offsets[j];
      }
    }
    return greedy.effort();
  }

  // Fills the hold anew, into offsets_ and height_. False when the work or the
  // time that is allowed is used up before the end.
  bool Fill(const std::vector<uint32_t>& sequence) {
    hold_->Clear();
    height_ = height_of_fixed_;
    if (part_.floor > 0) {
      hold_->Occupy({0, part_.columns}, 0, part_.floor);
    }
    for (const uint32_t k : fixed_) {
      offsets_[k] = items_[k].offset;
      hold_->Occupy(items_[k].range, offsets_[k], offsets_[k] + items_[k].size);
    }
    size_t placed = 0;
    const auto place = [&](uint32_t k) {
      if (hold_->work() > work_limit_) return false;
      if (hold_->effort() > effort_limit_) return false;
      if (++placed % kItemsBetweenLooks == 0 && IsPast(deadline_)) return false;
      Place(k);
      return true;
    };
    return std::all_of(lasting_.begin(), lasting_.end(), place) &&
           std::all_of(sequence.begin(), sequence.end(), place);
  }

  void Place(uint32_t k) {
    const Item& item = items_[k];
    const Bytes offset =
        hold_->LowestFit(item.range, item.size, item.alignment);
    hold_->Occupy(item.range, offset, offset + item.size);
    offsets_[k] = offset;
    height_ = std::max(height_, offset + item.size);
  }

  void Keep(std::string order) {
    if (!best_.offsets.empty() && height_ >= best_.height) return;
    best_ = {offsets_, height_, std::move(order)};
  }

  // Moves what ended above the target to the front. False when nothing that
  // can move did.
  bool Mend(std::vector<uint32_t>* sequence) const {
    const auto above = [&](uint32_t k) {
      return offsets_[k] + items_[k].size > target_;
    };
    return std::stable_partition(sequence->begin(), sequence->end(), above) !=
           sequence->begin();
  }

  const Part& part_;
  const std::vector<Item>& items_;
  const int64_t work_;  // allowed after the first order
  const Deadline deadline_;
  std::vector<uint32_t> fixed_;        // placed before
  std::vector<uint32_t> lasting_;      // alive in every column
  std::vector<uint32_t> passing_;      // all others
  std::vector<uint32_t> by_lifetime_;  // the passing ones, once stacked
  std::vector<Bytes> offsets_;         // of the latest filling
  Bytes height_ = 0;
  Bytes height_of_fixed_;  // or of the floor
  std::optional<Pressure> pressure_;
  Bytes target_ = 0;
  std::optional<Hold> hold_;
  int64_t work_limit_ = std::numeric_limits<int64_t>::max();
  int64_t effort_limit_ = 0;
  PartPacking best_;
};

}  // namespace

PartPacking PackPart(const Part& part, Bytes target, int64_t work,
                     Deadline deadline) {
  return Greedy(part, target, work, deadline).Run();
}

namespace {

// Packs all buffers that take bytes; the others go to offset 0 or where they are
// fixed.
GreedyPacking PackAll(const Problem& problem, Bytes target, int64_t work,
                      Deadline deadline) {
  const Columns columns = ComputeColumns(problem);
  GreedyPacking packing;
  std::vector<Bytes>& offsets = packing.solution.offsets;
  Bytes& height = packing.solution.height;
  offsets.resize(problem.buffers.size());
  Part all;
  all.columns = columns.count;
  std::vector<uint32_t> indices;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.offset) {
      offsets[i] = *b.offset;
      height = std::max(height, *b.offset + b.size);
    }
    if (b.size == 0) continue;
    all.items.push_back({.range = columns.ranges[i],
                         .size = b.size,
                         .alignment = b.alignment,
                         .offset = b.offset.value_or(Item::kFree),
                         .lower = b.lower,
                         .upper = b.upper});
    indices.push_back(static_cast<uint32_t>(i));
  }
  if (indices.empty()) return packing;
  PartPacking best = PackDivided(all, target, work, deadline);
  for (size_t k = 0; k < indices.size(); ++k) {
    offsets[indices[k]] = best.offsets[k];
  }
  height = std::max(height, best.height);
  packing.order = std::move(best.order);
  return packing;
}

}  // namespace

GreedyPacking PackGreedily(const Problem& problem, Bytes target, int64_t work,
                           Deadline deadline) {
  GreedyPacking best = PackAll(problem, target, work, deadline);
  // Padding and fixed buffers can make reuse the worse choice.
  if (best.solution.height > target) {
    Solution linear = PackLinearly(problem);
    if (linear.height < best.solution.height) {
      best = {std::move(linear), "no reuse"};
    }
  }
  return best;
}

}  // namespace stowage::packing

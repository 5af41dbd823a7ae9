#include "planner/greedy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/strings.h"
#include "planner/columns.h"
#include "planner/hold.h"
#include "planner/linear.h"

namespace stowage {
namespace {

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
  Pressure(const Columns& columns, const std::vector<Bytes>& sizes) {
    while (leaves_ < static_cast<size_t>(columns.count)) leaves_ *= 2;
    tree_.resize(2 * leaves_);
    std::vector<Bytes> change(columns.count + 1);
    for (size_t i = 0; i < sizes.size(); ++i) {
      change[columns.ranges[i].begin] += sizes[i];
      change[columns.ranges[i].end] -= sizes[i];
    }
    std::partial_sum(change.begin(), change.end() - 1, &tree_[leaves_]);
    peak_ = static_cast<int32_t>(
        std::max_element(tree_.begin() + leaves_, tree_.end()) -
        (tree_.begin() + leaves_));
    for (size_t k = leaves_ - 1; k > 0; --k) {
      tree_[k] = std::max(tree_[2 * k], tree_[2 * k + 1]);
    }
  }

  int32_t peak() const { return peak_; }  // the first of the fullest columns

  Bytes Most(ColumnRange range) const {
    Bytes most = 0;
    size_t left = range.begin + leaves_;
    size_t right = range.end + leaves_;
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

class Greedy {
 public:
  Greedy(const Problem& problem, Bytes target, int64_t work, Deadline deadline)
      : problem_(problem),
        work_(work),
        deadline_(deadline),
        columns_(ComputeColumns(problem)),
        hold_(columns_.count) {
    best_.solution.height = std::numeric_limits<Bytes>::max();
    offsets_.resize(problem.buffers.size());
    for (size_t i = 0; i < problem.buffers.size(); ++i) {
      const Buffer& b = problem.buffers[i];
      if (b.offset) {
        offsets_[i] = *b.offset;
        fixed_top_ = std::max(fixed_top_, *b.offset + b.size);
        if (b.size > 0) fixed_.push_back(static_cast<uint32_t>(i));
      } else if (b.size > 0) {
        (SpansAll(i) ? lasting_ : passing_).push_back(static_cast<uint32_t>(i));
      }
    }
    // The coarsest alignment first, and what fills its units before what does
    // not, wastes the least padding.
    std::stable_sort(
        lasting_.begin(), lasting_.end(), [&](uint32_t i, uint32_t j) {
          const Buffer& a = problem_.buffers[i];
          const Buffer& b = problem_.buffers[j];
          if (a.alignment != b.alignment) return a.alignment > b.alignment;
          return a.size % a.alignment == 0 && b.size % b.alignment != 0;
        });
    RoundSizes();
    pressure_.emplace(columns_, rounded_);
    target_ = std::max(target, pressure_->Most({0, columns_.count}) - padding_);
  }

  GreedyPacking Run() {
    std::vector<std::vector<uint32_t>> sequences(std::size(kOrders));
    const int64_t rounds = kRounds * std::max<int64_t>(1, work_ / kGreedyWork);
    for (int64_t round = 0; round < rounds; ++round) {
      for (size_t k = 0; k < std::size(kOrders); ++k) {
        if (round == 0) sequences[k] = Sequence(kOrders[k]);
        if (!Fill(sequences[k])) return std::move(best_);
        if (height_ < best_.solution.height) {
          best_.solution = {offsets_, height_};
          best_.order =
              StrCat(OrderName(kOrders[k]), round > 0 ? ", mended" : "");
        }
        if (height_ <= target_) return std::move(best_);
        if (round == 0 && k == 0) work_limit_ = hold_.work() + work_;
        if (IsPast(deadline_)) return std::move(best_);
        if (!Mend(&sequences[k])) return std::move(best_);
      }
    }
    return std::move(best_);
  }

 private:
  bool SpansAll(size_t i) const {
    const ColumnRange range = columns_.ranges[i];
    return range.begin == 0 && range.end == columns_.count;
  }

  // When all alignments have a common factor, every buffer takes whole units of
  // it, save the last unit of the topmost. This gives the sizes as the packer
  // must pay them, and a bound above which stopping early is no loss.
  void RoundSizes() {
    Bytes unit = 0;
    for (const Buffer& b : problem_.buffers) {
      if (b.size > 0) unit = std::gcd(unit, b.alignment);
    }
    rounded_.reserve(problem_.buffers.size());
    for (const Buffer& b : problem_.buffers) {
      rounded_.push_back(b.size > 0 ? AlignUp(b.size, unit) : 0);
      padding_ = std::max(padding_, rounded_.back() - b.size);
    }
  }

  // The passing buffers in the given order.
  std::vector<uint32_t> Sequence(Order order) const {
    struct Entry {
      double first;  // larger goes earlier
      double second;
      uint32_t buffer;
    };
    std::vector<Entry> entries;
    entries.reserve(passing_.size());
    for (const uint32_t i : passing_) {
      const Buffer& b = problem_.buffers[i];
      const ColumnRange range = columns_.ranges[i];
      const double size = static_cast<double>(b.size);
      const double lower = static_cast<double>(b.lower);
      const double upper = static_cast<double>(b.upper);
      switch (order) {
        case Order::kPressure:
          entries.push_back(
              {static_cast<double>(pressure_->Most(range)), size, i});
          break;
        case Order::kPeak: {
          const int32_t peak = pressure_->peak();
          const int32_t distance =
              std::max({0, range.begin - peak, peak - (range.end - 1)});
          entries.push_back({static_cast<double>(-distance), size, i});
          break;
        }
        case Order::kSize:
          entries.push_back({size, upper - lower, i});
          break;
        case Order::kArea:
          entries.push_back({size * (upper - lower), size, i});
          break;
        case Order::kLifetime:
          entries.push_back({upper - lower, size, i});
          break;
        case Order::kBirth:
          entries.push_back({-lower, upper, i});
          break;
        case Order::kDeath:
          entries.push_back({upper, -lower, i});
          break;
      }
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) {
                if (a.first != b.first) return a.first > b.first;
                if (a.second != b.second) return a.second > b.second;
                return a.buffer < b.buffer;
              });
    std::vector<uint32_t> sequence;
    sequence.reserve(entries.size());
    for (const Entry& entry : entries) sequence.push_back(entry.buffer);
    return sequence;
  }

  // Fills the hold anew, into offsets_ and height_. False when the work that is
  // allowed is used up before the end.
  bool Fill(const std::vector<uint32_t>& sequence) {
    hold_.Clear();
    height_ = fixed_top_;
    for (const uint32_t i : fixed_) {
      hold_.Occupy(columns_.ranges[i], offsets_[i],
                   offsets_[i] + problem_.buffers[i].size);
    }
    for (const uint32_t i : lasting_) Place(i);
    for (const uint32_t i : sequence) {
      if (hold_.work() > work_limit_) return false;
      Place(i);
    }
    return true;
  }

  void Place(uint32_t i) {
    const Buffer& b = problem_.buffers[i];
    const ColumnRange range = columns_.ranges[i];
    const Bytes offset = hold_.LowestFit(range, b.size, b.alignment);
    hold_.Occupy(range, offset, offset + b.size);
    offsets_[i] = offset;
    height_ = std::max(height_, offset + b.size);
  }

  // Moves what ended above the target to the front. False when nothing that
  // can move did.
  bool Mend(std::vector<uint32_t>* sequence) const {
    const auto above = [&](uint32_t i) {
      return offsets_[i] + problem_.buffers[i].size > target_;
    };
    return std::stable_partition(sequence->begin(), sequence->end(), above) !=
           sequence->begin();
  }

  const Problem& problem_;
  const int64_t work_;  // allowed after the first order
  const Deadline deadline_;
  const Columns columns_;
  std::vector<uint32_t> fixed_;    // placed by the user
  std::vector<uint32_t> lasting_;  // alive in every column
  std::vector<uint32_t> passing_;  // all others of size above zero
  std::vector<Bytes> rounded_;     // sizes in whole units of alignment
  Bytes padding_ = 0;              // the most that rounding adds to one buffer
  std::optional<Pressure> pressure_;
  Bytes target_ = 0;
  Bytes fixed_top_ = 0;
  Hold hold_;
  int64_t work_limit_ = std::numeric_limits<int64_t>::max();
  std::vector<Bytes> offsets_;  // of the latest filling
  Bytes height_ = 0;
  GreedyPacking best_;
};

}  // namespace

GreedyPacking PackGreedily(const Problem& problem, Bytes target, int64_t work,
                           Deadline deadline) {
  GreedyPacking best = Greedy(problem, target, work, deadline).Run();
  // Padding and fixed buffers can make reuse the worse choice.
  if (best.solution.height > target) {
    Solution linear = PackLinearly(problem);
    if (linear.height < best.solution.height) {
      best = {std::move(linear), "no reuse"};
    }
  }
  return best;
}

}  // namespace stowage

#include "planner/packing/selection.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "base/result.h"
#include "planner/packing/free_space.h"
#include "planner/packing/greedy.h"
#include "planner/packing/part.h"

namespace stowage::packing {
namespace {

constexpr int kPriceSteps = 600;
constexpr int64_t kWorkOfAttempt = 200'000;  // PackGreedily
// Problems of more buffers get fewer attempts, so that all take some seconds at most.
constexpr size_t kBuffersOfAllAttempts = 400;
constexpr size_t kMinAttempts = 20;
constexpr double kUnlimited = 1e300;

// Prices of a byte in each column of time.
class Prices {
 public:
  explicit Prices(size_t columns) : price_(columns, 0), before_(columns + 1) {}

  double& operator[](size_t column) { return price_[column]; }
  /// Call after changes.
  void Sum() {
    std::partial_sum(price_.begin(), price_.end(), before_.begin() + 1);
  }
  /// The price of a byte in all of `range`.
  double Of(ColumnRange range) const {
    return before_[Index(range.end)] - before_[Index(range.begin)];
  }

 private:
  std::vector<double> price_;
  std::vector<double> before_;  // the sums of the columns before
};

int MaxAttempts(int attempts, size_t buffers) {
  if (buffers <= kBuffersOfAllAttempts) return attempts;
  const size_t fewer = Index(attempts) * kBuffersOfAllAttempts / buffers;
  return std::min(attempts, static_cast<int>(std::max(fewer, kMinAttempts)));
}

class Selector {
 public:
  Selector(const Problem& problem, std::span<const double> values,
           const SelectionOptions& options)
      : problem_(problem),
        values_(values),
        max_attempts_(MaxAttempts(options.attempts, problem.buffers.size())),
        options_(options),
        capacity_(*problem.capacity),
        columns_(ComputeColumns(problem)),
        live_(LoadOf([](size_t) { return true; })),
        of_capacity_(live_.size()),
        of_rest_(live_.size()),
        boost_(live_.size()),
        hold_(std::max(columns_.count, 1)) {
    best_.offsets.assign(size(), kNotSelected);
    best_.excess = std::numeric_limits<Bytes>::max();
    best_.bound = std::accumulate(values.begin(), values.end(), 0.0);
  }

  Selection Select() {
    // The order of value per byte, then of value per byte and time.
    Attempt([&](size_t i) { return values_[i] / Size(i); });
    Attempt([&](size_t i) { return values_[i] / (Size(i) * Duration(i)); });
    Attempt([&](size_t i) { return values_[i]; });
    FindPrices();
    for (int i = 0; !IsBest() && attempts_ < max_attempts_; ++i) {
      const double noise = 0.05 * static_cast<double>(1 + i % 8);
      const size_t favorite = i % 2 == 0 ? size() : NextFavorite();
      Attempt([&](size_t b) {
        if (b == favorite) return kUnlimited;
        return Rank(b) * (1 + noise * (2 * Random() - 1));
      });
    }
    return std::move(best_);
  }

 private:
  size_t size() const { return problem_.buffers.size(); }
  const ColumnRange& range(size_t i) const { return columns_.ranges[i]; }
  double Size(size_t i) const {
    return static_cast<double>(std::max<Bytes>(problem_.buffers[i].size, 1));
  }
  double Duration(size_t i) const {
    return static_cast<double>(std::max(range(i).end - range(i).begin, 1));
  }
  // A number in [0, 1), the same on every machine.
  double Random() {
    return static_cast<double>(random_() >> 11) * (1.0 / 9007199254740992.0);
  }
  bool IsTooLarge(size_t i) const {
    return problem_.buffers[i].size > capacity_;
  }
  bool IsForced(size_t i) const {
    return problem_.buffers[i].size > options_.largest_of_rest;
  }
  bool IsBest() const {
    return best_.excess == 0 && best_.value >= best_.bound * (1 - 1e-9);
  }

  // The live bytes in each column of the buffers for which `counts` is true.
  template <typename Counts>
  std::vector<Bytes> LoadOf(Counts counts) const {
    std::vector<Bytes> load(Index(columns_.count) + 1, 0);
    for (size_t i = 0; i < size(); ++i) {
      if (!counts(i)) continue;
      load[Index(range(i).begin)] += problem_.buffers[i].size;
      load[Index(range(i).end)] -= problem_.buffers[i].size;
    }
    std::partial_sum(load.begin(), load.end(), load.begin());
    load.pop_back();
    return load;
  }

  // --- Prices ---

  // The value per price, and above all where the rest has no space.
  double Rank(size_t i) const {
    const double gain =
        values_[i] + Size(i) * (of_rest_.Of(range(i)) + boost_.Of(range(i)));
    const double price = Size(i) * of_capacity_.Of(range(i));
    return gain / std::max(price, 1e-12 * std::max(gain, 1e-200));
  }

  // Minimizes the bound over prices. Attempts on the way use the prices reached.
  void FindPrices() {
    const size_t columns = live_.size();
    const double capacity = static_cast<double>(capacity_);
    // The bytes that must be selected in a column.
    std::vector<double> needed(columns, 0);
    for (size_t c = 0; c < columns; ++c) {
      needed[c] = static_cast<double>(live_[c]) -
                  static_cast<double>(std::min(options_.rest, live_[c]));
    }
    double scale = 1;
    int without_progress = 0;
    for (int step = 0; step < kPriceSteps && !IsBest(); ++step) {
      double bound = 0;
      std::vector<bool> selected(size(), false);
      for (size_t i = 0; i < size(); ++i) {
        if (IsTooLarge(i)) continue;
        const double reduced =
            values_[i] -
            Size(i) * (of_capacity_.Of(range(i)) - of_rest_.Of(range(i)));
        selected[i] = IsForced(i) || reduced > 0;
        if (selected[i]) bound += reduced;
      }
      const std::vector<Bytes> load =
          LoadOf([&](size_t i) { return selected[i]; });
      double norm = 0;
      for (size_t c = 0; c < columns; ++c) {
        bound += capacity * of_capacity_[c] - needed[c] * of_rest_[c];
        const double free = capacity - static_cast<double>(load[c]);
        const double surplus = static_cast<double>(load[c]) - needed[c];
        if (free < 0 || of_capacity_[c] > 0) norm += free * free;
        if (surplus < 0 || of_rest_[c] > 0) norm += surplus * surplus;
      }
      if (bound < best_.bound * (1 - 1e-6)) {
        without_progress = 0;
      } else if (++without_progress == 20) {
        without_progress = 0;
        scale /= 2;
      }
      best_.bound = std::min(best_.bound, bound);
      if (norm == 0) break;
      const double length =
          scale * std::max(bound - best_.value, 1e-6 * bound) / norm;
      for (size_t c = 0; c < columns; ++c) {
        const double free = capacity - static_cast<double>(load[c]);
        const double surplus = static_cast<double>(load[c]) - needed[c];
        of_capacity_[c] = std::max(0.0, of_capacity_[c] - length * free);
        of_rest_[c] = std::max(0.0, of_rest_[c] - length * surplus);
      }
      of_capacity_.Sum();
      of_rest_.Sum();
      if (step % 30 == 29 && 2 * attempts_ < max_attempts_) {
        Attempt([&](size_t i) { return Rank(i); });
      }
    }
    Attempt([&](size_t i) { return Rank(i); });
  }

  // After an attempt: raises the rank of buffers in the columns in which the others do not fit;
  // lowers it a little if they do.
  void Boost(const std::vector<Bytes>& rest_load, bool fits) {
    if (fits && !is_boosted_) return;
    double least = kUnlimited;
    for (size_t i = 0; i < size(); ++i) {
      if (values_[i] > 0) {
        least = std::min(least, values_[i] / (Size(i) * Duration(i)));
      }
    }
    if (least == kUnlimited) least = 1;
    for (size_t c = 0; c < rest_load.size(); ++c) {
      if (fits) {
        boost_[c] *= 0.95;
      } else if (rest_load[c] > options_.rest) {
        boost_[c] = std::max(least, 1.5 * boost_[c]);
      }
    }
    boost_.Sum();
    is_boosted_ = true;
  }

  // --- Attempts ---

  // The next buffer that is not selected, the most valuable first.
  size_t NextFavorite() {
    if (favorites_.empty()) {
      for (size_t i = 0; i < size(); ++i) {
        if (best_.offsets[i] == kNotSelected && !IsTooLarge(i)) {
          favorites_.push_back(i);
        }
      }
      std::ranges::stable_sort(favorites_, {},
                               [&](size_t i) { return values_[i]; });
    }
    if (favorites_.empty()) return size();
    const size_t next = favorites_.back();
    favorites_.pop_back();
    return next;
  }

  // Selects in the order of `rank`, the greatest first, in both ways.
  template <typename RankFn>
  void Attempt(RankFn rank) {
    ++attempts_;
    std::vector<double> ranks(size());
    for (size_t i = 0; i < size(); ++i) {
      ranks[i] = IsForced(i) ? 2 * kUnlimited : rank(i);
    }
    std::vector<size_t> order(size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](size_t i) { return ranks[i]; });
    std::erase_if(order, [&](size_t i) { return IsTooLarge(i); });
    hold_.Clear();
    std::vector<Bytes> offsets(size(), kNotSelected);
    Fill(order, &offsets);
    Keep(std::move(offsets));
    Keep(SelectThenPack(order));
  }

  // Gives every buffer of `order` that has no offset the lowest gap, if that is within the
  // capacity.
  void Fill(const std::vector<size_t>& order, std::vector<Bytes>* offsets) {
    for (const size_t i : order) {
      if ((*offsets)[i] != kNotSelected) continue;
      const Buffer& buffer = problem_.buffers[i];
      if (buffer.size == 0) {
        (*offsets)[i] = 0;
        continue;
      }
      const Bytes at = hold_.LowestFit(range(i), buffer.size, buffer.alignment);
      if (at > capacity_ - buffer.size) continue;
      hold_.Occupy(range(i), at, at + buffer.size);
      (*offsets)[i] = at;
    }
  }

  std::vector<Bytes> SelectThenPack(const std::vector<size_t>& order) {
    std::vector<Bytes> load(live_.size(), 0);
    std::vector<size_t> selected;
    Problem problem;
    for (const size_t i : order) {
      const Bytes size = problem_.buffers[i].size;
      if (size == 0) continue;
      const auto begin = load.begin() + range(i).begin;
      const auto end = load.begin() + range(i).end;
      if (*std::max_element(begin, end) > capacity_ - size) continue;
      std::for_each(begin, end, [&](Bytes& bytes) { bytes += size; });
      selected.push_back(i);
      problem.buffers.push_back(problem_.buffers[i]);
      problem.buffers.back().id.clear();
    }
    const Solution packed =
        PackGreedily(problem, capacity_, kWorkOfAttempt).solution;
    std::vector<Bytes> offsets(size(), kNotSelected);
    hold_.Clear();
    for (size_t s = 0; s < selected.size(); ++s) {
      const Bytes at = packed.offsets[s], size = problem.buffers[s].size;
      if (at > capacity_ - size) continue;
      hold_.Occupy(range(selected[s]), at, at + size);
      offsets[selected[s]] = at;
    }
    Fill(order, &offsets);
    return offsets;
  }

  void Keep(std::vector<Bytes> offsets) {
    double value = 0;
    for (size_t i = 0; i < size(); ++i) {
      if (offsets[i] != kNotSelected) value += values_[i];
    }
    const std::vector<Bytes> rest =
        LoadOf([&](size_t i) { return offsets[i] == kNotSelected; });
    Bytes excess = 0;
    for (const Bytes bytes : rest) {
      if (bytes > options_.rest) {
        excess = std::max(excess, bytes - options_.rest);
      }
    }
    for (size_t i = 0; i < size(); ++i) {
      if (IsForced(i) && offsets[i] == kNotSelected) {
        excess = std::max(excess,
                          problem_.buffers[i].size - options_.largest_of_rest);
      }
    }
    Boost(rest, excess == 0);
    const bool is_better =
        excess != best_.excess ? excess < best_.excess : value > best_.value;
    if (!is_better) return;
    best_.offsets = std::move(offsets);
    best_.value = value;
    best_.excess = excess;
    favorites_.clear();
  }

  const Problem& problem_;
  const std::span<const double> values_;
  const int max_attempts_;
  const SelectionOptions options_;
  const Bytes capacity_;
  const Columns columns_;
  const std::vector<Bytes> live_;  // by column
  Prices of_capacity_;             // of a selected byte
  Prices of_rest_;                 // of a byte that is not selected
  Prices boost_;                   // added to these where the rest does not fit
  bool is_boosted_ = false;
  Hold hold_;
  std::vector<size_t> favorites_;  // to be selected first in later attempts
  std::mt19937_64 random_{1};
  int attempts_ = 0;
  Selection best_;
};

}  // namespace

Selection SelectByValue(const Problem& problem, std::span<const double> values,
                        const SelectionOptions& options) {
  STOWAGE_CHECK(problem.capacity && values.size() == problem.buffers.size());
  return Selector(problem, values, options).Select();
}

}  // namespace stowage::packing

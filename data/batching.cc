#include "data/batching.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace stowage {

void ShuffleOrder(SplitMix64 random, std::span<int64_t> order) {
  std::iota(order.begin(), order.end(), 0);
  for (size_t left = order.size(); left > 1; --left) {
    const int64_t other = random.Below(static_cast<int64_t>(left));
    std::swap(order[left - 1], order[static_cast<size_t>(other)]);
  }
}

std::vector<int64_t> ShuffledOrder(int64_t size, SplitMix64 random) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  ShuffleOrder(random, order);
  return order;
}

size_t TrainOrder::At(int64_t position) {
  const auto size = std::ssize(train_);
  if (const int64_t pass = position / size; pass != pass_) {
    pass_ = pass;
    ShuffleOrder({seed_, static_cast<uint64_t>(pass)}, order_);
  }
  const int64_t at = order_[static_cast<size_t>(position % size)];
  return train_[static_cast<size_t>(at)];
}

std::vector<int64_t> ChooseLengths(const std::vector<int64_t>& inputs,
                                   size_t most) {
  const int64_t longest = std::ranges::max(inputs);
  std::vector<int64_t> ends;  // candidates, ascending
  for (int64_t end = kLengthStep; end < longest; end += kLengthStep) {
    ends.push_back(end);
  }
  ends.push_back(longest);
  const size_t count = ends.size();
  std::vector<int64_t> below(count + 1, 0);  // inputs within the first i ends
  for (const int64_t input : inputs) {
    const auto at = std::ranges::lower_bound(ends, input) - ends.begin();
    ++below[static_cast<size_t>(at) + 1];
  }
  for (size_t i = 0; i < count; ++i) below[i + 1] += below[i];
  // The minimal sum for the inputs within the first i ends by k lengths, the last of which is
  // the i-th end, and the index of the length before it.
  struct Choice {
    int64_t sum = std::numeric_limits<int64_t>::max();
    size_t before = 0;
  };
  const size_t lengths_at_most = std::min(most, count);
  std::vector best(lengths_at_most + 1, std::vector<Choice>(count + 1));
  best[0][0].sum = 0;
  for (size_t k = 1; k <= lengths_at_most; ++k) {
    for (size_t i = k; i <= count; ++i) {
      for (size_t j = k - 1; j < i; ++j) {
        if (k > 1 && j == 0) continue;
        if (k == 1 && j > 0) break;
        const int64_t sum =
            best[k - 1][j].sum + (below[i] - below[j]) * ends[i - 1];
        if (sum < best[k][i].sum) best[k][i] = {.sum = sum, .before = j};
      }
    }
  }
  size_t fewest = 1;
  for (size_t k = 2; k <= lengths_at_most; ++k) {
    if (best[k][count].sum < best[fewest][count].sum) fewest = k;
  }
  std::vector<int64_t> lengths;
  size_t i = count;
  for (size_t k = fewest; k > 0; --k) {
    lengths.push_back(ends[i - 1]);
    i = best[k][i].before;
  }
  return lengths;
}

size_t ShortestThatHolds(std::span<const int64_t> lengths, int64_t tokens) {
  size_t shortest = 0;
  while (shortest + 1 < lengths.size() && lengths[shortest + 1] >= tokens) {
    ++shortest;
  }
  return shortest;
}

}  // namespace stowage

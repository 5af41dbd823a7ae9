#include "planner/fit/offload/share.h"

#include <algorithm>

#include "base/bytes.h"

namespace stowage::fit {
namespace {

constexpr int kHalves = 2;

// How many of the first have so many halves of all bytes.
size_t CountHalves(std::span<const Offloadable> all, int halves) {
  Bytes sum = 0, part = 0;
  for (const Offloadable& each : all) sum += each.bytes;
  size_t count = 0;
  while (count < all.size() && kHalves * part < halves * sum) {
    part += all[count++].bytes;
  }
  return count;
}

}  // namespace

size_t CountStates(std::span<const Offloadable> all) {
  return static_cast<size_t>(
      std::ranges::count_if(all, &Offloadable::is_state));
}

std::vector<Share> SharesToTry(std::span<const Offloadable> all, bool bodies) {
  const size_t states = CountStates(all);
  std::vector<Share> shares = {
      {},
      {.states = CountHalves(all.first(states), 1)},
      {.states = states},
      {.states = states, .halves = 1},
      {.states = states, .halves = kHalves},
      {.states = states, .halves = kHalves, .again = true}};
  if (std::ranges::all_of(
          all, [](const Offloadable& each) { return each.again.empty(); })) {
    shares.pop_back();
  }
  if (states == all.size()) shares.resize(3);  // no forward value may move
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
  if (!bodies) return shares;
  const Share most = shares.back();
  for (Share share : {Share{}, Share{.states = states}, most}) {
    share.inside = true;
    if (share != shares.back()) shares.push_back(share);
  }
  return shares;
}

std::vector<Offloadable> Select(std::span<const Offloadable> all, Share share,
                                int64_t pieces) {
  const auto states = all.first(CountStates(all));
  const auto values = all.subspan(states.size());
  const int halves = pieces > 1 && share.halves > 0 ? kHalves : share.halves;
  const auto moved_states = states.first(std::min(share.states, states.size()));
  const auto moved_values = values.first(CountHalves(values, halves));
  std::vector<Offloadable> moved(moved_states.begin(), moved_states.end());
  moved.insert(moved.end(), moved_values.begin(), moved_values.end());
  if (!share.again) {
    for (Offloadable& each : moved) each.again.clear();
  }
  return moved;
}

}  // namespace stowage::fit

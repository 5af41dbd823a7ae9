#include "planner/fit/recompute/frontier.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stowage::fit {

bool Frontier::Try(const std::vector<Fate>& fates) {
  if (is_spent()) return false;
  if (on_try_) on_try_();
  if (!simulation_.Run(fates)) return false;
  nodes_ += static_cast<int64_t>(simulation_.items().size());
  latest_ = {simulation_.peak(), simulation_.extra_cost()};
  const auto next = points_.upper_bound(latest_.peak);
  if (next == points_.begin() || std::prev(next)->second.cost > latest_.cost) {
    Add(latest_.peak, {latest_.cost, fates, simulation_.script()});
  }
  return true;
}

bool Frontier::Try(const Script& script) {
  if (on_try_) on_try_();
  if (!simulation_.Run(script)) return false;
  latest_ = {simulation_.peak(), simulation_.extra_cost()};
  Add(latest_.peak, {latest_.cost, {}, script});
  return true;
}

void Frontier::Add(Bytes peak, Point point) {
  auto next = points_.upper_bound(peak);
  if (next != points_.begin() && std::prev(next)->second.cost <= point.cost) {
    return;
  }
  while (next != points_.end() && next->second.cost >= point.cost) {
    next = points_.erase(next);
  }
  points_.insert_or_assign(peak, std::move(point));
}

double Frontier::Excess(Bytes target) const {
  double sum = 0;
  for (const Bytes live : simulation_.live()) {
    if (live > target) sum += static_cast<double>(live - target);
  }
  return sum;
}

double Frontier::Worth(const Outcome& before, double excess,
                       Bytes target) const {
  const double min_cost = 1e-9 * simulation_.cost() + 1;
  const double gain = excess - Excess(target);
  return std::max(gain / std::max(latest_.cost - before.cost, min_cost), 0.0);
}

}  // namespace stowage::fit

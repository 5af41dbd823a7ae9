#include "planner/fit/order/problem.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/index.h"

namespace stowage::fit {

OrderState::OrderState(const OrderProblem& problem)
    : problem_(problem),
      before_(problem.tasks.size()),
      waits_(problem.tasks.size()),
      ready_at_(problem.tasks.size(), -1) {
  for (int32_t task = 0; task < problem.num_tasks(); ++task) {
    const OrderTask& t = problem.tasks[Index(task)];
    waits_[Index(task)] = static_cast<int32_t>(t.after.size());
    for (const int32_t other : t.after) before_[Index(other)].push_back(task);
    if (t.after.empty()) AddReady(task);
  }
  for (const OrderContent& content : problem.contents) {
    unread_.push_back(static_cast<int32_t>(content.readers.size()));
    const bool wanted = content.kept || !content.readers.empty();
    if (content.maker < 0 && wanted) live_ += content.size;
  }
}

Bytes OrderState::LiveDuring(int32_t task) const {
  const OrderTask& t = problem_.tasks[Index(task)];
  Bytes live = live_ + t.scratch;
  for (const int32_t made : t.makes) {
    live += problem_.contents[Index(made)].size;
  }
  for (const int32_t content : t.may_replace) {
    if (DiesWith(content)) return live - problem_.contents[Index(content)].size;
  }
  return live;
}

Bytes OrderState::LiveAfter(int32_t task) const {
  const OrderTask& t = problem_.tasks[Index(task)];
  Bytes live = live_;
  for (const int32_t made : t.makes) {
    const OrderContent& content = problem_.contents[Index(made)];
    if (content.kept || !content.readers.empty()) live += content.size;
  }
  for (const int32_t read : t.reads) {
    if (DiesWith(read)) live -= problem_.contents[Index(read)].size;
  }
  return live;
}

void OrderState::AddReady(int32_t task) {
  ready_at_[Index(task)] = static_cast<int32_t>(ready_.size());
  ready_.push_back(task);
}

void OrderState::RemoveReady(int32_t task) {
  const int32_t at = ready_at_[Index(task)];
  ready_[Index(at)] = ready_.back();
  ready_at_[Index(ready_.back())] = at;
  ready_.pop_back();
}

void OrderState::Run(int32_t task) {
  live_ = LiveAfter(task);
  for (const int32_t read : problem_.tasks[Index(task)].reads) {
    --unread_[Index(read)];
  }
  RemoveReady(task);
  for (const int32_t next : before_[Index(task)]) {
    if (--waits_[Index(next)] == 0) AddReady(next);
  }
  ++ran_;
}

void OrderState::TakeBack(int32_t task) {
  for (const int32_t next : before_[Index(task)]) {
    if (waits_[Index(next)]++ == 0) RemoveReady(next);
  }
  AddReady(task);
  for (const int32_t read : problem_.tasks[Index(task)].reads) {
    ++unread_[Index(read)];
  }
  live_ -= LiveAfter(task) - live_;
  --ran_;
}

std::vector<Bytes> LiveOver(const OrderProblem& problem,
                            std::span<const int32_t> order) {
  STOWAGE_CHECK(order.size() == problem.tasks.size());
  OrderState state(problem);
  std::vector<Bytes> live;
  live.reserve(order.size());
  for (const int32_t task : order) {
    live.push_back(state.LiveDuring(task));
    state.Run(task);
  }
  STOWAGE_CHECK(state.done());
  return live;
}

Bytes PeakOf(const OrderProblem& problem, std::span<const int32_t> order) {
  const std::vector<Bytes> live = LiveOver(problem, order);
  return live.empty() ? OrderState(problem).live()
                      : *std::max_element(live.begin(), live.end());
}

}  // namespace stowage::fit

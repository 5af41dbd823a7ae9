#include "gpu/side_stream.h"

#include "base/result.h"

namespace stowage::gpu {

Status SideStream::Begin() {
  STOWAGE_CHECK(used_ + kEventsOfALaunch <= events_.size());
  const Event begin = events_[used_];
  STOWAGE_RETURN_IF_ERROR(device_.Record(begin, compute_));
  return device_.Await(side_, begin);
}

Status SideStream::End(const Launch& launch) {
  const Event done = events_[used_ + 1];
  used_ += kEventsOfALaunch;
  STOWAGE_RETURN_IF_ERROR(device_.Record(done, side_));
  pending_.push_back({LaunchAccesses(launch), done});
  return {};
}

// Launches end in the order in which they began.
Status SideStream::WaitFor(size_t count) {
  if (count == 0) return {};
  STOWAGE_RETURN_IF_ERROR(device_.Await(compute_, pending_[count - 1].done));
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(count));
  if (pending_.empty()) used_ = 0;
  return {};
}

Status SideStream::WaitBefore(const Launch& launch) {
  if (pending_.empty()) return {};
  const LaunchAccesses own(launch);
  size_t count = pending_.size();
  while (count > 0 && own.MayRunBeside(pending_[count - 1].accesses)) --count;
  return WaitFor(count);
}

Status SideStream::WaitForAll() { return WaitFor(pending_.size()); }

}  // namespace stowage::gpu

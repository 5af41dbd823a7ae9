#include "gpu/host_copies.h"

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "base/check.h"

namespace stowage::gpu {
namespace {

constexpr size_t kEventsOfACopy = 2;  // where it begins, and where it ends

struct Range {
  const std::byte* begin;
  const std::byte* end;
  bool Overlaps(const Range& other) const {
    return begin < other.end && other.begin < end;
  }
};

Range Of(const TensorView& view) {
  int64_t last = 0;
  for (int i = 0; i < view.shape().rank(); ++i) {
    last += (view.shape()[i] - 1) * view.strides[i];
  }
  return {view.data, view.data + (last + 1) * SizeOf(view.dtype())};
}

// What a copy reads: the last operand (the first of stash_update is the place
// that it writes).
Range ReadBy(const Launch& copy) { return Of(copy.inputs.back()); }
Range WrittenBy(const Launch& copy) { return Of(copy.outputs[0]); }

// Whether `launch` may not run beside `copy`.
bool Conflict(const Launch& launch, const Launch& copy) {
  const Range read = ReadBy(copy), written = WrittenBy(copy);
  const auto touches = [](const Range& range) {
    return
        [&range](const TensorView& view) { return Of(view).Overlaps(range); };
  };
  const Range scratch = {launch.workspace.data(),
                         launch.workspace.data() + launch.workspace.size()};
  return std::ranges::any_of(launch.inputs, touches(written)) ||
         std::ranges::any_of(launch.outputs, touches(written)) ||
         std::ranges::any_of(launch.outputs, touches(read)) ||
         scratch.Overlaps(written) || scratch.Overlaps(read);
}

}  // namespace

bool IsHostCopy(OpKind op) {
  return op == OpKind::kFetch || op == OpKind::kStash ||
         op == OpKind::kStashUpdate;
}

size_t HostCopies::EventsFor(std::span<const Launch> launches) {
  const auto copies = std::ranges::count_if(
      launches, [](const Launch& launch) { return IsHostCopy(launch.op); });
  return kEventsOfACopy * static_cast<size_t>(copies);
}

Status HostCopies::Start(const Launch& launch) {
  STOWAGE_CHECK(used_ + kEventsOfACopy <= events_.size());
  const Event begin = events_[used_], done = events_[used_ + 1];
  used_ += kEventsOfACopy;
  STOWAGE_RETURN_IF_ERROR(device_.Record(begin, compute_));
  STOWAGE_RETURN_IF_ERROR(device_.Await(copy_, begin));
  const TensorView& to = launch.outputs[0];
  STOWAGE_RETURN_IF_ERROR(
      device_.Copy(to.data, launch.inputs.back().data, to.type.bytes(), copy_));
  STOWAGE_RETURN_IF_ERROR(device_.Record(done, copy_));
  pending_.push_back({&launch, done});
  return {};
}

// Copies end in the order in which they began.
Status HostCopies::WaitFor(size_t count) {
  if (count == 0) return {};
  STOWAGE_RETURN_IF_ERROR(device_.Await(compute_, pending_[count - 1].done));
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(count));
  return {};
}

Status HostCopies::WaitBefore(const Launch& launch) {
  size_t count = pending_.size();
  while (count > 0 && !Conflict(launch, *pending_[count - 1].launch)) --count;
  return WaitFor(count);
}

Status HostCopies::WaitForAll() { return WaitFor(pending_.size()); }

}  // namespace stowage::gpu

#include "gpu/enqueue.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "gpu/kernel.h"

namespace stowage::gpu {
namespace {

// Bytes that a launch reads or writes.
struct Touched {
  const std::byte* begin;
  const std::byte* end;
  bool written;
};

Touched Extent(const TensorView& view, bool written) {
  int64_t last = 0;
  for (int axis = 0; axis < view.shape().rank(); ++axis) {
    last += (view.shape()[axis] - 1) * view.strides[axis];
  }
  return {view.data, view.data + (last + 1) * SizeOf(view.dtype()), written};
}

std::vector<Touched> TouchedBy(const Launch& launch) {
  std::vector<Touched> touched;
  for (const TensorView& view : launch.inputs) {
    touched.push_back(Extent(view, false));
  }
  for (const TensorView& view : launch.outputs) {
    touched.push_back(Extent(view, true));
  }
  const auto scratch = launch.workspace;
  touched.push_back({scratch.data(), scratch.data() + scratch.size(), true});
  return touched;
}

bool Conflict(const Touched& a, const Touched& b) {
  return (a.written || b.written) && a.begin < b.end && b.begin < a.end;
}

// How many of the launches may be done at once, from the first on.
size_t CountTogether(std::span<const Launch> launches) {
  std::vector<Touched> group = TouchedBy(launches.front());
  size_t count = 1;
  while (count < launches.size() && launches[count].op == launches.front().op) {
    const std::vector<Touched> next = TouchedBy(launches[count]);
    for (const Touched& a : next) {
      for (const Touched& b : group) {
        if (Conflict(a, b)) return count;
      }
    }
    group.insert(group.end(), next.begin(), next.end());
    ++count;
  }
  return count;
}

}  // namespace

void DeviceQueue::Note(const Status& status) {
  if (status.ok() || !status_.ok()) return;
  status_ = status;
  failed_ = launch_;
}

void DeviceQueue::Launch(const KernelCall& call) {
  Note(mode_ == Mode::kRun ? device_.Launch(call, stream_)
                           : device_.Prepare(call));
}

void DeviceQueue::MatMul(const MatMulCall& call) {
  Note(mode_ == Mode::kRun ? device_.MatMul(call, stream_)
                           : device_.Prepare(call, stream_));
}

void DeviceQueue::Fill(std::byte* to, uint8_t value, Bytes bytes) {
  if (mode_ == Mode::kRun) Note(device_.Fill(to, value, bytes, stream_));
}

void DeviceQueue::Copy(std::byte* to, const std::byte* from, Bytes bytes) {
  if (mode_ == Mode::kRun) Note(device_.Copy(to, from, bytes, stream_));
}

Status DeviceQueue::Finish(const Program& program) const {
  if (status_.ok() || failed_ >= program.launches().size()) return status_;
  return Error{
      status_.error().code,
      StrCat(status_.error().message, " (at ",
             program.graph().Describe(program.launches()[failed_].node), ")")};
}

void EnqueueLaunches(std::span<const Launch> launches, DeviceQueue& queue) {
  for (size_t i = 0; i < launches.size();) {
    queue.set_launch(i);
    const GpuKernel& kernel = GetKernel(launches[i].op);
    if (kernel.enqueue_many == nullptr) {
      kernel.enqueue(launches[i], queue);
      ++i;
      continue;
    }
    const size_t count = CountTogether(launches.subspan(i));
    kernel.enqueue_many(launches.subspan(i, count), queue);
    i += count;
  }
}

}  // namespace stowage::gpu

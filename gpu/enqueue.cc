#include "gpu/enqueue.h"

#include "base/strings.h"
#include "gpu/kernel.h"

namespace stowage::gpu {
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

void EnqueueLaunches(std::span<const Launch> launches, DeviceQueue& queue,
                     HostCopies* beside) {
  for (size_t i = 0; i < launches.size();) {
    queue.set_launch(i);
    if (beside != nullptr && IsHostCopy(launches[i].op)) {
      queue.Note(beside->Start(launches[i++]));
      continue;
    }
    const GpuKernel& kernel = GetKernel(launches[i].op);
    size_t count = 1;
    while (kernel.enqueue_many != nullptr && i + count < launches.size() &&
           launches[i + count].op == launches[i].op) {
      ++count;
    }
    const auto now = launches.subspan(i, count);
    for (const Launch& launch : now) {
      if (beside != nullptr) queue.Note(beside->WaitBefore(launch));
    }
    if (kernel.enqueue_many != nullptr) {
      kernel.enqueue_many(now, queue);
    } else {
      kernel.enqueue(now[0], queue);
    }
    i += count;
  }
  if (beside != nullptr) queue.Note(beside->WaitForAll());
}

}  // namespace stowage::gpu

#ifndef STOWAGE_GPU_SIDE_STREAM_H_
#define STOWAGE_GPU_SIDE_STREAM_H_

// Work beside the kernels of a step that is being captured: copies between the host's
// memory and the arena, and exchanges between ranks.
//
//   compute stream   [kernels ...] fork [kernels ...] wait [reads what came]
//   side stream                     └── [reload] ───────┘
//
// A launch begins when all that was enqueued before it is done, on a stream of its own.
// A later one waits for those before it beside which it may not run
// (runtime/program.h): it would read what has not come yet, or write over what
// has not gone. Launches of a side stream go one after the other, as through one link.
//
//   SideStream copies(device, compute, side, events);
//   copies.Begin();  // all in the order of the launches
//   device.Copy(to, from, bytes, copies.stream());
//   copies.End(reload);
//   copies.WaitBefore(relu);
//   copies.WaitForAll();  // before the capture ends

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace stowage::gpu {

class SideStream {
 public:
  /// Where a launch begins, and where it ends.
  static constexpr size_t kEventsOfALaunch = 2;

  /// `events`: kEventsOfALaunch for each launch that will be begun before all have been
  /// waited for, which leaves them to those that follow.
  SideStream(Device& device, Stream compute, Stream side,
             std::span<const Event> events)
      : device_(device), compute_(compute), side_(side), events_(events) {}

  Stream stream() const { return side_; }

  /// What the side stream is given from here on begins when all that was given to the
  /// compute stream is done.
  Status Begin();
  /// What it was given since is `launch`.
  Status End(const Launch& launch);
  /// The compute stream waits for those that `launch` may not run beside.
  Status WaitBefore(const Launch& launch);
  Status WaitForAll();

 private:
  struct Pending {
    LaunchAccesses accesses;
    Event done;
  };

  Status WaitFor(size_t count);

  Device& device_;
  const Stream compute_, side_;
  const std::span<const Event> events_;
  size_t used_ = 0;
  std::vector<Pending> pending_;  // ended, and not waited for
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_SIDE_STREAM_H_

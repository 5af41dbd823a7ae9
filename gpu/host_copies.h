#ifndef STOWAGE_GPU_HOST_COPIES_H_
#define STOWAGE_GPU_HOST_COPIES_H_

// Copies between the host's memory and the arena, beside the kernels of a step
// that is being captured:
//
//   compute stream   [kernels ...] fork [kernels ...] wait [reads what came]
//   copy stream                     └── [fetch] ───────┘
//
// A copy begins when all that was enqueued before it is done, on a stream of its
// own. A launch waits for those copies before it whose bytes it touches: it would
// read what has not come yet, or write over what has not gone. Copies go one after
// the other, as through one link.
//
//   HostCopies copies(device, compute, copy, events);
//   copies.Start(fetch);      // all in the order of the launches
//   copies.WaitBefore(relu);
//   copies.WaitForAll();      // before the capture ends

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"
#include "ir/op_kind.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// Whether an op only copies between arena and host.
bool IsHostCopy(OpKind op);

class HostCopies {
 public:
  /// How many events the copies among these launches take.
  static size_t EventsFor(std::span<const Launch> launches);

  /// Keeps references; the launches given below must stay where they are.
  HostCopies(Device& device, Stream compute, Stream copy,
             std::span<const Event> events)
      : device_(device), compute_(compute), copy_(copy), events_(events) {}

  Status Start(const Launch& launch);
  Status WaitBefore(const Launch& launch);
  Status WaitForAll();

 private:
  struct Pending {
    const Launch* launch;
    Event done;
  };

  Status WaitFor(size_t count);

  Device& device_;
  const Stream compute_, copy_;
  const std::span<const Event> events_;
  size_t used_ = 0;
  std::vector<Pending> pending_;  // started, and not waited for
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_HOST_COPIES_H_

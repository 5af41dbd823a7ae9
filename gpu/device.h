#ifndef STOWAGE_GPU_DEVICE_H_
#define STOWAGE_GPU_DEVICE_H_

// What the backend asks of a GPU: memory, streams and events, copies, grids,
// matrix products, messages to and from the GPUs of other ranks, and graphs of them that
// were captured once and are launched again and again. CUDA is behind it (gpu/cuda_device.h); tests put a device of
// their own there, in the memory of the host, that notes every call.
//
//   STOWAGE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenCudaDevice({}));
//   STOWAGE_ASSIGN_OR_RETURN(Stream stream, device->CreateStream());
//   STOWAGE_RETURN_IF_ERROR(device->Prepare(call));
//   STOWAGE_RETURN_IF_ERROR(device->BeginCapture(stream));
//   STOWAGE_RETURN_IF_ERROR(device->Launch(call, stream));
//   STOWAGE_ASSIGN_OR_RETURN(DeviceGraph graph, device->EndCapture(stream));
//   STOWAGE_RETURN_IF_ERROR(device->LaunchGraph(graph, stream));
//
// Work on a stream runs in the order in which it was given, work on different
// streams in any order save where an event says otherwise. What fails on the
// device may be reported by any later call. Errors are kDevice, begin with
// [gpu] and say what was asked for.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/queue.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu {

// Handles; what they point to is the device's business.
struct Stream {
  void* handle = nullptr;
};
struct Event {
  void* handle = nullptr;
};
struct DeviceGraph {
  void* handle = nullptr;
};

/// Which body of a branch in a graph runs. Kernels of the graph set it (SetChoice in
/// gpu/simt_choice.h).
struct GraphChoice {
  uint64_t handle = 0;
};

/// Memory of the host that the device can read and write, too.
struct PinnedBlock {
  std::byte* host = nullptr;    // its address here
  std::byte* device = nullptr;  // and there
};

struct DeviceTraits {
  std::string name;  // "NVIDIA H200"
  int major = 0;     // of its compute capability
  int minor = 0;
  std::string runtime;         // "driver for CUDA 13.0, runtime 13.0"
  std::string software;        // that, and "cuBLASLt 130100"
  std::string matmul_library;  // the file that was loaded
  bool tensor_maps = false;    // its driver encodes some
};

struct DeviceMemory {
  Bytes free = 0;
  Bytes total = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceTraits& traits() const = 0;
  virtual Result<DeviceMemory> Memory() = 0;

  /// This rank, of those whose devices were joined when it was opened.
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// A block at a multiple of 256. Error: what is needed, free and there.
  virtual Result<std::byte*> Allocate(Bytes bytes) = 0;
  virtual void Free(std::byte* block) noexcept = 0;
  virtual Result<PinnedBlock> AllocatePinned(Bytes bytes) = 0;
  virtual void FreePinned(const PinnedBlock& block) noexcept = 0;

  virtual Result<Stream> CreateStream() = 0;
  virtual void Destroy(Stream stream) noexcept = 0;
  virtual Result<Event> CreateEvent() = 0;
  virtual void Destroy(Event event) noexcept = 0;

  // From here to EndCapture nothing allocates, unless it fails. An event that
  // was never recorded counts as passed.

  /// `event` is passed when all that is on `stream` now is done.
  virtual Status Record(Event event, Stream stream) = 0;
  /// What is given to `stream` from now on waits until `event` is passed.
  virtual Status Await(Stream stream, Event event) = 0;
  /// Waits, here, until the event is passed, or all work on the stream is done.
  virtual Status Synchronize(Event event) = 0;
  virtual Status Synchronize(Stream stream) = 0;

  /// Between any two of device, pinned and ordinary memory. Ordinary memory may
  /// be reused when the stream has been synchronized.
  virtual Status Copy(void* to, const void* from, Bytes bytes,
                      Stream stream) = 0;
  virtual Status Fill(std::byte* to, uint8_t value, Bytes bytes,
                      Stream stream) = 0;
  virtual Status Launch(const KernelCall& call, Stream stream) = 0;
  /// With the algorithm that Prepare chose for the call's shape.
  virtual Status MatMul(const MatMulCall& call, Stream stream) = 0;
  /// All of it at once; see Queue::Exchange. Where a rank is lost, the stream may never
  /// come to an end.
  virtual Status Exchange(std::span<const PeerMessages> messages,
                          Stream stream) = 0;

  /// What kernels are given of an array (gpu/tensor_map.h). Errors: there are no tensor
  /// maps, see traits(), or none of such an array.
  virtual Result<TensorMap> Encode(const TensorMapSpec& spec) = 0;

  /// Loads the kernel, and allows it the shared memory that the call wants:
  /// before a capture, for loading may allocate.
  virtual Status Prepare(const KernelCall& call) = 0;
  /// Chooses an algorithm for the shape, strides and alignment of the call that
  /// needs no more than its workspace, keeps it, and runs it once on `stream`,
  /// for the same reason: always the same one. Error kUnsupported: the library lacks
  /// the epilogue.
  virtual Status Prepare(const MatMulCall& call, Stream stream) = 0;
  /// Whether a product of that shape, with such an epilogue, was prepared.
  virtual bool IsPrepared(const MatMulCall& call) const = 0;
  /// How many seconds what `give` gives to the stream takes there, by the device's clock;
  /// waits for it. Not in a capture. Errors: those of `give`, and of its work.
  virtual Result<double> Time(Stream stream,
                              const std::function<Status()>& give) = 0;

  /// From here to EndCapture, work given to `stream` is noted, not done.
  virtual Status BeginCapture(Stream stream) = 0;
  /// What was noted, ready to be launched.
  virtual Result<DeviceGraph> EndCapture(Stream stream) = 0;
  virtual Status LaunchGraph(DeviceGraph graph, Stream stream) = 0;
  virtual void Destroy(DeviceGraph graph) noexcept = 0;

  // Branches that a graph takes by itself:
  //
  //   STOWAGE_ASSIGN_OR_RETURN(const GraphChoice choice, device->NewChoice(stream));
  //   ...                                      // among it a kernel that sets the choice
  //   device->BeginBranch(choice, 2, stream);
  //   ...                                      // the first body
  //   device->NextBody(stream);
  //   ...                                      // the second, perhaps with branches in it
  //   device->NextBody(stream);
  //   ...                                      // what follows the branch
  //
  // Where a part of the graph begins or ends, other streams that have joined the capture
  // have been waited for. After an error nothing more is given, and what EndCapture returns
  // then, if no error, is not whole.

  /// Error kUnsupported: graphs of this device hold no branches; why.
  virtual Status HasBranches() const = 0;
  /// In a capture: a choice for one branch.
  virtual Result<GraphChoice> NewChoice(Stream stream) = 0;
  /// In a capture: behind what `stream` was given, one of so many bodies runs, the first
  /// being 0, or none where `choice` is none of them. What is given to `stream` from here
  /// on is the first body.
  virtual Status BeginBranch(GraphChoice choice, size_t bodies,
                             Stream stream) = 0;
  /// In a body: what is given to `stream` from here on is the next one; behind the last,
  /// what follows the branch.
  virtual Status NextBody(Stream stream) = 0;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_DEVICE_H_

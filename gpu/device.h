#ifndef STOWAGE_GPU_DEVICE_H_
#define STOWAGE_GPU_DEVICE_H_

// The interface of a GPU: memory, streams and events, copies, kernel launches, matmuls,
// messages to and from the GPUs of other ranks, and graphs of these, captured once and
// launched many times. gpu/cuda_device.h implements it by CUDA; tests implement it in host
// memory and record every call.
//
//   STOWAGE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenCudaDevice({}));
//   STOWAGE_ASSIGN_OR_RETURN(Stream stream, device->CreateStream());
//   STOWAGE_RETURN_IF_ERROR(device->Prepare(call));
//   STOWAGE_RETURN_IF_ERROR(device->BeginCapture(stream));
//   STOWAGE_RETURN_IF_ERROR(device->Launch(call, stream));
//   STOWAGE_ASSIGN_OR_RETURN(DeviceGraph graph, device->EndCapture(stream));
//   STOWAGE_RETURN_IF_ERROR(device->LaunchGraph(graph, stream));
//
// Work on one stream runs in the order in which it was enqueued; work on different streams is
// ordered by events only. A failure on the device may be reported by any later call. Errors
// are kDevice, begin with [gpu] and name the request.

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

// Opaque handles.
struct Stream {
  void* handle = nullptr;
};
struct Event {
  void* handle = nullptr;
};
struct DeviceGraph {
  void* handle = nullptr;
};

/// Selects which body of a branch in a graph runs. Kernels of the graph set it
/// (gpu/step_kernels.h).
struct GraphChoice {
  uint64_t handle = 0;
};

/// Host memory that the device can access.
struct PinnedBlock {
  std::byte* host = nullptr;    // its address on the host
  std::byte* device = nullptr;  // its address on the device
};

struct DeviceTraits {
  std::string name;  // "NVIDIA H200"
  int major = 0;     // of its compute capability
  int minor = 0;
  std::string runtime;         // "driver for CUDA 13.0, runtime 13.0"
  std::string software;        // that, and "cuBLASLt 130100"
  std::string matmul_library;  // the file that was loaded
  bool tensor_maps = false;    // whether its driver encodes tensor maps
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

  /// This rank, and the number of ranks whose devices were joined when it was opened.
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// A block aligned to 256. Error: the bytes needed, free and in total.
  virtual Result<std::byte*> Allocate(Bytes bytes) = 0;
  virtual void Free(std::byte* block) noexcept = 0;
  virtual Result<PinnedBlock> AllocatePinned(Bytes bytes) = 0;
  virtual void FreePinned(const PinnedBlock& block) noexcept = 0;

  virtual Result<Stream> CreateStream() = 0;
  virtual void Destroy(Stream stream) noexcept = 0;
  virtual Result<Event> CreateEvent() = 0;
  virtual void Destroy(Event event) noexcept = 0;

  // The functions from here to Exchange allocate nothing, unless they fail. An event that was
  // never recorded counts as passed.

  /// `event` passes when all work now on `stream` is done.
  virtual Status Record(Event event, Stream stream) = 0;
  /// Work enqueued on `stream` from now on waits until `event` has passed.
  virtual Status Await(Stream stream, Event event) = 0;
  /// Blocks until the event has passed, or all work on the stream is done.
  virtual Status Synchronize(Event event) = 0;
  virtual Status Synchronize(Stream stream) = 0;

  /// Copies between device, pinned and pageable memory. Pageable memory may be reused after
  /// the stream has been synchronized.
  virtual Status Copy(void* to, const void* from, Bytes bytes,
                      Stream stream) = 0;
  virtual Status Fill(std::byte* to, uint8_t value, Bytes bytes,
                      Stream stream) = 0;
  virtual Status Launch(const KernelCall& call, Stream stream) = 0;
  /// Uses the algorithm that Prepare chose for the call's shape.
  virtual Status MatMul(const MatMulCall& call, Stream stream) = 0;
  /// See Queue::Exchange. If a rank is lost, the stream may never finish.
  virtual Status Exchange(std::span<const PeerMessages> messages,
                          Stream stream) = 0;

  /// The encoded description of an array for kernels (gpu/tensor_map.h). Errors: the device
  /// has no tensor maps (traits()), or refuses this array.
  virtual Result<TensorMap> Encode(const TensorMapSpec& spec) = 0;

  /// Loads the kernel and permits the shared memory of the call. Call this before a capture,
  /// since loading may allocate.
  virtual Status Prepare(const KernelCall& call) = 0;
  /// Chooses and keeps an algorithm for the shape, strides and alignment of the call that
  /// fits its workspace, always the same, and runs it once on `stream`, before a capture.
  /// Error kUnsupported: the library lacks the epilogue.
  virtual Status Prepare(const MatMulCall& call, Stream stream) = 0;
  /// Whether a matmul of that shape and epilogue was prepared.
  virtual bool IsPrepared(const MatMulCall& call) const = 0;
  /// The seconds that the work which `give` enqueues on the stream takes, by the device's
  /// clock; waits for it. Not in a capture. Errors: those of `give` and of its work.
  virtual Result<double> Time(Stream stream,
                              const std::function<Status()>& give) = 0;

  /// Until EndCapture, work enqueued on `stream` is captured, not run.
  virtual Status BeginCapture(Stream stream) = 0;
  /// The captured work, ready to be launched.
  virtual Result<DeviceGraph> EndCapture(Stream stream) = 0;
  virtual Status LaunchGraph(DeviceGraph graph, Stream stream) = 0;
  virtual void Destroy(DeviceGraph graph) noexcept = 0;

  // Branches inside a graph:
  //
  //   STOWAGE_ASSIGN_OR_RETURN(const GraphChoice choice, device->NewChoice(stream));
  //   ...                                      // includes a kernel that sets the choice
  //   device->BeginBranch(choice, 2, stream);
  //   ...                                      // the first body
  //   device->NextBody(stream);
  //   ...                                      // the second, which may contain branches
  //   device->NextBody(stream);
  //   ...                                      // what follows the branch
  //
  // Preconditions: other streams that joined the capture have been waited for where a part of
  // the graph begins or ends; nothing more is enqueued after an error, and the graph of
  // EndCapture is then incomplete.

  /// Error kUnsupported: graphs of this device have no branches; why.
  virtual Status HasBranches() const = 0;
  /// In a capture: a choice for one branch.
  virtual Result<GraphChoice> NewChoice(Stream stream) = 0;
  /// In a capture: begins a branch of `bodies` bodies, of which body `choice` runs, or none
  /// if there is none of this number. Work enqueued on `stream` from now on is body 0.
  virtual Status BeginBranch(GraphChoice choice, size_t bodies,
                             Stream stream) = 0;
  /// In a body: work enqueued on `stream` from now on is the next body; after the last body,
  /// it follows the branch.
  virtual Status NextBody(Stream stream) = 0;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_DEVICE_H_

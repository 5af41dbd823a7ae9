#ifndef STOWAGE_GPU_DEVICE_H_
#define STOWAGE_GPU_DEVICE_H_

// Defines Device, the interface of a GPU: memory, streams and events, copies, kernel launches,
// matmuls and messages between the GPUs of ranks. A Device can also capture such work in a graph,
// which is then launched many times. gpu/cuda_device.h implements the interface with CUDA. Tests
// implement it in host memory and record every call.
//
//   STOWAGE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenCudaDevice({}));
//   STOWAGE_ASSIGN_OR_RETURN(Stream stream, device->CreateStream());
//   STOWAGE_RETURN_IF_ERROR(device->Prepare(call));
//   STOWAGE_RETURN_IF_ERROR(device->BeginCapture(stream));
//   STOWAGE_RETURN_IF_ERROR(device->Launch(call, stream));
//   STOWAGE_ASSIGN_OR_RETURN(DeviceGraph graph, device->EndCapture(stream));
//   STOWAGE_RETURN_IF_ERROR(device->LaunchGraph(graph, stream));
//
// Work on one stream runs in the order in which it was enqueued. Only events order the work of
// different streams. A failure on the device may be reported by any later call. Errors are kDevice
// unless noted. Their messages begin with [gpu] and name the request.

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

/// A variable in a graph that selects the body of a branch. Kernels of the graph set it
/// (gpu/step_kernels.h).
struct GraphChoice {
  uint64_t handle = 0;
};

/// Host memory that the device can access.
struct PinnedBlock {
  std::byte* host = nullptr;    // address on the host
  std::byte* device = nullptr;  // address on the device
};

struct DeviceTraits {
  std::string name;  // "NVIDIA H200"
  int major = 0;     // compute capability
  int minor = 0;
  std::string runtime;         // "driver for CUDA 13.0, runtime 13.0"
  std::string software;        // `runtime`, and cuBLASLt's and NCCL's versions
  std::string matmul_library;  // the path of the loaded library
  bool tensor_maps = false;    // whether the driver encodes tensor maps
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

  /// rank() returns the rank of this device. ranks() returns the number of ranks whose devices were
  /// connected when this device was opened.
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Returns a block aligned to 256 bytes. If memory is exhausted, the error reports the bytes
  /// requested, free and in total.
  virtual Result<std::byte*> Allocate(Bytes bytes) = 0;
  virtual void Free(std::byte* block) noexcept = 0;
  virtual Result<PinnedBlock> AllocatePinned(Bytes bytes) = 0;
  virtual void FreePinned(const PinnedBlock& block) noexcept = 0;

  virtual Result<Stream> CreateStream() = 0;
  virtual void Destroy(Stream stream) noexcept = 0;
  virtual Result<Event> CreateEvent() = 0;
  virtual void Destroy(Event event) noexcept = 0;

  // The functions from Record to Exchange allocate no memory unless they fail. An event that was
  // never recorded counts as complete.

  /// Records `event`, which completes when all work enqueued on `stream` so far is done.
  virtual Status Record(Event event, Stream stream) = 0;
  /// Makes work enqueued on `stream` after this call wait until `event` completes.
  virtual Status Await(Stream stream, Event event) = 0;
  /// Block until the event completes, or until all work on the stream is done.
  virtual Status Synchronize(Event event) = 0;
  virtual Status Synchronize(Stream stream) = 0;

  /// Enqueues a copy between any of device, pinned and pageable memory. Pageable memory may be
  /// reused only after the stream has been synchronized.
  virtual Status Copy(void* to, const void* from, Bytes bytes,
                      Stream stream) = 0;
  virtual Status Fill(std::byte* to, uint8_t value, Bytes bytes,
                      Stream stream) = 0;
  virtual Status Launch(const KernelCall& call, Stream stream) = 0;
  /// Enqueues a matmul, which must have been prepared, with the algorithm that Prepare chose.
  virtual Status MatMul(const MatMulCall& call, Stream stream) = 0;
  /// Enqueues the messages (Queue::Exchange). If a rank is lost, the work on the stream may never
  /// complete.
  virtual Status Exchange(std::span<const PeerMessages> messages,
                          Stream stream) = 0;

  /// Returns the encoding of a tensor map, which is passed to kernels (gpu/tensor_map.h). Returns
  /// an error if the device does not support tensor maps (DeviceTraits::tensor_maps) or rejects
  /// this one.
  virtual Result<TensorMap> Encode(const TensorMapSpec& spec) = 0;

  /// Loads the kernel and permits it to use the shared memory of the call. Must be called before
  /// the first Launch of the kernel is captured, since loading may allocate memory.
  virtual Status Prepare(const KernelCall& call) = 0;
  /// Chooses an algorithm for the shape, strides, epilogue, workspace size and alignments of the
  /// call, and runs it once on `stream`. Later matmuls for which all of these are equal use this
  /// algorithm. Must be called before a capture. Returns kUnsupported if the library lacks the
  /// epilogue. With an autotune cache, also returns kInvalidArgument if a stored algorithm cannot
  /// run, and propagates errors of AutotuneCache::Keep.
  virtual Status Prepare(const MatMulCall& call, Stream stream) = 0;
  /// Returns whether Prepare has chosen the algorithm of this matmul.
  virtual bool IsPrepared(const MatMulCall& call) const = 0;
  /// Calls `give`, which must enqueue work on `stream`, waits for the work, and returns its
  /// duration in seconds, measured with the device's clock. Must not be called in a capture.
  /// Propagates errors of `give` and of the work.
  virtual Result<double> Time(Stream stream,
                              const std::function<Status()>& give) = 0;

  /// Begins a capture. Until EndCapture, work enqueued on `stream` is captured instead of run.
  virtual Status BeginCapture(Stream stream) = 0;
  /// Returns the captured work, which is ready to be launched.
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
  // Wherever a branch or one of its bodies begins or ends, `stream` must first wait for all other
  // streams that joined the capture. After an error, nothing more may be enqueued, and EndCapture
  // returns an error or an incomplete graph.

  /// Returns kUnsupported, with the reason, if graphs of this device do not support branches.
  virtual Status HasBranches() const = 0;
  /// Returns a variable that selects the body of one branch. Must be called in a capture.
  virtual Result<GraphChoice> NewChoice(Stream stream) = 0;
  /// Begins a branch with `bodies` bodies. Work enqueued on `stream` after this call is body 0.
  /// When the graph runs, the body whose index `choice` holds is executed, or none if there is no
  /// such body. Must be called in a capture.
  virtual Status BeginBranch(GraphChoice choice, size_t bodies,
                             Stream stream) = 0;
  /// Ends the current body. Work enqueued on `stream` after this call belongs to the next body,
  /// or follows the branch if this was the last body.
  virtual Status NextBody(Stream stream) = 0;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_DEVICE_H_

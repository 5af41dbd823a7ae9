#ifndef STOWAGE_RUNTIME_BACKEND_H_
#define STOWAGE_RUNTIME_BACKEND_H_

// Defines the interface of a device: memory, copies, the workspace of its kernels, and the
// execution of a bound program. The CPU backend (cpu/cpu_backend.h) is always available. The
// GPU backend is in gpu/gpu_backend.h.
//
//   Plan plan = *PlanMemory(step, {.device = backend.Needs()});
//   Session session = *Session::Create({{"train", step, plan}}, backend);

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/tensor_type.h"
#include "planner/lifetimes.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace stowage {

// Collectives exchanges values between the ranks of a step, for the kernels of collective ops.
// Implementations use threads of one process, MPI or another network.
//
// All ranks must make the same calls in the same order. A value is divided into equal blocks, one
// per rank, in order of rank. If the number of elements is not a multiple of the number of ranks,
// the last blocks are shorter or empty.
//
//   if (!collectives.AllReduce(DType::kF32, gradient, scratch)) {
//     return StepCode::kRankLost;
//   }

/// The collectives of one rank. Implementations allocate nothing after construction. The caller
/// makes one call at a time, but may call from different threads. A call returns false if a rank or
/// the link to it is lost. All later calls may then fail. The scratch of a call must have at least
/// the size that CollectiveScratch returns, and must be aligned to 64 bytes.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Sums `values` over the ranks in place and in rank order, as ((v0 + v1) + v2). Each partial sum
  /// is rounded to the type. The result is therefore the same in every run, and bit-equal to the
  /// result of one rank that accumulates gradients over the same number of micro-batches. Supports
  /// floats, i32 and i64.
  virtual bool AllReduce(DType dtype, std::span<std::byte> values,
                         std::span<std::byte> scratch) noexcept = 0;

  /// Computes the same sums as AllReduce, but writes only this rank's block, to the front of
  /// `block`. The size of `block` determines the size of a full block. It must be equal on all
  /// ranks, and at least the size of `values` divided by the number of ranks. If this rank's block
  /// is shorter, the remaining bytes of `block` do not change.
  virtual bool ReduceScatter(DType dtype, std::span<const std::byte> values,
                             std::span<std::byte> block,
                             std::span<std::byte> scratch) noexcept = 0;

  /// Gathers the blocks of all ranks into `values`. A full block has `block.size()` bytes, which
  /// must be equal on all ranks. The block of rank r begins at byte r * block.size() of `values`.
  /// `block` and `values` must not overlap.
  virtual bool AllGather(std::span<const std::byte> block,
                         std::span<std::byte> values) noexcept = 0;
};

/// Returns the scratch size of AllReduce for `bytes` bytes of values, or of ReduceScatter for full
/// blocks of `bytes` bytes in total. The scratch has space for one chunk from each other rank. A
/// chunk is a block, or 256 KiB of it if it is larger, rounded up to a multiple of 64 bytes.
inline Bytes CollectiveScratch(Bytes bytes, int64_t ranks) {
  constexpr Bytes kMaxChunk = Bytes{256} << 10;
  const Bytes block = (bytes + ranks - 1) / ranks;
  const Bytes chunk = (std::min(block, kMaxChunk) + 63) / 64 * 64;
  return (ranks - 1) * chunk;
}

// OneRank provides the collectives of a step with one rank. The sum over the ranks is the rank's
// value, and a block is the whole value.
//
//   OneRank alone;
//   alone.AllGather(block, values);  // Copies `block`.

class OneRank final : public Collectives {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }

  bool AllReduce(DType, std::span<std::byte>,
                 std::span<std::byte>) noexcept override {
    return true;
  }
  bool ReduceScatter(DType, std::span<const std::byte> values,
                     std::span<std::byte> block,
                     std::span<std::byte>) noexcept override {
    return AllGather(values, block);
  }
  bool AllGather(std::span<const std::byte> block,
                 std::span<std::byte> values) noexcept override {
    if (!values.empty())
      std::memcpy(values.data(), block.data(), values.size());
    return true;
  }
};

/// The maximum number of steps of one program that are in flight. The results of this number of
/// steps are kept.
inline constexpr uint64_t kStepsInFlight = 4;

/// A program bound to a device, with selected kernels and fixed addresses.
class Executable {
 public:
  virtual ~Executable() = default;

  /// Runs launches [first, last) of the program in order and waits for them. If `first` is 0, the
  /// step uses the inputs as they were last written. Allocates nothing and throws nothing. On
  /// failure, sets *failed to the index of the launch that failed, or to the number of launches if
  /// the failure is not due to one launch.
  virtual StepCode Run(size_t first, size_t last, size_t* failed) noexcept = 0;

  /// Runs only launch `index`, for sessions that poison (SessionOptions::poison). If the launch has
  /// bodies, and the device supports it, fills buffers in the bodies with `poison` when they die.
  virtual StepCode RunPoisoned(size_t index, uint8_t /*poison*/,
                               size_t* failed) noexcept {
    return Run(index, index + 1, failed);
  }

  /// Starts all launches as step `step`, and returns true before they are done. The step that was
  /// started kStepsInFlight steps earlier must be done. A synchronous device does nothing and
  /// returns false. The caller must then use Run. Allocates nothing and throws nothing.
  virtual bool Start(uint64_t) noexcept { return false; }
  /// Waits for one of the last kStepsInFlight started steps, but not for later steps. Writes
  /// the values of Program::scalars() to `scalars`. Sets *failed as Run does. Allocates nothing
  /// and throws nothing.
  virtual StepCode Wait(uint64_t /*step*/, std::span<float> /*scalars*/,
                        size_t* /*failed*/) noexcept {
    return StepCode::kStepUnknown;
  }

  // WriteInput sets the content of an input for all steps that are started later. ReadInput reads
  // this content. The size of `data` must be the size of the input's type. Neither function
  // allocates.
  virtual void WriteInput(ValueId input, std::span<const std::byte> data) = 0;
  virtual void ReadInput(ValueId input, std::span<std::byte> data) const = 0;

  /// Returns the device's message for a kDeviceFault.
  virtual std::string fault() const { return {}; }
};

/// Memory that a backend uses outside the arena.
struct MemoryNote {
  std::string what;
  Bytes bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  /// Returns a description of the device for users.
  virtual std::string description() const { return std::string(name()); }
  /// Returns the name and all other properties on which workspace sizes depend
  /// (DeviceNeeds::device).
  virtual std::string planned_for() const { return std::string(name()); }

  /// Returns true if the device is asynchronous: Executable::Start returns before the step is done.
  virtual bool works_on_its_own() const { return false; }

  /// Returns the workspace bytes of the kernel for `node`. The plan must include this
  /// workspace.
  virtual Bytes Workspace(const Graph& graph, const Node& node) const = 0;

  /// Returns the number of bytes that the backend reserves in the arena in addition to the values
  /// of `graph`. The plan must include these bytes, at a multiple of `alignment`.
  virtual Bytes Reserve(const Graph&, Bytes /*alignment*/) const { return 0; }
  /// Returns the ops that the kernels fuse into one node.
  virtual Fusions FusesOps() const { return {}; }
  /// Returns the requirements of the preceding functions, for PlanOptions::device. The result must
  /// not be used after this object is destroyed.
  DeviceNeeds Needs() const {
    return {.workspace =
                [this](const Graph& graph, const Node& node) {
                  return Workspace(graph, node);
                },
            .reserve =
                [this](const Graph& graph, Bytes alignment) {
                  return Reserve(graph, alignment);
                },
            .fusions = FusesOps(),
            .device = planned_for()};
  }

  /// Returns kUnsupported if the backend has no kernel for a node. The message names the first
  /// such node.
  virtual Status Supports(const Graph& graph) const = 0;

  /// Returns kDevice if the device can never allocate an arena of `budget` bytes, for example
  /// because it has less memory.
  virtual Status CheckBudget(Bytes /*budget*/) const { return {}; }
  /// Returns kInvalidArgument if the caller's bytes cannot be used as the arena, for example
  /// because they are not memory of the device.
  virtual Status CheckArena(std::span<std::byte>) const { return {}; }

  /// Allocates one block of at least `bytes` bytes at a multiple of `alignment`. Returns
  /// kDevice if the allocation fails. The caller must release the block with Free.
  virtual Result<std::byte*> Allocate(Bytes bytes, Bytes alignment) = 0;
  virtual void Free(std::byte* block, Bytes bytes,
                    Bytes alignment) noexcept = 0;

  /// Allocates host memory for the copies of reload and offload kernels, at a multiple of
  /// `alignment`. The caller may access it only with WriteHost, ReadHost and FillHost, because it
  /// may be a file (runtime/host_file.h), and must release it with FreeHost.
  virtual Result<std::byte*> AllocateHost(Bytes bytes, Bytes alignment) = 0;
  virtual void FreeHost(std::byte* block, Bytes bytes,
                        Bytes alignment) noexcept = 0;

  // WriteHost and ReadHost copy between the caller's memory and host memory. FillHost sets all
  // bytes to `value`. These functions allocate nothing. No running step may access the bytes. They
  // return kDevice on failure.
  virtual Status WriteHost(std::byte* host, std::span<const std::byte> from) {
    if (!from.empty()) std::memcpy(host, from.data(), from.size());
    return {};
  }
  virtual Status ReadHost(std::span<std::byte> to, const std::byte* host) {
    if (!to.empty()) std::memcpy(to.data(), host, to.size());
    return {};
  }
  virtual Status FillHost(std::byte* host, Bytes bytes, uint8_t value) {
    std::memset(host, value, static_cast<size_t>(bytes));
    return {};
  }

  // CopyIn and CopyOut copy between the caller's memory and the device's memory. FillBytes sets all
  // bytes to `value`. These functions first wait for all steps that were started, and allocate
  // nothing. They return kDevice on failure.
  virtual Status CopyIn(std::byte* device, std::span<const std::byte> host) = 0;
  virtual Status CopyOut(std::span<std::byte> host,
                         const std::byte* device) = 0;
  virtual Status FillBytes(std::byte* device, Bytes bytes, uint8_t value) = 0;

  /// Binds `program`, which must outlive the executable.
  virtual Result<std::unique_ptr<Executable>> Bind(const Program& program) = 0;

  /// Returns the memory that the backend currently uses outside arenas.
  virtual std::vector<MemoryNote> MemoryBesideArena() const { return {}; }
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_BACKEND_H_

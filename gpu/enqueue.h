#ifndef STOWAGE_GPU_ENQUEUE_H_
#define STOWAGE_GPU_ENQUEUE_H_

// Enqueues the launches of a program (runtime/kernel.h) on the streams of a device.
//
//   DeviceQueue queue(device, stream, fault_word, DeviceQueue::Mode::kRun);
//   EnqueueLaunches(program.launches(), queue);
//   Status status = queue.Finish(program);

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "base/result.h"
#include "gpu/device.h"
#include "gpu/queue.h"
#include "gpu/step_graphs.h"
#include "gpu/tensor_map.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace stowage::gpu {

/// A queue that enqueues its work on a stream of a device.
class DeviceQueue final : public Queue {
 public:
  enum class Mode {
    kRun,      // enqueues the work on the stream
    kPrepare,  // only prepares the device for the work (Device::Prepare)
  };
  /// `fault_word` is the device address where kernels report faults.
  DeviceQueue(Device& device, Stream stream, uint32_t* fault_word, Mode mode)
      : device_(device), stream_(stream), word_(fault_word), mode_(mode) {}

  void Launch(const KernelCall& call) override;
  void MatMul(const MatMulCall& call) override;
  bool Takes(const MatMulCall& call) override;
  void Fill(std::byte* to, uint8_t value, Bytes bytes) override;
  void Copy(std::byte* to, const std::byte* from, Bytes bytes) override;
  int rank() const override { return device_.rank(); }
  void Exchange(std::span<const PeerMessages> messages) override;
  AttentionAlgorithm ChooseAttention(const stowage::Launch& launch,
                                     AttentionAlgorithms algorithms) override;
  TensorMap Encode(const TensorMapSpec& spec) override;
  FaultSlot fault() const override { return {word_, launch_}; }

  /// A function that chooses the algorithm of an attention launch. If it is not set, the first
  /// supported algorithm is used.
  using AttentionChoice = std::function<Result<AttentionAlgorithm>(
      const stowage::Launch&, AttentionAlgorithms)>;
  void set_attention(AttentionChoice choice) { attention_ = std::move(choice); }

  /// Sets the word of host memory to which branches write the index of the chosen body. `on_device`
  /// and `on_host` are its addresses on the device and on the host. `capture` is the step that is
  /// being captured. If it is null, no step is captured, and Branch waits for the index and
  /// enqueues only the chosen body.
  void set_choice(uint32_t* on_device, const uint32_t* on_host,
                  StepGraphs* capture = nullptr) {
    chosen_on_device_ = on_device;
    chosen_ = on_host;
    capture_ = capture;
  }
  /// Enqueues a branch with `bodies` bodies. The scalar `index`, which is i32, i64 or bool, selects
  /// the body. `give(i)` must enqueue body `i`.
  void Branch(const TensorView& index, size_t bodies,
              const std::function<void(size_t)>& give);
  /// Calls `give`, which must enqueue work. If branches are in the graph, the work runs only if the
  /// step has had no fault so far. If the host takes branches, the work always runs, since an
  /// invalid choice has already ended the step.
  void UnlessFault(const std::function<void()>& give);
  /// Returns whether a branch in the graph was enqueued earlier.
  bool goes_on_behind_branches() const { return goes_on_; }

  /// Returns the stream on which work is enqueued.
  Stream stream() const { return stream_; }
  void set_stream(Stream stream) { stream_ = stream; }
  /// Sets the index of the launch that the following work belongs to.
  void set_launch(size_t launch) { launch_ = static_cast<uint32_t>(launch); }

  /// If `status` is the first error, stores it with the index of the current launch. Nothing is
  /// enqueued after an error.
  void Note(const Status& status);
  /// Returns the first error, without the node that caused it.
  const Status& status() const { return status_; }
  /// Returns the first error, with the node that caused it.
  Status Finish(const Program& program) const;

 private:
  bool BranchesInGraph() const {
    return capture_ != nullptr &&
           capture_->branches() == StepGraphs::Branches::kInGraph;
  }
  // Enqueues a branch in the graph. `choose` must enqueue the work that sets the choice.
  void BranchInGraph(const std::function<void(GraphChoice)>& choose,
                     size_t bodies, const std::function<void(size_t)>& give);

  Device& device_;
  Stream stream_;
  uint32_t* const word_;
  const Mode mode_;
  AttentionChoice attention_;
  uint32_t launch_ = 0;
  uint32_t* chosen_on_device_ = nullptr;
  const uint32_t* chosen_ = nullptr;
  StepGraphs* capture_ = nullptr;
  bool goes_on_ = false;
  Status status_;
  uint32_t failed_ = 0;
};

/// Enqueues one launch. For a loop, enqueues the launches of its body for each iteration, with the
/// addresses of that iteration. For a cond, enqueues a branch with its bodies.
void EnqueueLaunch(const Launch& launch, DeviceQueue& queue);

/// Returns whether the launches or their bodies contain a branch.
bool HasBranches(std::span<const Launch> launches);

/// The streams that run concurrently with the queue's own stream.
struct SideStreams {
  SideStream copies;     // copies between arena and host
  SideStream exchanges;  // collectives between ranks

  /// CountCopies and CountExchanges return the number of launches that run on `copies` and on
  /// `exchanges`. A launch in the body of a loop counts once, since all launches of an iteration
  /// complete before the next iteration begins.
  static size_t CountCopies(std::span<const Launch> launches);
  static size_t CountExchanges(std::span<const Launch> launches);

  /// Returns the stream on which `launch` runs, or null for the queue's own stream.
  SideStream* Of(const Launch& launch);
  Status WaitBefore(const Launch& launch);
  Status WaitForAll();
};

/// Enqueues all launches in order. Consecutive launches of an op with `enqueue_many` are enqueued
/// in one call. If `beside` is not null, its streams run the copies between arena and host, and the
/// collectives. This includes copies in bodies, and collectives in bodies that also contain copies.
/// Launches that depend on them wait for them, and the end of a body waits for all of its launches.
/// After branches in the graph, launches that update values that outlive the step do nothing in a
/// step with a fault (FaultSlot in gpu/queue.h), except collectives.
void EnqueueLaunches(std::span<const Launch> launches, DeviceQueue& queue,
                     SideStreams* beside = nullptr);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ENQUEUE_H_

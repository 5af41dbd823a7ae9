#ifndef STOWAGE_GPU_ENQUEUE_H_
#define STOWAGE_GPU_ENQUEUE_H_

// Enqueues the launches of a program as work on the streams of a device.
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

/// A queue on a stream of a device.
class DeviceQueue final : public Queue {
 public:
  enum class Mode {
    kRun,      // enqueues the work on the stream
    kPrepare,  // prepares the device for the work, before a capture
  };
  /// `fault_word`: where kernels report faults, on the device.
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

  /// Chooses the algorithms of attention; without it, the first is used.
  using AttentionChoice = std::function<Result<AttentionAlgorithm>(
      const stowage::Launch&, AttentionAlgorithms)>;
  void set_attention(AttentionChoice choice) { attention_ = std::move(choice); }

  /// Where branches write the chosen body: host memory, by its address on the device and on
  /// the host. `capture` is the step that is captured; without it a chosen body runs at once.
  void set_choice(uint32_t* on_device, const uint32_t* on_host,
                  StepGraphs* capture = nullptr) {
    chosen_on_device_ = on_device;
    chosen_ = on_host;
    capture_ = capture;
  }
  /// Enqueues a branch of `bodies` bodies, of which the scalar `index` selects one; give(i)
  /// enqueues body i.
  void Branch(const TensorView& index, size_t bodies,
              const std::function<void(size_t)>& give);
  /// Enqueues the work of `give` to run only in steps without a fault so far. For branches in
  /// the graph; with branches taken by the host, a step with a fault ends earlier.
  void UnlessFault(const std::function<void()>& give);
  /// Whether a branch in the graph was enqueued before.
  bool goes_on_behind_branches() const { return goes_on_; }

  /// The stream on which work is enqueued.
  Stream stream() const { return stream_; }
  void set_stream(Stream stream) { stream_ = stream; }
  /// The launch to which the following work belongs.
  void set_launch(size_t launch) { launch_ = static_cast<uint32_t>(launch); }

  /// Keeps the first error and its launch.
  void Note(const Status& status);
  /// The first error as it was noted.
  const Status& status() const { return status_; }
  /// The first error, with the node that caused it.
  Status Finish(const Program& program) const;

 private:
  bool BranchesInGraph() const {
    return capture_ != nullptr &&
           capture_->branches() == StepGraphs::Branches::kInGraph;
  }
  // `choose` enqueues the work that sets the choice.
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

/// Enqueues one launch. A loop is all launches of its body, in order, for each iteration with
/// the addresses of that iteration; a cond is a branch to the launches of its bodies.
void EnqueueLaunch(const Launch& launch, DeviceQueue& queue);

/// Whether a branch is among the launches or in their bodies.
bool HasBranches(std::span<const Launch> launches);

/// The streams besides the queue's own.
struct SideStreams {
  SideStream copies;     // between arena and host
  SideStream exchanges;  // between ranks

  /// The launches that run on either stream. Those in bodies count once, since the launches
  /// of an iteration have been waited for when the next one begins.
  static size_t CountCopies(std::span<const Launch> launches);
  static size_t CountExchanges(std::span<const Launch> launches);

  /// The stream on which `launch` runs; null: the queue's own.
  SideStream* Of(const Launch& launch);
  Status WaitBefore(const Launch& launch);
  Status WaitForAll();
};

/// Enqueues all launches in order; consecutive launches of an op with enqueue_many in one
/// call. With `beside`, copies between arena and host and exchanges, those in bodies too, run
/// on its streams; launches that depend on them wait, and the end of a body waits for those
/// of its iteration. After branches in the graph, a step with a fault does not write values
/// that outlive it.
void EnqueueLaunches(std::span<const Launch> launches, DeviceQueue& queue,
                     SideStreams* beside = nullptr);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ENQUEUE_H_

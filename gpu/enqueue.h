#ifndef STOWAGE_GPU_ENQUEUE_H_
#define STOWAGE_GPU_ENQUEUE_H_

// From launches to work on a stream.
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
#include "gpu/attention_algorithms.h"
#include "gpu/device.h"
#include "gpu/queue.h"
#include "gpu/side_stream.h"
#include "gpu/step_graphs.h"
#include "gpu/tensor_map.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace stowage::gpu {

/// A queue on a device's stream.
class DeviceQueue final : public Queue {
 public:
  enum class Mode {
    kRun,      // gives the work to the stream
    kPrepare,  // prepares the device for it: before a capture
  };
  /// `fault_word`: where kernels report, on the device.
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
                                     AttentionAlgorithms ways) override;
  TensorMap Encode(const TensorMapSpec& spec) override;
  FaultSlot fault() const override { return {word_, launch_}; }

  /// Who chooses the ways of attention; at first, nobody: the first is taken.
  using AttentionChoice = std::function<Result<AttentionAlgorithm>(
      const stowage::Launch&, AttentionAlgorithms)>;
  void set_attention(AttentionChoice choice) { attention_ = std::move(choice); }

  /// Where a branch tells which body it has come to, in memory of the host as the device
  /// sees it and as the host does; and, while a step is captured, what of: without it
  /// the body that was chosen runs at once.
  void set_choice(uint32_t* on_device, const uint32_t* on_host,
                  StepGraphs* capture = nullptr) {
    chosen_on_device_ = on_device;
    chosen_ = on_host;
    capture_ = capture;
  }
  /// One of so many bodies, each of which `give` gives to this queue, as the scalar
  /// `index` chooses.
  void Branch(const TensorView& index, size_t bodies,
              const std::function<void(size_t)>& give);
  /// What `give` gives to this queue, in a step that comes here without a bad index. Where
  /// branches are in the graph; elsewhere a step with a bad choice does not come here.
  void UnlessFault(const std::function<void()>& give);
  /// Whether a branch in the graph was given before.
  bool goes_on_behind_branches() const { return goes_on_; }

  /// The stream that what follows is given to.
  Stream stream() const { return stream_; }
  void set_stream(Stream stream) { stream_ = stream; }
  /// The launch to which what follows belongs.
  void set_launch(size_t launch) { launch_ = static_cast<uint32_t>(launch); }

  /// Keeps the first error, and that it befell the launch.
  void Note(const Status& status);
  /// The first error, as it was noted.
  const Status& status() const { return status_; }
  /// The first error, with the node that it befell.
  Status Finish(const Program& program) const;

 private:
  bool BranchesInGraph() const {
    return capture_ != nullptr &&
           capture_->branches() == StepGraphs::Branches::kInGraph;
  }
  // `choose` gives what sets the choice.
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

/// Enqueues one launch: that of a loop as all launches of its body, in order, for each
/// iteration, with the addresses of that iteration; that of a cond as a branch, to the launches of
/// one body.
void EnqueueLaunch(const Launch& launch, DeviceQueue& queue);

/// Whether a branch is among the launches, or in what they repeat.
bool HasBranches(std::span<const Launch> launches);

/// The streams beside a queue's own, and what runs on each.
struct SideStreams {
  SideStream copies;     // between arena and host
  SideStream exchanges;  // between ranks

  /// How many launches run on either; those in bodies once, since those of an iteration have
  /// been waited for when the next one begins.
  static size_t CountCopies(std::span<const Launch> launches);
  static size_t CountExchanges(std::span<const Launch> launches);

  /// Where `launch` runs; null: on the queue's own.
  SideStream* Of(const Launch& launch);
  Status WaitBefore(const Launch& launch);
  Status WaitForAll();
};

/// Enqueues all launches in order; consecutive ones of an op whose kernel takes
/// many in one call. Copies between arena and host, those in bodies too, and exchanges, go
/// beside the others where `beside` is not null, and are waited for by whatever must come
/// after them; those of a body by its end, which is that of each iteration. Behind
/// branches in the graph, what outlives a step is not written in one with a fault.
void EnqueueLaunches(std::span<const Launch> launches, DeviceQueue& queue,
                     SideStreams* beside = nullptr);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ENQUEUE_H_

#ifndef STOWAGE_TESTS_GPU_FAKE_DEVICE_H_
#define STOWAGE_TESTS_GPU_FAKE_DEVICE_H_

// Implements gpu::Device on the CPU, in host memory. Kernels run in the emulator or in the PTX
// interpreter, depending on how the program is linked (tests/gpu/grid_runner.h), and matmuls are
// plain loops. Every call is counted, and calls fail on request. The device also enforces the
// rules of a real one. For example, kernels must be prepared before they are launched, a capture
// may contain only work, and every operand of a matmul must be inside one allocation.
//
// Only one thread may use a device, and that thread also executes the work of its streams. The
// devices of several ranks, each on its own thread, are connected by a link (cluster/link.h).
//
// A stream may be lazy. Its work is then executed as late as the rules allow, which is when
// another stream or the host waits for it. A step that reads its inputs too early, or overwrites
// inputs of another step too early, then gives a different result.
//
//   FakeDevice* fake = nullptr;
//   auto backend = MakeFakeBackend({.lazy_compute = true}, &fake);
//   ... CHECK(fake->calls("Allocate") == 1);

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cluster/link.h"
#include "gpu/device.h"
#include "gpu/gpu_backend.h"
#include "gpu/queue.h"
#include "gpu/tensor_map.h"
#include "runtime/backend.h"

namespace stowage::testing {

/// The behavior of branches in captured graphs.
enum class FakeBranches {
  kNone,   // branches are unsupported
  kRight,  // the chosen body runs
  kNever,  // no body runs
  kFirst,  // the first body runs, even if another is chosen
  kLate,   // the chosen body runs at the end of the graph
};

struct FakeOptions {
  uint64_t seed = 0;  // selects the order in which threads run
  bool warp_by_warp = false;
  Bytes total = int64_t{1} << 30;
  size_t blocks = 1;               // maximum number of live allocations
  int major = 9, minor = 0;        // the compute capability
  bool tensor_maps = true;         // the driver can encode tensor maps
  bool lazy_compute = false;       // the first stream created is lazy
  bool lazy_copy = false;          // the second stream is lazy
  bool lazy_exchange = false;      // the third, for collectives, is lazy
  bool refuses_epilogues = false;  // supports no epilogue except an addend
  FakeBranches branches = FakeBranches::kRight;
  /// Connects the device of this rank to the fake devices of the other ranks. If null, there is
  /// only one rank. The thread that waits for the work of a stream calls it.
  cluster::Link* link = nullptr;
  gpu::BackendOptions backend = {};
};

/// A kernel in a captured graph, with its launch params.
struct CapturedKernel {
  std::string name;
  std::vector<std::byte> params;
};

class FakeDevice final : public gpu::Device {
 public:
  explicit FakeDevice(const FakeOptions& options);
  ~FakeDevice() override;

  /// Returns the number of calls of a function of Device, such as "Allocate" or "LaunchGraph".
  /// "Blocked" counts the times that the host waited for unfinished work.
  int64_t calls(const std::string& function) const;
  /// Returns the oldest live allocation, or an empty span.
  std::span<std::byte> arena() const {
    return blocks_.empty() ? std::span<std::byte>() : blocks_.front();
  }
  Bytes arena_bytes() const { return static_cast<Bytes>(arena().size()); }
  /// Returns the live pinned blocks, oldest first.
  const std::vector<std::span<std::byte>>& pinned() const { return pinned_; }
  /// Returns the kernels of all graphs, in the order in which they were captured.
  const std::vector<CapturedKernel>& captured() const { return captured_; }
  /// Returns the names of the kernels that ran, in order. "product" stands for a matmul, and
  /// "exchange" for messages between ranks.
  const std::vector<std::string>& executed() const { return executed_; }

  /// Makes the nth call of the function, counted from now, fail.
  void Fail(const std::string& function, int64_t nth = 1) {
    failing_[function] = nth;
  }
  /// Makes the device fail when this kernel runs next. All calls after that return an error, the
  /// first of them typically the call that waits for the kernel.
  void FailInKernel(const std::string& name) { faulty_kernel_ = name; }
  /// Makes the preparation of this kernel fail.
  void Refuse(const std::string& name) { refused_kernel_ = name; }
  /// Replaces this kernel with a function, which reads the kernel's params from the call.
  void Replace(const std::string& name,
               std::function<void(const gpu::KernelCall&)> run) {
    replaced_[name] = std::move(run);
  }
  /// Sets the duration that Time reports for this kernel. The default is a millisecond.
  void SetSeconds(const std::string& name, double seconds) {
    seconds_[name] = seconds;
  }

  const gpu::DeviceTraits& traits() const override { return traits_; }
  int rank() const override {
    return options_.link == nullptr ? 0 : options_.link->rank();
  }
  int ranks() const override {
    return options_.link == nullptr ? 1 : options_.link->ranks();
  }
  Result<gpu::DeviceMemory> Memory() override;
  Result<std::byte*> Allocate(Bytes bytes) override;
  void Free(std::byte* block) noexcept override;
  Result<gpu::PinnedBlock> AllocatePinned(Bytes bytes) override;
  void FreePinned(const gpu::PinnedBlock& block) noexcept override;
  Result<gpu::Stream> CreateStream() override;
  void Destroy(gpu::Stream stream) noexcept override;
  Result<gpu::Event> CreateEvent() override;
  void Destroy(gpu::Event event) noexcept override;
  Status Record(gpu::Event event, gpu::Stream stream) override;
  Status Await(gpu::Stream stream, gpu::Event event) override;
  Status Synchronize(gpu::Event event) override;
  Status Synchronize(gpu::Stream stream) override;
  Status Copy(void* to, const void* from, Bytes bytes,
              gpu::Stream stream) override;
  Status Fill(std::byte* to, uint8_t value, Bytes bytes,
              gpu::Stream stream) override;
  Status Launch(const gpu::KernelCall& call, gpu::Stream stream) override;
  Status MatMul(const gpu::MatMulCall& call, gpu::Stream stream) override;
  Status Exchange(std::span<const gpu::PeerMessages> messages,
                  gpu::Stream stream) override;
  Result<gpu::TensorMap> Encode(const gpu::TensorMapSpec& spec) override;
  Status Prepare(const gpu::KernelCall& call) override;
  Status Prepare(const gpu::MatMulCall& call, gpu::Stream stream) override;
  bool IsPrepared(const gpu::MatMulCall& call) const override;
  Result<double> Time(gpu::Stream stream,
                      const std::function<Status()>& give) override;
  Status BeginCapture(gpu::Stream stream) override;
  Result<gpu::DeviceGraph> EndCapture(gpu::Stream stream) override;
  Status LaunchGraph(gpu::DeviceGraph graph, gpu::Stream stream) override;
  void Destroy(gpu::DeviceGraph graph) noexcept override;
  Status HasBranches() const override;
  Result<gpu::GraphChoice> NewChoice(gpu::Stream stream) override;
  Status BeginBranch(gpu::GraphChoice choice, size_t bodies,
                     gpu::Stream stream) override;
  Status NextBody(gpu::Stream stream) override;

 private:
  using Work = std::function<void()>;
  // A branch in a captured graph.
  struct FakeBranch {
    uint32_t* choice = nullptr;
    std::vector<std::vector<Work>> bodies;
  };
  // A branch whose bodies are being captured.
  struct OpenBranch {
    std::shared_ptr<FakeBranch> branch;
    std::vector<Work>* around = nullptr;  // receives work after the branch
    size_t body = 0;
  };
  struct FakeStream {
    bool lazy = false;
    std::deque<Work> work;  // items that have not run
    uint64_t given = 0;     // number of items ever enqueued
    uint64_t done = 0;      // number of items that have run
    std::vector<Work>* capture = nullptr;
    // The capture of another stream that this stream has joined by waiting for
    // its event. `captured` counts the items enqueued on this stream during that
    // capture, and `awaited` counts those that the other stream waits for.
    std::vector<Work>* joined = nullptr;
    uint64_t captured = 0, awaited = 0;
  };
  struct FakeEvent {
    FakeStream* stream = nullptr;
    uint64_t position = 0;
    bool in_capture = false;
  };

  // Counts the call, and returns an error if Fail requested it.
  Status Call(const std::string& function);
  Status CallInCapture(const std::string& function);
  void Give(gpu::Stream stream, Work work);
  Status RecordInCapture(FakeEvent& event, FakeStream& of);
  Status AwaitInCapture(FakeStream& stream, FakeEvent& event);
  Status LeaveCapture();
  void RunBranch(const FakeBranch& branch);
  void RunUntil(FakeStream& stream, uint64_t position);
  void Multiply(const gpu::MatMulCall& call);
  bool IsInBlock(const void* at, Bytes bytes) const;
  void CheckProduct(const gpu::MatMulCall& call) const;

  const FakeOptions options_;
  gpu::DeviceTraits traits_;
  std::map<std::string, int64_t> calls_;
  std::map<std::string, int64_t> failing_;  // calls until one fails
  std::string faulty_kernel_;
  std::string refused_kernel_;
  std::map<std::string, std::function<void(const gpu::KernelCall&)>> replaced_;
  std::map<std::string, double> seconds_;
  bool broken_ = false;
  bool capturing_ = false;
  std::vector<FakeStream*> joined_;    // streams that joined the capture
  std::vector<Work>* root_ = nullptr;  // the graph around open branches
  std::vector<OpenBranch> open_;
  // The memory of choices. A GraphChoice is an address in it. Of the last array,
  // the first `choices_left_` elements are unused.
  std::vector<std::unique_ptr<std::array<uint32_t, 4096>>> choices_;
  size_t choices_left_ = 0;
  std::vector<Work> late_;  // postponed bodies under kLate
  std::vector<std::string> executed_;
  std::vector<CapturedKernel> captured_;
  std::vector<std::span<std::byte>> blocks_;
  std::vector<std::span<std::byte>> pinned_;
  std::map<const void*, uint32_t> prepared_;  // shared bytes of kernels
  std::set<std::vector<int64_t>> prepared_products_;
  int streams_ = 0;
  int64_t live_ = 0;  // handles and blocks that are not yet destroyed
};

/// Returns the GPU backend on a fake device, which the backend owns. Writes the device to `device`
/// unless that is null. Aborts on an error.
std::unique_ptr<Backend> MakeFakeBackend(const FakeOptions& options,
                                         FakeDevice** device);

/// Sends and receives the messages of this rank's device over `link`. Returns false if the link
/// fails.
inline bool ExchangeOver(cluster::Link& link,
                         std::span<const gpu::PeerMessages> messages) {
  std::vector<cluster::Outgoing> outgoing;
  std::vector<cluster::Incoming> incoming;
  for (const gpu::PeerMessages& each : messages) {
    outgoing.push_back({each.peer, each.sent});
    incoming.push_back({each.peer, each.received});
  }
  return link.Exchange(outgoing, incoming);
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_FAKE_DEVICE_H_

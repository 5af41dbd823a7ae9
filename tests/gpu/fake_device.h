#ifndef STOWAGE_TESTS_GPU_FAKE_DEVICE_H_
#define STOWAGE_TESTS_GPU_FAKE_DEVICE_H_

// A GPU in the memory of the host. Kernels run as the program was linked, in the emulator or on
// PTX (tests/gpu/grid_runner.h), matmuls as plain loops, and every call is counted. It enforces
// a real device's rules (kernels are prepared before they are launched, a capture holds nothing
// but work, operands of a matmul are inside one allocation), and fails where a test asks it to.
//
// A device belongs to one thread, which also does the work of its streams. Devices of
// several ranks, each in a thread of its own, are joined by a link
// (cluster/link.h).
//
// A stream may be lazy: its work is done as late as the rules allow, when
// somebody waits for it. A step that reads its inputs too early, or overwrites
// those of another too soon, then computes something else.
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

/// Branches in graphs.
enum class FakeBranches {
  kNone,   // there are none
  kRight,  // what was chosen runs
  kNever,  // no body runs
  kFirst,  // the first body runs, whatever was chosen
  kLate,   // the body runs behind what follows the branch
};

struct FakeOptions {
  uint64_t seed = 0;  // of the order in which threads run
  bool warp_by_warp = false;
  Bytes total = int64_t{1} << 30;
  size_t blocks = 1;               // of its memory, at most
  int major = 9, minor = 0;        // of its compute capability
  bool tensor_maps = true;         // its driver encodes them
  bool lazy_compute = false;       // the stream that is created first
  bool lazy_copy = false;          // the second
  bool lazy_exchange = false;      // the third, of several ranks
  bool refuses_epilogues = false;  // but an addend
  FakeBranches branches = FakeBranches::kRight;
  /// What joins this rank's device to those of others, each with a fake of its own; null:
  /// there is one rank. Used by whoever waits for the work of a stream.
  cluster::Link* link = nullptr;
  gpu::BackendOptions backend = {};
};

/// A kernel of a captured graph, with the params that it is launched with.
struct CapturedKernel {
  std::string name;
  std::vector<std::byte> params;
};

class FakeDevice final : public gpu::Device {
 public:
  explicit FakeDevice(const FakeOptions& options);
  ~FakeDevice() override;

  /// The number of calls of a function of Device: "Allocate", "LaunchGraph". Waits for work
  /// that was not done count as "Blocked".
  int64_t calls(const std::string& function) const;
  /// The one allocation; of several, the first that is there.
  std::span<std::byte> arena() const {
    return blocks_.empty() ? std::span<std::byte>() : blocks_.front();
  }
  Bytes arena_bytes() const { return static_cast<Bytes>(arena().size()); }
  /// The pinned blocks, the oldest first.
  const std::vector<std::span<std::byte>>& pinned() const { return pinned_; }
  /// The kernels of all graphs, in the order of their capture.
  const std::vector<CapturedKernel>& captured() const { return captured_; }
  /// The names of the kernels that ran, and "product", in order.
  const std::vector<std::string>& executed() const { return executed_; }

  /// The function's next call fails, or the nth from now on.
  void Fail(const std::string& function, int64_t nth = 1) {
    failing_[function] = nth;
  }
  /// The device fails when the kernel of this name runs next: the call that waits for it
  /// returns the error, and so do all later calls.
  void FailInKernel(const std::string& name) { faulty_kernel_ = name; }
  /// The kernel of this name cannot be prepared.
  void Refuse(const std::string& name) { refused_kernel_ = name; }
  /// Replaces the kernel of this name by a function of the call's params.
  void Replace(const std::string& name,
               std::function<void(const gpu::KernelCall&)> run) {
    replaced_[name] = std::move(run);
  }
  /// The time of a kernel by the device's clock; by default a millisecond.
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
  // A branch in a graph.
  struct FakeBranch {
    uint32_t* choice = nullptr;
    std::vector<std::vector<Work>> bodies;
  };
  // One whose bodies are captured.
  struct OpenBranch {
    std::shared_ptr<FakeBranch> branch;
    std::vector<Work>* around = nullptr;  // what goes on behind it
    size_t body = 0;
  };
  struct FakeStream {
    bool lazy = false;
    std::deque<Work> work;  // what is not done
    uint64_t given = 0;     // pieces of work, ever
    uint64_t done = 0;
    std::vector<Work>* capture = nullptr;
    // Of a stream that has joined another's capture by waiting for its event: how
    // much was given to it in there, and how much of that is waited for.
    std::vector<Work>* joined = nullptr;
    uint64_t captured = 0, awaited = 0;
  };
  struct FakeEvent {
    FakeStream* stream = nullptr;
    uint64_t position = 0;
    bool in_capture = false;
  };

  // Counts the call, and fails it where that was asked for.
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
  std::map<std::string, int64_t> failing_;  // in so many calls
  std::string faulty_kernel_;
  std::string refused_kernel_;
  std::map<std::string, std::function<void(const gpu::KernelCall&)>> replaced_;
  std::map<std::string, double> seconds_;
  bool broken_ = false;
  bool capturing_ = false;
  std::vector<FakeStream*> joined_;    // the capture
  std::vector<Work>* root_ = nullptr;  // of a capture that is in a branch
  std::vector<OpenBranch> open_;
  // What choices are addresses of; those that are not used yet are at the end.
  std::vector<std::unique_ptr<std::array<uint32_t, 4096>>> choices_;
  size_t choices_left_ = 0;
  std::vector<Work> late_;  // of kLate
  std::vector<std::string> executed_;
  std::vector<CapturedKernel> captured_;
  std::vector<std::span<std::byte>> blocks_;
  std::vector<std::span<std::byte>> pinned_;
  std::map<const void*, uint32_t> prepared_;  // kernels, and shared bytes
  std::set<std::vector<int64_t>> prepared_products_;
  int streams_ = 0;
  int64_t live_ = 0;  // handles and blocks; 0 when all were given back
};

/// The GPU backend on such a device, which belongs to it. Aborts on errors.
std::unique_ptr<Backend> MakeFakeBackend(const FakeOptions& options,
                                         FakeDevice** device);

/// Sends and receives the messages of ranks' devices over a link between threads. Returns false
/// where the link fails.
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

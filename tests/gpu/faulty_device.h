#ifndef STOWAGE_TESTS_GPU_FAULTY_DEVICE_H_
#define STOWAGE_TESTS_GPU_FAULTY_DEVICE_H_

// Wraps the fake device and injects faults, to test that the device checks find them.
//
//   RunDeviceSuite(OpenFaulty({.lost = "layer_norm"}), options)

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "gpu/gpu_backend.h"
#include "tests/gpu/device_suite.h"
#include "tests/gpu/fake_device.h"

namespace stowage::testing {

/// The faults to inject.
struct Faults {
  std::string lost = {};       // a kernel that never runs
  std::string forgotten = {};  // a kernel that some sessions do not run
  int64_t every = 2;           // the interval of those sessions
  Bytes leak_per_step = 0;     // device memory that each step leaks
  std::string failing = {};    // a function of Device that fails once
  FakeBranches branches = FakeBranches::kRight;
  std::string lost_in_bodies =
      {};  // a kernel that does not run in the first body of a branch
  /// Called with the name of each launched kernel, and with "Memory" for calls of Memory. It may
  /// exit or crash instead of returning.
  std::function<void(std::string_view)> used = {};
};

class FaultyDevice final : public gpu::Device {
 public:
  explicit FaultyDevice(const Faults& faults)
      : faults_(faults), fake_({.blocks = 2, .branches = faults.branches}) {
    if (!faults.failing.empty()) fake_.Fail(faults.failing);
  }

  const gpu::DeviceTraits& traits() const override { return fake_.traits(); }
  int rank() const override { return fake_.rank(); }
  int ranks() const override { return fake_.ranks(); }
  Result<gpu::DeviceMemory> Memory() override {
    if (faults_.used) faults_.used("Memory");
    auto memory = fake_.Memory();
    if (memory.ok()) memory->free -= steps_ * faults_.leak_per_step;
    return memory;
  }
  Result<std::byte*> Allocate(Bytes bytes) override {
    ++sessions_;
    return fake_.Allocate(bytes);
  }
  void Free(std::byte* block) noexcept override { fake_.Free(block); }
  Result<gpu::PinnedBlock> AllocatePinned(Bytes bytes) override {
    return fake_.AllocatePinned(bytes);
  }
  void FreePinned(const gpu::PinnedBlock& block) noexcept override {
    fake_.FreePinned(block);
  }
  Result<gpu::Stream> CreateStream() override { return fake_.CreateStream(); }
  void Destroy(gpu::Stream stream) noexcept override { fake_.Destroy(stream); }
  Result<gpu::Event> CreateEvent() override { return fake_.CreateEvent(); }
  void Destroy(gpu::Event event) noexcept override { fake_.Destroy(event); }
  Status Record(gpu::Event event, gpu::Stream stream) override {
    return fake_.Record(event, stream);
  }
  Status Await(gpu::Stream stream, gpu::Event event) override {
    return fake_.Await(stream, event);
  }
  Status Synchronize(gpu::Event event) override {
    return fake_.Synchronize(event);
  }
  Status Synchronize(gpu::Stream stream) override {
    return fake_.Synchronize(stream);
  }
  Status Exchange(std::span<const gpu::PeerMessages> messages,
                  gpu::Stream stream) override {
    return fake_.Exchange(messages, stream);
  }
  Result<gpu::TensorMap> Encode(const gpu::TensorMapSpec& spec) override {
    return fake_.Encode(spec);
  }
  Status Copy(void* to, const void* from, Bytes bytes,
              gpu::Stream stream) override {
    return fake_.Copy(to, from, bytes, stream);
  }
  Status Fill(std::byte* to, uint8_t value, Bytes bytes,
              gpu::Stream stream) override {
    return fake_.Fill(to, value, bytes, stream);
  }
  Status Launch(const gpu::KernelCall& call, gpu::Stream stream) override {
    if (faults_.used) faults_.used(call.name);
    if (call.name == faults_.lost) return {};
    if (in_first_body_ && call.name == faults_.lost_in_bodies) return {};
    if (call.name == faults_.forgotten && sessions_ % faults_.every == 0)
      return {};
    return fake_.Launch(call, stream);
  }
  Status MatMul(const gpu::MatMulCall& call, gpu::Stream stream) override {
    return fake_.MatMul(call, stream);
  }
  Status Prepare(const gpu::KernelCall& call) override {
    return fake_.Prepare(call);
  }
  Status Prepare(const gpu::MatMulCall& call, gpu::Stream stream) override {
    return fake_.Prepare(call, stream);
  }
  bool IsPrepared(const gpu::MatMulCall& call) const override {
    return fake_.IsPrepared(call);
  }
  Result<double> Time(gpu::Stream stream,
                      const std::function<Status()>& give) override {
    return fake_.Time(stream, give);
  }
  Status BeginCapture(gpu::Stream stream) override {
    return fake_.BeginCapture(stream);
  }
  Result<gpu::DeviceGraph> EndCapture(gpu::Stream stream) override {
    return fake_.EndCapture(stream);
  }
  Status LaunchGraph(gpu::DeviceGraph graph, gpu::Stream stream) override {
    ++steps_;
    return fake_.LaunchGraph(graph, stream);
  }
  void Destroy(gpu::DeviceGraph graph) noexcept override {
    fake_.Destroy(graph);
  }
  Status HasBranches() const override { return fake_.HasBranches(); }
  Result<gpu::GraphChoice> NewChoice(gpu::Stream stream) override {
    return fake_.NewChoice(stream);
  }
  Status BeginBranch(gpu::GraphChoice choice, size_t bodies,
                     gpu::Stream stream) override {
    in_first_body_ = true;
    return fake_.BeginBranch(choice, bodies, stream);
  }
  Status NextBody(gpu::Stream stream) override {
    in_first_body_ = false;
    return fake_.NextBody(stream);
  }

 private:
  const Faults faults_;
  FakeDevice fake_;
  int64_t steps_ = 0;
  int64_t sessions_ = 0;
  bool in_first_body_ = false;
};

inline OpenDevice OpenFaulty(const Faults& faults) {
  return [faults](const gpu::BackendOptions& options) -> Result<OpenedDevice> {
    auto device = std::make_unique<FaultyDevice>(faults);
    gpu::Device* const raw = device.get();
    STOWAGE_ASSIGN_OR_RETURN(auto backend,
                             gpu::MakeGpuBackend(std::move(device), options));
    return OpenedDevice{std::move(backend), raw};
  };
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_FAULTY_DEVICE_H_

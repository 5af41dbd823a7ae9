#include "gpu/cuda_device.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gpu/cublas_lt.h"
#include "gpu/cuda_calls.h"
#include "gpu/cuda_capture.h"
#include "gpu/cuda_tensor_map.h"
#include "gpu/device_checks.h"
#include "gpu/nccl.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu {
namespace {

cudaStream_t Cuda(Stream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}
cudaEvent_t Cuda(Event event) { return static_cast<cudaEvent_t>(event.handle); }
CudaGraph* Cuda(DeviceGraph graph) {
  return static_cast<CudaGraph*>(graph.handle);
}

class CudaDevice final : public Device {
 public:
  Status Open(const CudaOptions& options) {
    int runtime = 0, count = 0;
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaDriverGetVersion(&driver_), "cudaDriverGetVersion"));
    STOWAGE_RETURN_IF_ERROR(CheckDriver(driver_, runtime));
    const cudaError_t counted = cudaGetDeviceCount(&count);
    if (counted != cudaErrorNoDevice) {
      STOWAGE_RETURN_IF_ERROR(CheckCuda(counted, "cudaGetDeviceCount"));
    }
    const bool is_shared = options.collectives != nullptr && count > 0;
    const int device = is_shared ? options.device % count : options.device;
    STOWAGE_RETURN_IF_ERROR(CheckDeviceNumber(device, count));
    cudaDeviceProp properties;
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaGetDeviceProperties(&properties, device),
                  "cudaGetDeviceProperties"));
    traits_.name = properties.name;
    traits_.major = properties.major;
    traits_.minor = properties.minor;
    shared_bytes_ = properties.sharedMemPerBlockOptin;
    tensor_maps_ = TensorMapEncoder::Find();
    traits_.tensor_maps = tensor_maps_.is_there();
    STOWAGE_RETURN_IF_ERROR(
        CheckArchitecture(traits_.name, traits_.major, traits_.minor));
    STOWAGE_RETURN_IF_ERROR(
        CheckFullFloats(std::getenv("NVIDIA_TF32_OVERRIDE")));
    STOWAGE_RETURN_IF_ERROR(CheckCuda(cudaSetDevice(device), "cudaSetDevice"));
    STOWAGE_RETURN_IF_ERROR(CheckCuda(cudaFree(nullptr), "making a context"));
    STOWAGE_ASSIGN_OR_RETURN(matmul_, CublasLt::Load(options.matmul_library));
    if (!options.algorithm_folder.empty()) {
      STOWAGE_RETURN_IF_ERROR(
          matmul_->KeepAlgorithms(options.algorithm_folder, traits_.name));
    }
    traits_.matmul_library = matmul_->path();
    traits_.runtime = StrCat("driver for CUDA ", CudaVersionName(driver_),
                             ", runtime ", CudaVersionName(runtime));
    traits_.software =
        StrCat(traits_.runtime, ", cuBLASLt ", matmul_->version());
    if (options.collectives == nullptr) return {};
    STOWAGE_ASSIGN_OR_RETURN(
        nccl_, Nccl::Join(*options.collectives, CUDART_VERSION / 1000));
    traits_.software += StrCat(", NCCL ", nccl_->version());
    return MeetAll();
  }

  const DeviceTraits& traits() const override { return traits_; }
  int rank() const override { return nccl_ ? nccl_->rank() : 0; }
  int ranks() const override { return nccl_ ? nccl_->ranks() : 1; }

  Result<DeviceMemory> Memory() override {
    size_t free = 0, total = 0;
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    return DeviceMemory{static_cast<Bytes>(free), static_cast<Bytes>(total)};
  }

  Result<std::byte*> Allocate(Bytes bytes) override {
    void* block = nullptr;
    const cudaError_t error = cudaMalloc(&block, static_cast<size_t>(bytes));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      STOWAGE_ASSIGN_OR_RETURN(const DeviceMemory memory, Memory());
      return OutOfMemory(traits_.name, bytes, memory);
    }
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(error, StrCat("allocating ", bytes, " bytes")));
    return static_cast<std::byte*>(block);
  }
  void Free(std::byte* block) noexcept override { cudaFree(block); }

  Result<PinnedBlock> AllocatePinned(Bytes bytes) override {
    void* host = nullptr;
    void* device = nullptr;
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaHostAlloc(&host, static_cast<size_t>(bytes),
                                cudaHostAllocMapped | cudaHostAllocPortable),
                  StrCat("allocating ", bytes, " bytes of pinned memory")));
    if (const Status mapped =
            CheckCuda(cudaHostGetDevicePointer(&device, host, 0),
                      "mapping pinned memory");
        !mapped.ok()) {
      cudaFreeHost(host);
      return mapped.error();
    }
    return PinnedBlock{static_cast<std::byte*>(host),
                       static_cast<std::byte*>(device)};
  }
  void FreePinned(const PinnedBlock& block) noexcept override {
    cudaFreeHost(block.host);
  }

  Result<Stream> CreateStream() override {
    cudaStream_t stream = nullptr;
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                  "making a stream"));
    return Stream{stream};
  }
  void Destroy(Stream stream) noexcept override {
    cudaStreamDestroy(Cuda(stream));
  }
  Result<Event> CreateEvent() override {
    cudaEvent_t event = nullptr;
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                  "making an event"));
    return Event{event};
  }
  void Destroy(Event event) noexcept override { cudaEventDestroy(Cuda(event)); }

  Status Record(Event event, Stream stream) override {
    return CheckCuda(cudaEventRecord(Cuda(event), Cuda(stream)),
                     "recording an event");
  }
  Status Await(Stream stream, Event event) override {
    return CheckCuda(cudaStreamWaitEvent(Cuda(stream), Cuda(event), 0),
                     "waiting for an event on a stream");
  }
  Status Synchronize(Event event) override {
    return CheckCuda(cudaEventSynchronize(Cuda(event)),
                     "waiting for the device");
  }
  Status Synchronize(Stream stream) override {
    return CheckCuda(cudaStreamSynchronize(Cuda(stream)),
                     "waiting for the device");
  }

  Status Copy(void* to, const void* from, Bytes bytes, Stream stream) override {
    return CheckCuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                                     cudaMemcpyDefault, Cuda(stream)),
                     "copying");
  }
  Status Fill(std::byte* to, uint8_t value, Bytes bytes,
              Stream stream) override {
    return CheckCuda(
        cudaMemsetAsync(to, value, static_cast<size_t>(bytes), Cuda(stream)),
        "filling");
  }

  Status Launch(const KernelCall& call, Stream stream) override {
    void* arguments[] = {const_cast<void*>(call.params)};
    return CheckCuda(
        cudaLaunchKernel(call.function, dim3(call.grid.x, call.grid.y),
                         dim3(call.threads), arguments, call.dynamic_shared,
                         Cuda(stream)),
        call.name);
  }
  Status MatMul(const MatMulCall& call, Stream stream) override {
    return matmul_->Run(call, Cuda(stream));
  }

  Status Exchange(std::span<const PeerMessages> messages,
                  Stream stream) override {
    return nccl_->Exchange(messages, stream.handle);
  }

  Result<TensorMap> Encode(const TensorMapSpec& spec) override {
    return tensor_maps_.Encode(spec);
  }

  Status Prepare(const KernelCall& call) override {
    cudaFuncAttributes attributes;
    STOWAGE_RETURN_IF_ERROR(CheckCuda(
        cudaFuncGetAttributes(&attributes, call.function), call.name));
    STOWAGE_ASSIGN_OR_RETURN(
        const bool must_ask,
        MustAskForShared(call.name, attributes.sharedSizeBytes,
                         call.dynamic_shared, shared_bytes_, traits_.name));
    uint32_t& most = shared_of_[call.function];
    if (!must_ask || call.dynamic_shared <= most) return {};
    STOWAGE_RETURN_IF_ERROR(CheckCuda(
        cudaFuncSetAttribute(call.function,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(call.dynamic_shared)),
        call.name));
    most = call.dynamic_shared;
    return {};
  }
  Status Prepare(const MatMulCall& call, Stream stream) override {
    return matmul_->Prepare(call, Cuda(stream));
  }
  bool IsPrepared(const MatMulCall& call) const override {
    return matmul_->IsPrepared(call);
  }
  Result<double> Time(Stream stream,
                      const std::function<Status()>& give) override {
    CudaStopwatch stopwatch(Cuda(stream));
    STOWAGE_RETURN_IF_ERROR(stopwatch.Begin());
    STOWAGE_RETURN_IF_ERROR(give());
    return stopwatch.End();
  }

  Status BeginCapture(Stream stream) override {
    return capture_.Begin(Cuda(stream));
  }
  Result<DeviceGraph> EndCapture(Stream) override {
    STOWAGE_ASSIGN_OR_RETURN(std::unique_ptr<CudaGraph> graph, capture_.End());
    return DeviceGraph{graph.release()};
  }
  Status LaunchGraph(DeviceGraph graph, Stream stream) override {
    return CheckCuda(cudaGraphLaunch(Cuda(graph)->executable, Cuda(stream)),
                     "launching a graph");
  }
  void Destroy(DeviceGraph graph) noexcept override { delete Cuda(graph); }

  Status HasBranches() const override {
    return CudaCapture::HasBranches(driver_);
  }
  Result<GraphChoice> NewChoice(Stream) override {
    return capture_.NewChoice();
  }
  Status BeginBranch(GraphChoice choice, size_t bodies, Stream) override {
    return capture_.BeginBranch(choice, bodies);
  }
  Status NextBody(Stream) override { return capture_.NextBody(); }

 private:
  // NCCL connects two ranks when they first send to each other, and allocates for it:
  // not in a capture.
  Status MeetAll() {
    const auto all = static_cast<size_t>(ranks());
    STOWAGE_ASSIGN_OR_RETURN(std::byte* const bytes,
                             Allocate(static_cast<Bytes>(2 * all)));
    std::vector<PeerMessages> messages;
    for (size_t peer = 0; peer < all; ++peer) {
      if (static_cast<int>(peer) == rank()) continue;
      messages.push_back({.peer = static_cast<int>(peer),
                          .sent = {bytes + peer, 1},
                          .received = {bytes + all + peer, 1}});
    }
    Status met = Exchange(messages, {});
    if (met.ok()) met = Synchronize(Stream{});
    Free(bytes);
    return met;
  }

  DeviceTraits traits_;
  int driver_ = 0;           // the CUDA version that it is for
  size_t shared_bytes_ = 0;  // that a block may have
  std::unordered_map<const void*, uint32_t> shared_of_;  // allowed by Prepare
  TensorMapEncoder tensor_maps_;
  CudaCapture capture_;  // one at a time
  std::unique_ptr<CublasLt> matmul_;
  std::unique_ptr<Nccl> nccl_;  // of several ranks
};

}  // namespace

Result<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions& options) {
  auto device = std::make_unique<CudaDevice>();
  STOWAGE_RETURN_IF_ERROR(device->Open(options));
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace stowage::gpu

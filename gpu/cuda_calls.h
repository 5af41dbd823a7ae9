#ifndef STOWAGE_GPU_CUDA_CALLS_H_
#define STOWAGE_GPU_CUDA_CALLS_H_

// Calls of the CUDA runtime: errors as a Status, and a stopwatch of a stream.
//
//   STOWAGE_RETURN_IF_ERROR(CheckCuda(cudaFree(nullptr), "making a context"));

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/result.h"
#include "base/strings.h"

namespace stowage::gpu {

/// Error kDevice, unless `error` is cudaSuccess: `what` failed, and how.
inline Status CheckCuda(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // clears an error that is not sticky
  return Error{ErrorCode::kDevice,
               StrCat("[gpu] ", what, ": ", cudaGetErrorString(error), " (",
                      cudaGetErrorName(error), ")")};
}

/// The time between two points of a stream by the device's clock, to about half a
/// microsecond.
///
///   CudaStopwatch stopwatch(stream);
///   STOWAGE_RETURN_IF_ERROR(stopwatch.Begin());
///   ...
///   STOWAGE_ASSIGN_OR_RETURN(const double seconds, stopwatch.End());
class CudaStopwatch {
 public:
  explicit CudaStopwatch(cudaStream_t stream) : stream_(stream) {
    made_ = CheckCuda(cudaEventCreate(&begin_), "creating a timing event");
    if (made_.ok()) {
      made_ = CheckCuda(cudaEventCreate(&end_), "creating a timing event");
    }
  }
  ~CudaStopwatch() {
    for (const cudaEvent_t event : {begin_, end_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  CudaStopwatch(const CudaStopwatch&) = delete;
  CudaStopwatch& operator=(const CudaStopwatch&) = delete;

  Status Begin() {
    STOWAGE_RETURN_IF_ERROR(made_);
    return CheckCuda(cudaEventRecord(begin_, stream_), "recording an event");
  }
  /// Seconds since Begin, once all work of the stream is done.
  Result<double> End() {
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaEventRecord(end_, stream_), "recording an event"));
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaEventSynchronize(end_), "waiting for the timed work"));
    float milliseconds = 0;
    STOWAGE_RETURN_IF_ERROR(
        CheckCuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "timing"));
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  const cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  Status made_;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_CALLS_H_

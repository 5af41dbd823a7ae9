#ifndef STOWAGE_GPU_CUDA_CALLS_H_
#define STOWAGE_GPU_CUDA_CALLS_H_

// Converts errors of the CUDA runtime to Status, and measures the time of work on a stream.
//
//   STOWAGE_RETURN_IF_ERROR(CheckCuda(cudaFree(nullptr), "making a context"));

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/result.h"
#include "base/strings.h"

namespace stowage::gpu {

/// Returns kDevice unless `error` is cudaSuccess. The message consists of `what`, the activity that
/// failed, and the CUDA error.
inline Status CheckCuda(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // clears an error that is not sticky
  return Error{ErrorCode::kDevice,
               StrCat("[gpu] ", what, ": ", cudaGetErrorString(error), " (",
                      cudaGetErrorName(error), ")")};
}

/// Measures the time that the work between two points of a stream takes, with the device's clock.
/// Its resolution is about half a microsecond.
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
  /// Waits for all work enqueued on the stream, and returns the seconds since Begin.
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

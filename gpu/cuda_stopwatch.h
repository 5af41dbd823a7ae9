#ifndef STOWAGE_GPU_CUDA_STOPWATCH_H_
#define STOWAGE_GPU_CUDA_STOPWATCH_H_

// Two moments of a stream, and the time between them by the device's clock, which ticks
// every half microsecond or so.
//
//   CudaStopwatch stopwatch(stream);
//   STOWAGE_RETURN_IF_ERROR(stopwatch.Begin());
//   ...
//   STOWAGE_ASSIGN_OR_RETURN(const double seconds, stopwatch.End());

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "gpu/cuda_error.h"

namespace stowage::gpu {

class CudaStopwatch {
 public:
  explicit CudaStopwatch(cudaStream_t stream) : stream_(stream) {
    made_ = CheckCuda(cudaEventCreate(&begin_), "making an event to time by");
    if (made_.ok()) {
      made_ = CheckCuda(cudaEventCreate(&end_), "making an event to time by");
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
        CheckCuda(cudaEventSynchronize(end_), "waiting for what is timed"));
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

#endif  // STOWAGE_GPU_CUDA_STOPWATCH_H_

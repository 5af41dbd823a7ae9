#ifndef STOWAGE_GPU_CUDA_TENSOR_MAP_H_
#define STOWAGE_GPU_CUDA_TENSOR_MAP_H_

// Encodes tensor maps with the CUDA driver (gpu/tensor_map.h). The driver's function is looked up
// when a device is opened, so the program does not link to the driver library. Drivers for CUDA
// before 12.0 lack the function.
//
//   const TensorMapEncoder encoder = TensorMapEncoder::Find();
//   if (encoder.is_there()) STOWAGE_ASSIGN_OR_RETURN(map, encoder.Encode(spec));

#include "base/result.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu {

class TensorMapEncoder {
 public:
  /// Returns the encoder. If the driver lacks the function, is_there() is false.
  static TensorMapEncoder Find();

  bool is_there() const { return function_ != nullptr; }
  /// Returns the encoding of `spec`. Returns kDevice if the driver lacks the function or rejects
  /// the array.
  Result<TensorMap> Encode(const TensorMapSpec& spec) const;

 private:
  void* function_ = nullptr;  // cuTensorMapEncodeTiled
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_TENSOR_MAP_H_

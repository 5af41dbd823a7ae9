#ifndef STOWAGE_GPU_CUDA_TENSOR_MAP_H_
#define STOWAGE_GPU_CUDA_TENSOR_MAP_H_

// The driver's encoding of tensor maps (gpu/tensor_map.h). The driver's function is looked up
// when a device is opened, so no library is linked for it; drivers before CUDA 12.0 have none.
//
//   const TensorMapEncoder encoder = TensorMapEncoder::Find();
//   if (encoder.is_there()) STOWAGE_ASSIGN_OR_RETURN(map, encoder.Encode(spec));

#include "base/result.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu {

class TensorMapEncoder {
 public:
  /// The driver's encoder; is_there() is false if it has none.
  static TensorMapEncoder Find();

  bool is_there() const { return function_ != nullptr; }
  /// Errors, kDevice: there is none, or it refuses the array.
  Result<TensorMap> Encode(const TensorMapSpec& spec) const;

 private:
  void* function_ = nullptr;  // cuTensorMapEncodeTiled
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_TENSOR_MAP_H_

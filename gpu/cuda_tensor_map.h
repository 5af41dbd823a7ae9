#ifndef STOWAGE_GPU_CUDA_TENSOR_MAP_H_
#define STOWAGE_GPU_CUDA_TENSOR_MAP_H_

// Tensor maps (gpu/tensor_map.h) as the driver encodes them. The function for that is the
// driver's own, so it is looked for when a device is opened: no library is linked for it,
// and drivers before CUDA 12.0 have none.
//
//   const TensorMapEncoder encoder = TensorMapEncoder::Find();
//   if (encoder.is_there()) STOWAGE_ASSIGN_OR_RETURN(map, encoder.Encode(spec));

#include "base/result.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu {

class TensorMapEncoder {
 public:
  /// The driver's; none, where it has none.
  static TensorMapEncoder Find();

  bool is_there() const { return function_ != nullptr; }
  /// Errors, kDevice: there is none, or it refuses the array.
  Result<TensorMap> Encode(const TensorMapSpec& spec) const;

 private:
  void* function_ = nullptr;  // cuTensorMapEncodeTiled
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_TENSOR_MAP_H_

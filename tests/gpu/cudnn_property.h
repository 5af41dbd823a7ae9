#ifndef STOWAGE_TESTS_GPU_CUDNN_PROPERTY_H_
#define STOWAGE_TESTS_GPU_CUDNN_PROPERTY_H_

// cuDNN's description of a device, as JSON. Since 9.8 cuDNN can plan for a described device: with
// its JSON, a machine without the device can list the engines for a convolution and the
// workspace of each.
//
//   Result<CudnnProperty> property = ReadCudnnProperty(0, "");
//   std::cout << property->json;

#include <cstdint>
#include <string>

#include "base/result.h"

namespace stowage::testing {

struct CudnnProperty {
  std::string library;  // its path
  int64_t version = 0;  // 91900: 9.19.0
  std::string json;
};

/// Asks the cuDNN in the file or folder `given`, or, where it is empty, in $STOWAGE_CUDNN
/// or where NVIDIA's libraries usually are. Error kDevice: there is no cuDNN, it is older
/// than 9.8, or it has no such device; the message names the library and the call.
Result<CudnnProperty> ReadCudnnProperty(int device, const std::string& given);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_CUDNN_PROPERTY_H_

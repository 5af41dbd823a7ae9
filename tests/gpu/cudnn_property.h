#ifndef STOWAGE_TESTS_GPU_CUDNN_PROPERTY_H_
#define STOWAGE_TESTS_GPU_CUDNN_PROPERTY_H_

// What cuDNN says of a device, in its own JSON. Since 9.8 cuDNN plans for a device that is
// described so: with the JSON of a device, a machine without one can ask which engines it
// has for a convolution, and how much workspace each takes.
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
/// or where NVIDIA's libraries usually are. Error kDevice: there is none, it is before 9.8,
/// or it has no such device; the message names the library and the call.
Result<CudnnProperty> ReadCudnnProperty(int device, const std::string& given);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_CUDNN_PROPERTY_H_

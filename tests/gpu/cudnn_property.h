#ifndef STOWAGE_TESTS_GPU_CUDNN_PROPERTY_H_
#define STOWAGE_TESTS_GPU_CUDNN_PROPERTY_H_

// Reads cuDNN's description of a device as JSON. Since version 9.8, cuDNN can plan for a device
// that is only described. A machine without the device can then list the engines for a
// convolution, with the workspace size of each.
//
//   Result<CudnnProperty> property = ReadCudnnProperty(0, "");
//   std::cout << property->json;

#include <cstdint>
#include <string>

#include "base/result.h"

namespace stowage::testing {

struct CudnnProperty {
  std::string library;  // the path of cuDNN
  int64_t version = 0;  // 91900 for cuDNN 9.19.0
  std::string json;
};

/// Returns the description of device `device`. Loads cuDNN from the file or folder `given`. If
/// `given` is empty, loads it from $STOWAGE_CUDNN or from the usual locations of NVIDIA's
/// libraries. Returns kDevice if cuDNN is not found, is older than 9.8 or does not support the
/// device. The message names the library and the failed call.
Result<CudnnProperty> ReadCudnnProperty(int device, const std::string& given);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_CUDNN_PROPERTY_H_

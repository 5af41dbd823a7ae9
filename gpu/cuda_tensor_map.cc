#include "gpu/cuda_tensor_map.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/strings.h"

namespace stowage::gpu {
namespace {

constexpr const char* kFunction = "cuTensorMapEncodeTiled";
constexpr unsigned int kSince = 12000;  // CUDA 12.0

// Headers since CUDA 13.0 align it to 128 bytes; the driver and the device need 64.
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) &&
              alignof(TensorMap) == 64);

CUtensorMapSwizzle SwizzleOf(int bytes) {
  switch (bytes) {
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

std::string DescribeTile(const TensorMapSpec& spec) {
  std::string text =
      StrCat("an array of ", spec.element_bytes, "-byte elements");
  for (size_t i = 0; i < static_cast<size_t>(spec.rank); ++i) {
    text += StrCat(i == 0 ? ", innermost first: " : ", ", spec.sizes[i], " of ",
                   spec.steps[i], " bytes, ", spec.box[i], " at once");
  }
  return StrCat(text, "; swizzle ", spec.swizzle);
}

}  // namespace

TensorMapEncoder TensorMapEncoder::Find() {
  TensorMapEncoder encoder;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      kFunction, &encoder.function_, kSince, cudaEnableDefault, &found);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(
      kFunction, &encoder.function_, cudaEnableDefault, &found);
#endif
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) {
    cudaGetLastError();  // which is no one else's
    encoder.function_ = nullptr;
  }
  return encoder;
}

Result<TensorMap> TensorMapEncoder::Encode(const TensorMapSpec& spec) const {
  if (!is_there()) {
    return Error{ErrorCode::kDevice,
                 StrCat("[gpu] this driver has no ", kFunction,
                        "; expected one for "
                        "CUDA 12.0 or later")};
  }
  if (spec.element_bytes != 2) {
    return Error{ErrorCode::kDevice,
                 StrCat("[gpu] no tensor map of ", DescribeTile(spec),
                        "; expected elements of 2 bytes")};
  }
  std::array<cuuint64_t, kMaxTensorMapDims> sizes = {}, steps = {};
  std::array<cuuint32_t, kMaxTensorMapDims> box = {}, every = {};
  for (size_t i = 0; i < kMaxTensorMapDims; ++i) {
    sizes[i] = static_cast<cuuint64_t>(spec.sizes[i]);
    steps[i] = static_cast<cuuint64_t>(spec.steps[i]);
    box[i] = static_cast<cuuint32_t>(spec.box[i]);
    every[i] = 1;
  }
  CUtensorMap encoded;
  const auto encode =
      reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function_);
  // Bits are copied as they are, so any type of 16 bits does; that of the innermost step
  // is implied.
  const CUresult answer = encode(
      &encoded, CU_TENSOR_MAP_DATA_TYPE_UINT16,
      static_cast<cuuint32_t>(spec.rank), const_cast<void*>(spec.data),
      sizes.data(), steps.data() + 1, box.data(), every.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, SwizzleOf(spec.swizzle),
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (answer == CUDA_SUCCESS) {
    TensorMap map;
    std::memcpy(map.words.data(), &encoded, sizeof(encoded));
    return map;
  }
  return Error{ErrorCode::kDevice,
               StrCat("[gpu] ", kFunction, " answers ",
                      static_cast<int>(answer), " for ", DescribeTile(spec))};
}

}  // namespace stowage::gpu

// What the driver is told of an array, by a stand-in for the runtime that finds its
// function and for that function.

#include "gpu/cuda_tensor_map.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/tensor_map.h"

namespace {

// What the driver has, and what it was told last.
struct Driver {
  bool is_too_old = false;
  CUresult answer = CUDA_SUCCESS;
  CUtensorMapDataType type = {};
  void* data = nullptr;
  std::vector<uint64_t> sizes, steps, box, every;
  CUtensorMapInterleave interleave = {};
  CUtensorMapSwizzle swizzle = {};
  CUtensorMapL2promotion promotion = {};
  CUtensorMapFloatOOBfill fill = {};
} driver;

CUresult EncodeTiled(CUtensorMap* map, CUtensorMapDataType type,
                     cuuint32_t rank, void* data, const cuuint64_t* sizes,
                     const cuuint64_t* steps, const cuuint32_t* box,
                     const cuuint32_t* every, CUtensorMapInterleave interleave,
                     CUtensorMapSwizzle swizzle,
                     CUtensorMapL2promotion promotion,
                     CUtensorMapFloatOOBfill fill) {
  driver.type = type;
  driver.data = data;
  driver.sizes.assign(sizes, sizes + rank);
  driver.steps.assign(steps, steps + rank - 1);
  driver.box.assign(box, box + rank);
  driver.every.assign(every, every + rank);
  driver.interleave = interleave;
  driver.swizzle = swizzle;
  driver.promotion = promotion;
  driver.fill = fill;
  for (uint64_t& word : map->opaque) word = 77;
  return driver.answer;
}

cudaError_t FindEntry(const std::string& symbol, void** function,
                      cudaDriverEntryPointQueryResult* found) {
  CHECK(symbol == "cuTensorMapEncodeTiled");
  *found = driver.is_too_old ? cudaDriverEntryPointVersionNotSufficent
                             : cudaDriverEntryPointSuccess;
  *function = reinterpret_cast<void*>(&EncodeTiled);
  return cudaSuccess;
}

}  // namespace

extern "C" {

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned int version,
    unsigned long long, cudaDriverEntryPointQueryResult* found) {
  CHECK(version == 12000);
  return FindEntry(symbol, function, found);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                    unsigned long long,
                                    cudaDriverEntryPointQueryResult* found) {
  return FindEntry(symbol, function, found);
}
#endif
cudaError_t cudaGetLastError() { return cudaSuccess; }

}  // extern "C"

namespace stowage::gpu {
namespace {

alignas(16) uint16_t array[64];

// Rows of 64 of the 80 columns of 3 heads, in 7 rows of 2 entries.
TensorMapSpec Spec() {
  return {.data = array,
          .element_bytes = 2,
          .rank = 4,
          .sizes = {80, 3, 7, 2},
          .steps = {2, 160, 960, 6720},
          .box = {64, 1, 128, 1},
          .swizzle = 128};
}

TEST_CASE("the driver is told of an array, innermost dimension first") {
  driver = {};
  const TensorMapEncoder encoder = TensorMapEncoder::Find();
  REQUIRE(encoder.is_there());
  const Result<TensorMap> map = encoder.Encode(Spec());
  REQUIRE(map.ok());
  for (const uint64_t word : map->words) CHECK(word == 77);
  CHECK(driver.type == CU_TENSOR_MAP_DATA_TYPE_UINT16);
  CHECK(driver.data == array);
  CHECK(driver.sizes == std::vector<uint64_t>{80, 3, 7, 2});
  CHECK(driver.steps == std::vector<uint64_t>{160, 960, 6720});
  CHECK(driver.box == std::vector<uint64_t>{64, 1, 128, 1});
  CHECK(driver.every == std::vector<uint64_t>{1, 1, 1, 1});
  CHECK(driver.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE);
  CHECK(driver.swizzle == CU_TENSOR_MAP_SWIZZLE_128B);
  CHECK(driver.promotion == CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
  CHECK(driver.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

TEST_CASE("each swizzle is told by its own name") {
  const TensorMapEncoder encoder = TensorMapEncoder::Find();
  const auto swizzle_of = [&](int bytes) {
    TensorMapSpec spec = Spec();
    spec.swizzle = bytes;
    CHECK(encoder.Encode(spec).ok());
    return driver.swizzle;
  };
  CHECK(swizzle_of(0) == CU_TENSOR_MAP_SWIZZLE_NONE);
  CHECK(swizzle_of(32) == CU_TENSOR_MAP_SWIZZLE_32B);
  CHECK(swizzle_of(64) == CU_TENSOR_MAP_SWIZZLE_64B);
}

TEST_CASE("what the driver refuses is an error that names the array") {
  driver = {};
  driver.answer = CUDA_ERROR_INVALID_VALUE;
  const Result<TensorMap> map = TensorMapEncoder::Find().Encode(Spec());
  REQUIRE(!map.ok());
  CHECK(map.error().code == ErrorCode::kDevice);
  CHECK(map.error().message ==
        "[gpu] cuTensorMapEncodeTiled answers 1 for an array of 2-byte "
        "elements, innermost first: 80 of 2 bytes, 64 at once, 3 of 160 bytes, "
        "1 at once, 7 of 960 bytes, 128 at once, 2 of 6720 bytes, 1 at once; "
        "swizzle 128");
  TensorMapSpec wide = Spec();
  wide.element_bytes = 4;
  CHECK(TensorMapEncoder::Find().Encode(wide).error().message.find(
            "expected elements of 2 bytes") != std::string::npos);
}

TEST_CASE("an older driver has none") {
  driver = {};
  driver.is_too_old = true;
  const TensorMapEncoder encoder = TensorMapEncoder::Find();
  CHECK(!encoder.is_there());
  const Result<TensorMap> map = encoder.Encode(Spec());
  REQUIRE(!map.ok());
  CHECK(map.error().message ==
        "[gpu] this driver has no cuTensorMapEncodeTiled; expected one for "
        "CUDA 12.0 or later");
}

}  // namespace
}  // namespace stowage::gpu

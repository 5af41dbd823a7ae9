#ifndef STOWAGE_TESTS_GPU_PTX_PTX_BLOCK_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_BLOCK_H_

// The state that the warps of a block share: memory, the kernel's params, and the first fault.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/gpu/ptx/ptx_bulk_copies.h"
#include "tests/gpu/ptx/ptx_mbarriers.h"
#include "tests/gpu/ptx/ptx_memory.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_warpgroups.h"

namespace stowage::testing::ptx {

/// An asynchronous copy of up to 16 bytes of a lane to shared memory.
struct AsyncCopy {
  uint32_t group = 0;
  int lane = 0;
  uint64_t to = 0, from = 0;
  uint32_t bytes = 0;  // that are read; the rest are zeros
};

/// The copies of a warp.
struct AsyncCopies {
  std::vector<AsyncCopy> under_way;
  uint32_t group = 0;  // that is not committed yet
};

struct Block {
  Memory* memory = nullptr;
  std::span<const std::byte> params;
  uint32_t param_alignment = 1;
  std::vector<AsyncCopies> copies;  // by warp
  std::vector<Products> products;   // by warp, if the kernel has any
  Mbarriers mbarriers;
  std::vector<BulkCopy> bulk_copies;  // that are under way
  std::string wrong;
};

/// Where shared memory and the params are in the space of all addresses.
inline constexpr uint64_t kSharedWindow = uint64_t{0x5A} << 56;
inline constexpr uint64_t kParamWindow = uint64_t{0x5B} << 56;

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_BLOCK_H_

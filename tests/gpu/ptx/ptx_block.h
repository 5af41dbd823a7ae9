#ifndef STOWAGE_TESTS_GPU_PTX_PTX_BLOCK_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_BLOCK_H_

// Defines the state that the warps of a block share in the PTX interpreter: memory, the kernel's
// params, copies and matmuls in progress, and the first error.

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

/// An asynchronous copy of up to 16 bytes to shared memory (cp.async) by one lane.
struct AsyncCopy {
  uint32_t group = 0;
  int lane = 0;
  uint64_t to = 0, from = 0;
  uint32_t bytes = 0;  // bytes that are read; the others become zeros
};

/// The unfinished copies of a warp.
struct AsyncCopies {
  std::vector<AsyncCopy> under_way;
  uint32_t group = 0;  // the group that is not yet committed
};

struct Block {
  Memory* memory = nullptr;
  std::span<const std::byte> params;
  uint32_t param_alignment = 1;
  std::vector<AsyncCopies> copies;  // per warp
  std::vector<Products> products;   // per warp, if the kernel has wgmma
  Mbarriers mbarriers;
  std::vector<BulkCopy> bulk_copies;  // the unfinished copies
  std::string wrong;
};

/// The generic addresses at which shared memory and the params start.
inline constexpr uint64_t kSharedWindow = uint64_t{0x5A} << 56;
inline constexpr uint64_t kParamWindow = uint64_t{0x5B} << 56;

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_BLOCK_H_

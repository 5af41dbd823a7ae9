#ifndef STOWAGE_TESTS_GPU_PTX_PTX_WARPGROUPS_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_WARPGROUPS_H_

// Executes warpgroup matmuls (wgmma), which the four warps of a warpgroup run asynchronously. One
// or both operands are in shared memory. See PTX ISA 9.0, section 9.7.15. In names, a matmul is a
// product.
//
// A matmul starts when all four warps have reached the same wgmma.mma_async. For each warp, it ends
// at the warp's wgmma.wait_group. In between, the warp must not use the matmul's registers, and the
// hardware may read shared memory at any time. The interpreter computes the matmul when it starts.
// It reports everything that could give a different result on the hardware:
//
//  - an instruction that reads or writes a register of a matmul ahead of the wait;
//  - a register that is written and then used by a matmul, without a wgmma.fence in between;
//  - an accumulator that matmuls of different shapes use, without a wgmma.fence in between;
//  - a write to the operands in shared memory ahead of all four waits, or without a barrier after
//    them;
//  - a write to the operands ahead of the matmul, without a proxy fence and a barrier
//    (ptx_memory.h);
//  - warps, descriptors, predicates and matrix addresses that are invalid.
//
// A kernel that sets an accumulator ahead of the fence must pin it there with an empty
// asm volatile("" : "+f"(d)). Otherwise nvcc moves the assignment to just ahead of the matmul.
//
// The ISA also forbids a read of an accumulator that is not separated by a fence from a later
// matmul that writes it. This is not reported, since compilers move such reads across the fence.
//
//   Products& products = block.products[warp];
//   RunProduct(warps, instruction);

#include <array>
#include <cstdint>
#include <vector>

#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_order.h"
#include "tests/gpu/ptx/ptx_warp.h"

namespace stowage::testing::ptx {

/// The unfinished matmuls of a warp, and the state of its registers.
struct Products {
  struct Product {
    uint32_t group = 0;
    uint32_t reads = 0;  // its number in ptx_order.h (Order::BeginReads)
    std::vector<uint32_t> accumulators, factors;  // numbers of registers
  };
  struct Register {
    // The numbers of unfinished matmuls that add to it, and that read it.
    uint16_t accumulates = 0, is_read = 0;
    bool is_changed = false;  // written since the last wgmma.fence
    uint16_t shape = 0;  // N of the last matmul that added to it since then
    bool is_under_way() const { return accumulates != 0 || is_read != 0; }
  };

  std::vector<Product> under_way;   // oldest first
  uint32_t group = 0;               // the group that is not yet committed
  bool is_fenced = false;           // the warp has executed a wgmma.fence
  std::vector<Register> registers;  // indexed by register number
};

/// Executes a wgmma.mma_async that all warps of a warpgroup have reached.
void RunProduct(const std::array<Warp*, kWarpgroupWarps>& warps,
                const Instruction& in);

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_WARPGROUPS_H_

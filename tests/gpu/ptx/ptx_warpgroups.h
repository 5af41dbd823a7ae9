#ifndef STOWAGE_TESTS_GPU_PTX_PTX_WARPGROUPS_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_WARPGROUPS_H_

// What the four warps of a warpgroup do together: asynchronous products of matrices, of
// which one or both lie in shared memory. PTX ISA 9.0, section 9.7.15.
//
// A product begins when all four warps have come to the same wgmma.mma_async, and ends for
// each of them at its wgmma.wait_group. In between its registers belong to it, and shared
// memory may be read at any time. The interpreter computes it when it begins; whatever
// could make a difference is reported:
//
//  - an instruction that reads or writes a register of a product before the wait;
//  - a register that was written and is used by a product with no wgmma.fence in between;
//    an accumulator that a product of another shape uses without one;
//  - shared memory written before all four warps have waited, or without a barrier after
//    their waits; or before the product, but without a fence of proxies and a barrier
//    (ptx_memory.h);
//  - warps, descriptors, predicates and starts of matrices that do not fit.
//
// A kernel that sets an accumulator in front of the fence must hold it there, by an empty
// asm volatile("" : "+f"(d)): else nvcc moves what sets it right before the product.
//
// Reading an accumulator and having a product write to it without a fence in between is
// against the ISA too, but not reported: compilers move reads over the fence.
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

/// The products of a warp that are under way, and what it did to registers.
struct Products {
  struct Product {
    uint32_t group = 0;
    uint32_t reads = 0;  // of shared memory: Order::BeginReads
    std::vector<uint32_t> accumulators, factors;  // numbers of registers
  };
  struct Register {
    uint16_t accumulates = 0, is_read = 0;  // products under way that do so
    bool is_changed = false;                // since the last fence
    uint16_t shape = 0;  // N of the last product that added to it since then
    bool is_under_way() const { return accumulates != 0 || is_read != 0; }
  };

  std::vector<Product> under_way;   // in their order
  uint32_t group = 0;               // that is not committed yet
  bool is_fenced = false;           // ever
  std::vector<Register> registers;  // by number
};

/// Executes a wgmma.mma_async that the warps of a warpgroup have all come to.
void RunProduct(const std::array<Warp*, kWarpgroupWarps>& warps,
                const Instruction& in);

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_WARPGROUPS_H_

#ifndef STOWAGE_TESTS_GPU_PTX_PTX_OPERATIONS_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_OPERATIONS_H_

// What the instructions do, by the PTX ISA. Seven tables: arithmetic of a lane on its
// own, and its moves and conversions; what lanes of a warp do together, and warps of a
// warpgroup; memory; barriers in it, and copies to it that signal them. Each is written in the file of its name.
//
// Where the ISA leaves a result open, it is another than the exact one: an
// approximation is off by up to its bound, by a hash of its argument; so that
// nothing comes to depend on what one device returns.

#include <vector>

#include "tests/gpu/ptx/ptx_module.h"

namespace stowage::testing::ptx {

std::vector<Operation> ArithmeticOperations();  // ptx_arithmetic.cc
std::vector<Operation> ConversionOperations();  // ptx_conversions.cc
std::vector<Operation> WarpOperations();        // ptx_warp_operations.cc
std::vector<Operation> WarpgroupOperations();   // ptx_warpgroups.cc
std::vector<Operation> MemoryOperations();      // ptx_memory_operations.cc
std::vector<Operation> MbarrierOperations();    // ptx_mbarriers.cc
std::vector<Operation> BulkCopyOperations();    // ptx_bulk_copies.cc

/// All of them, by name.
const std::vector<Operation>& Operations();

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_OPERATIONS_H_

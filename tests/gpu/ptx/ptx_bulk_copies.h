#ifndef STOWAGE_TESTS_GPU_PTX_PTX_BULK_COPIES_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_BULK_COPIES_H_

// Executes bulk copies (cp.async.bulk) to shared memory. One thread issues a copy, and the
// asynchronous proxy executes it. A copy reads a box of a tensor that a tensor map describes
// (gpu/tensor_map.h), or consecutive bytes. See PTX ISA 9.0, sections 5.5 and 9.7.9.25.5.
//
// A copy runs at any time after it is issued, and then signals its bytes to an mbarrier
// (ptx_mbarriers.h). A thread may access the copied bytes only after it has waited for that phase,
// or if it is ordered after a thread that has. The interpreter reports:
//
//  - bytes that other threads still use, or that were written or read without a proxy fence and a
//    barrier ahead of the issue (ptx_memory.h);
//  - an mbarrier without a fence between its initialization and the issue;
//  - misaligned addresses, and tensor maps that are invalid or have the wrong rank;
//  - a copy that is unfinished, or that no thread has waited for, at the end of the block.
//
// The interpreter refuses boxes whose rows are narrower than their swizzle, since the ISA does not
// define their layout. It also refuses clusters of more than one block, and copies from shared
// memory.
//
//   const std::string wrong = RunBulkCopy(block, block.bulk_copies[0]);

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "gpu/tensor_map.h"
#include "tests/gpu/ptx/ptx_module.h"

namespace stowage::testing::ptx {

struct Block;

struct BulkCopy {
  const Instruction* in = nullptr;
  int warp = 0, lane = 0;  // the issuer
  uint64_t to = 0;         // an address in shared memory
  uint64_t mbarrier = 0;   // an address in shared memory
  uint32_t bytes = 0;
  uint64_t from = 0;  // the source, unless it is a tensor
  std::optional<gpu::TensorMapSpec> tensor = {};  // the source tensor
  // The coordinates of the first element of the box.
  std::array<int32_t, gpu::kMaxTensorMapDims> first = {};
};

/// Copies the bytes and signals the mbarrier. Returns an error message, or "".
std::string RunBulkCopy(Block& block, const BulkCopy& copy);

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_BULK_COPIES_H_

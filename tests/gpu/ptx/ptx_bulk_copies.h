#ifndef STOWAGE_TESTS_GPU_PTX_PTX_BULK_COPIES_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_BULK_COPIES_H_

// Copies to shared memory that one thread issues and the asynchronous proxy executes: of a
// box of a tensor that a map describes (gpu/tensor_map.h), or of bytes that follow each
// other. PTX ISA 9.0, sections 5.5 and 9.7.9.25.5.
//
// A copy runs at any time after its issue, and then signals its bytes to an mbarrier
// (ptx_mbarriers.h). Only who has waited for that phase, or comes after one that has, may
// touch what it writes. Reported:
//
//  - bytes that others still use, or that were written or read without a fence of proxies
//    and a barrier before the issue (ptx_memory.h);
//  - an mbarrier that was not fenced between its init and the issue;
//  - what is not aligned, and a tensor map that is none or has another rank;
//  - a copy that is under way, or for which nobody has waited, when the block ends.
//
// Not known, and refused: rows of a box that are narrower than its swizzle, of which the
// ISA does not say how they follow each other; clusters of more than one block; copies
// from shared memory.
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
  int warp = 0, lane = 0;  // that issued it
  uint64_t to = 0;         // in shared memory, as is the mbarrier
  uint64_t mbarrier = 0;
  uint32_t bytes = 0;
  uint64_t from = 0;  // of bytes that follow each other
  std::optional<gpu::TensorMapSpec> tensor = {};  // or of a tensor, with
  // the first element of the box
  std::array<int32_t, gpu::kMaxTensorMapDims> first = {};
};

/// Copies, and signals. Returns what is wrong.
std::string RunBulkCopy(Block& block, const BulkCopy& copy);

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_BULK_COPIES_H_

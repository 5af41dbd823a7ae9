#ifndef STOWAGE_GPU_EMULATOR_WARPGROUP_H_
#define STOWAGE_GPU_EMULATOR_WARPGROUP_H_

// The emulator's side of gpu/warpgroup.h: barriers and bulk copies, the encoding of tensor
// maps, and matmuls of warpgroups.
//
// A copy arrives as late as possible: when a thread waits for its phase; until then its bytes
// are NaN. In the natural order of threads it arrives at once. Either way only a thread that
// has waited for the phase, or that is behind a SyncThreads of such a thread, sees it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "gpu/emulator/context.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu::emulator {

void InitBarrier(uint64_t* barrier);
void ExpectBytes(uint64_t* barrier, int bytes);
void CopyBox(void* shared, const TensorMap& map, std::span<const int, 4> start,
             uint64_t* barrier);
void AwaitBytes(uint64_t* barrier, int parity, const Site& site);

/// Makes the barriers of this thread visible to copies.
void FenceBarriers();

/// Whether each of the threads [first, first + count) sees the bytes that copies have written
/// to these 16 bytes of dynamic memory; true if no copy has.
bool HasArrived(size_t byte, int first, int count);

/// The missing bytes of barriers with waiting threads; empty if there are none.
std::string WhatBarriersLack();
/// The errors of a block that has ended; empty if there are none.
std::string WhatCopiesLeave();

// The tensor map encoding of the emulator and of the PTX interpreter, in place of the
// driver's, which is not public.
//
//   const std::optional<TensorMap> map = EncodeTensorMap(spec);
//   const std::optional<TensorMapSpec> same = DecodeTensorMap(*map);

/// None if the driver would refuse `spec` (gpu/tensor_map.h).
std::optional<TensorMap> EncodeTensorMap(const TensorMapSpec& spec);

/// None if EncodeTensorMap has not made `map`.
std::optional<TensorMapSpec> DecodeTensorMap(const TensorMap& map);

// Matmuls of warpgroups, for warpgroup_emulated.h alone. A matmul is computed when its group
// is awaited, as late as possible; until then its sums are NaN. Its operands must not have
// changed since it was issued. A fence hands an array to matmuls, and a wait that names it
// takes it back; a change in between is reported.

/// An array of a thread: sums, or left factors.
struct ProductArray {
  void* at;
  size_t bytes;
  bool is_sums;
};

/// One call of WarpgroupMultiply, by one thread.
struct ProductCall {
  float (*to_float)(uint16_t);
  int columns;
  bool rows_of_b;
  bool add;
  float* d;
  const uint32_t* a;  // null: in shared memory, where a_tile says
  uint64_t a_tile, b_tile;
};

uint32_t SharedByteOf(const void* shared);
void FenceProxies();
void FenceProduct(const ProductArray& array);
/// Waits for all threads of the warpgroup.
void IssueProduct(ProductCall& call, const Site& site);
void CommitProducts();
/// Waits until at most `groups_left` groups are under way; then arrays may be taken back.
void AwaitProducts(int groups_left);
void TakeBack(const ProductArray& array);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_WARPGROUP_H_

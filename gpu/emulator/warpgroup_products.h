#ifndef STOWAGE_GPU_EMULATOR_WARPGROUP_PRODUCTS_H_
#define STOWAGE_GPU_EMULATOR_WARPGROUP_PRODUCTS_H_

// The emulator's matmuls of warpgroups, for warpgroup_emulated.h alone.
//
// A matmul is computed when its group is awaited, as late as possible; until then its sums
// are NaN. Its operands must not have changed since it was issued. A fence hands an array to
// matmuls, and a wait that names it takes it back; a change in between is reported.

#include <cstddef>
#include <cstdint>

#include "gpu/emulator/context.h"

namespace stowage::gpu::emulator {

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

#endif  // STOWAGE_GPU_EMULATOR_WARPGROUP_PRODUCTS_H_

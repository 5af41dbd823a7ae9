#ifndef STOWAGE_GPU_EMULATOR_WARPGROUP_PRODUCTS_H_
#define STOWAGE_GPU_EMULATOR_WARPGROUP_PRODUCTS_H_

// What the words of gpu/warpgroup.h call in an emulation. For warpgroup_emulated.h alone.
//
// A product is computed when its group is waited for, as late as can be: until then its
// sums are NaN. What it reads must be then what it was when the product was issued. An
// array is handed to products by a fence and comes back by a wait that names it; in
// between a change of it is reported.

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
/// Until at most so many groups are under way; then arrays may be taken back.
void AwaitProducts(int groups_left);
void TakeBack(const ProductArray& array);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_WARPGROUP_PRODUCTS_H_

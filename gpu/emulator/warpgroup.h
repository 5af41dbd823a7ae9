#ifndef STOWAGE_GPU_EMULATOR_WARPGROUP_H_
#define STOWAGE_GPU_EMULATOR_WARPGROUP_H_

// Declares the emulator functions that implement gpu/warpgroup.h: barriers and bulk copies, the
// encoding of tensor maps, and matmuls of warpgroups.
//
// A copy arrives as late as possible, when a thread waits for its phase. Until then its bytes are
// NaN. In the natural order of threads, a copy arrives immediately. In both cases, the copy is
// visible only to threads that have waited for the phase, and to threads that have passed a
// SyncThreads after such a wait.

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

/// Returns whether bulk copies to these 16 bytes of dynamic memory are visible to all threads in
/// [first, first + count). Returns true if no copy has written them.
bool HasArrived(size_t byte, int first, int count);

/// Describes the missing bytes of barriers with waiting threads. Returns an empty string if there
/// are none.
std::string WhatBarriersLack();
/// Describes the errors of a block that has ended. Returns an empty string if there are none.
std::string WhatCopiesLeave();

// The tensor map encoding of the emulator and of the PTX interpreter. It replaces the driver's
// encoding, which is not public.
//
//   const std::optional<TensorMap> map = EncodeTensorMap(spec);
//   const std::optional<TensorMapSpec> same = DecodeTensorMap(*map);

/// Returns the encoding of `spec`, or nullopt if the driver would reject it (gpu/tensor_map.h).
std::optional<TensorMap> EncodeTensorMap(const TensorMapSpec& spec);

/// Returns the encoded description, or nullopt if `map` was not created by EncodeTensorMap.
std::optional<TensorMapSpec> DecodeTensorMap(const TensorMap& map);

// Matmuls of warpgroups, for warpgroup_emulated.h only. A matmul is computed as late as possible,
// when its group is awaited. Until then its sums are NaN. Its operands must not change after it
// was issued. A fence transfers the ownership of an array to matmuls, and a wait that names the
// array returns it to the thread. A change in between is reported as an error.

/// An array of a thread: sums or left operands.
struct ProductArray {
  void* at;
  size_t bytes;
  bool is_sums;
};

/// The arguments of one call of WarpgroupMultiply by one thread.
struct ProductCall {
  float (*to_float)(uint16_t);
  int columns;
  bool rows_of_b;
  bool add;
  float* d;
  const uint32_t* a;  // null if the operand is in shared memory, at a_tile
  uint64_t a_tile, b_tile;
};

uint32_t SharedByteOf(const void* shared);
void FenceProxies();
void FenceProduct(const ProductArray& array);
/// Waits for all threads of the warpgroup, then issues the matmul.
void IssueProduct(ProductCall& call, const Site& site);
void CommitProducts();
/// Waits until at most `groups_left` groups are in flight. TakeBack may then return arrays.
void AwaitProducts(int groups_left);
void TakeBack(const ProductArray& array);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_WARPGROUP_H_

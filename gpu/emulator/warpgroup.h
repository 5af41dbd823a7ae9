#ifndef STOWAGE_GPU_EMULATOR_WARPGROUP_H_
#define STOWAGE_GPU_EMULATOR_WARPGROUP_H_

// Declares the emulator functions by which gpu/warpgroup.h is implemented: barriers and bulk
// copies, the encoding of tensor maps, and matmuls of warpgroups.
//
// If the order of threads is shuffled (EmulatorOptions::seed), a copy completes as late as
// possible, when a thread waits for its phase, and its bytes are NaN before. In the natural order,
// it completes immediately. In both cases, the copy counts as visible only to threads that have
// waited for the phase, and, after the next SyncThreads, to all threads. A matrix load or matmul of
// another thread that reads the bytes is reported as an error.

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

/// Makes the barriers that this thread has initialized visible to copies.
void FenceBarriers();

/// Returns whether the last bulk copy to the 16 bytes of dynamic shared memory that contain `byte`
/// is visible to all threads in [first, first + count). Returns true if no copy has written these
/// bytes.
bool HasArrived(size_t byte, int first, int count);

/// Describes the bytes for which threads wait at barriers. Returns an empty string if no thread
/// waits.
std::string WhatBarriersLack();
/// Describes a barrier of a block that has ended before its copies were awaited. Returns an empty
/// string if there is none.
std::string WhatCopiesLeave();

// The emulator and the PTX interpreter of the tests have their own encoding of tensor maps, because
// the driver's encoding is not public.
//
//   const std::optional<TensorMap> map = EncodeTensorMap(spec);
//   const std::optional<TensorMapSpec> same = DecodeTensorMap(*map);

/// Returns the encoding of `spec`, or nullopt if `spec` violates the requirements of TensorMapSpec
/// (gpu/tensor_map.h).
std::optional<TensorMap> EncodeTensorMap(const TensorMapSpec& spec);

/// Returns the encoded description, or nullopt if `map` was not created by EncodeTensorMap.
std::optional<TensorMapSpec> DecodeTensorMap(const TensorMap& map);

// The functions below implement matmuls of warpgroups. Only warpgroup_emulated.h calls them. A
// matmul is computed as late as possible, when its group is awaited. Its sums are NaN before. Its
// operands must not change after it was issued. FenceProduct transfers the ownership of an array to
// matmuls, and TakeBack returns it to the thread. If the thread changes the array in between, an
// error is reported.

/// An array in the registers of a thread, which holds sums or left operands.
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
/// Waits until at most `groups_left` groups are in flight. TakeBack may then be called for the
/// arrays of the others.
void AwaitProducts(int groups_left);
void TakeBack(const ProductArray& array);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_WARPGROUP_H_

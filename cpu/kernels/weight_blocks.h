#ifndef STOWAGE_CPU_KERNELS_WEIGHT_BLOCKS_H_
#define STOWAGE_CPU_KERNELS_WEIGHT_BLOCKS_H_

// Matrices that lie as their files have them, in rows of blocks, and products with them
// on the thread pool. A task turns a few thousand numbers at a time into floats, in its
// thread's scratch, and multiplies by those: the bits are those of a product with all
// numbers as floats.
//
//   const BlockMatrix w(launch.inputs[1], *launch.attrs);
//   QuantizedProduct<T>(pool, m, x, w, /*transposed=*/true, y, scratch);

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/gemm.h"
#include "cpu/thread_pool.h"
#include "ir/weight_type.h"
#include "runtime/block_matrix.h"

namespace stowage::cpu {

/// Numbers [first, first + count) of a row. Precondition: whole blocks.
template <typename T>
void ReadNumbers(const BlockMatrix& w, int64_t row, int64_t first,
                 int64_t count, T* to);

/// Elements of scratch that a thread needs for QuantizedProduct with blocks of a type.
template <typename T>
int64_t QuantizedScratch(WeightType type);

/// y = x w^T with x (m, columns) and y (m, rows), or, not transposed, y = x w with
/// x (m, rows) and y (m, columns). `scratch` has QuantizedScratch elements for each
/// thread of the pool.
template <typename T>
void QuantizedProduct(ThreadPool& pool, int64_t m, Strided<T> x,
                      const BlockMatrix& w, bool transposed, Rows<T> y,
                      T* scratch);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_WEIGHT_BLOCKS_H_

#ifndef STOWAGE_CPU_KERNELS_BF16_CONV_WEIGHT_GRAD_H_
#define STOWAGE_CPU_KERNELS_BF16_CONV_WEIGHT_GRAD_H_

// conv_weight_grad as the matmul of conv_weight_grad.h, on bf16 by pairs (bf16_gemm.h) of
// elements that are neighbours along a line. Where lines have an odd number of elements, the
// last of each is paired with zeros.
//
//   Bf16WeightGrad(g, x, dy, dw, launch.workspace.data(), pool);

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// Bytes of scratch, aligned to 64, that Bf16WeightGrad wants.
Bytes Bf16WeightGradScratch(const ConvGeometry& g, int threads);

/// dw. Every element is an f32 sum over images and pairs of dy's elements in order, cut by
/// images into at most 16 sums, which are added in order and rounded once.
void Bf16WeightGrad(const ConvGeometry& g, const uint16_t* x,
                    const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                    ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_BF16_CONV_WEIGHT_GRAD_H_

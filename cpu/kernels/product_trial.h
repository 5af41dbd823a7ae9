#ifndef STOWAGE_CPU_KERNELS_PRODUCT_TRIAL_H_
#define STOWAGE_CPU_KERNELS_PRODUCT_TRIAL_H_

// By what a product's blocking is found: the product itself, or a part of it, with the
// strides of its operands, on other memory.
//
//   std::optional<BlockingTrial> trial = ProductTrial(m, n, k, a, b, pool.threads());

#include <cstdint>
#include <optional>

#include "cpu/blocking.h"
#include "cpu/kernels/gemm.h"

namespace stowage::cpu {

/// The trial of a (m, k) times b (k, n), of which strides are all that is looked at. None for
/// products too small to tell apart (kMinTrialWork), parts that span more than
/// kMaxTrialBytes, and where there is nothing to choose from.
template <typename T>
std::optional<BlockingTrial> ProductTrial(int64_t m, int64_t n, int64_t k,
                                          const Strided<T>& a,
                                          const Strided<T>& b, int threads);

extern template std::optional<BlockingTrial> ProductTrial(int64_t, int64_t,
                                                          int64_t,
                                                          const Strided<float>&,
                                                          const Strided<float>&,
                                                          int);
extern template std::optional<BlockingTrial> ProductTrial(
    int64_t, int64_t, int64_t, const Strided<double>&, const Strided<double>&,
    int);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_PRODUCT_TRIAL_H_

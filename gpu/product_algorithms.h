#ifndef STOWAGE_GPU_PRODUCT_ALGORITHMS_H_
#define STOWAGE_GPU_PRODUCT_ALGORITHMS_H_

// The autotuned algorithms of the matmul library, kept in a file for one device and one
// version of the library (runtime/autotune_cache.h).
//
//   STOWAGE_ASSIGN_OR_RETURN(
//       ProductAlgorithms algorithms,
//       ProductAlgorithms::Open(folder, "NVIDIA H100 80GB HBM3", "cuBLASLt 130100"));
//   if (!algorithms.Find(key)) {
//     STOWAGE_ASSIGN_OR_RETURN(const size_t fastest, ChooseFastest(8, seconds));
//     STOWAGE_ASSIGN_OR_RETURN(ProductAlgorithm kept,
//                              algorithms.Keep(key, proposals[fastest]));
//   }

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "runtime/autotune_cache.h"

namespace stowage::gpu {

/// Determines the choice: types, sizes, strides, epilogue, alignments and scratch.
using ProductKey = std::array<int64_t, 19>;
/// The library's opaque description of an algorithm.
using ProductAlgorithm = std::array<uint64_t, 8>;

class ProductAlgorithms {
 public:
  /// Errors: those of AutotuneCache::Open.
  static Result<ProductAlgorithms> Open(const std::string& folder,
                                        std::string_view device,
                                        std::string_view library);

  std::optional<ProductAlgorithm> Find(const ProductKey& key) const;

  /// Keeps an algorithm, and returns the kept one: see AutotuneCache::Keep.
  Result<ProductAlgorithm> Keep(const ProductKey& key,
                                const ProductAlgorithm& algorithm);

  const std::string& path() const { return kept_.path(); }

 private:
  explicit ProductAlgorithms(AutotuneCache kept) : kept_(std::move(kept)) {}

  AutotuneCache kept_;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_PRODUCT_ALGORITHMS_H_

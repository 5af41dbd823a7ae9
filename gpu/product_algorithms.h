#ifndef STOWAGE_GPU_PRODUCT_ALGORITHMS_H_
#define STOWAGE_GPU_PRODUCT_ALGORITHMS_H_

// By which of the matrix library's algorithms each product is computed, once the
// proposals were timed: kept in a file of one device and one version of the library
// (runtime/autotune_cache.h), since an algorithm means nothing to others.
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

/// What the choice depends on: types, sizes, strides, epilogue, alignments and scratch.
using ProductKey = std::array<int64_t, 19>;
/// An algorithm as the library describes it to itself.
using ProductAlgorithm = std::array<uint64_t, 8>;

class ProductAlgorithms {
 public:
  /// Errors: those of AutotuneCache::Open.
  static Result<ProductAlgorithms> Open(const std::string& folder,
                                        std::string_view device,
                                        std::string_view library);

  std::optional<ProductAlgorithm> Find(const ProductKey& key) const;

  /// Keeps an algorithm, and returns what is kept: see AutotuneCache::Keep.
  Result<ProductAlgorithm> Keep(const ProductKey& key,
                                const ProductAlgorithm& algorithm);

  const std::string& path() const { return kept_.path(); }

 private:
  explicit ProductAlgorithms(AutotuneCache kept) : kept_(std::move(kept)) {}

  AutotuneCache kept_;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_PRODUCT_ALGORITHMS_H_

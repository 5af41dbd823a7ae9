#ifndef STOWAGE_GPU_PRODUCT_ALGORITHMS_H_
#define STOWAGE_GPU_PRODUCT_ALGORITHMS_H_

// By which of the matrix library's algorithms each product is computed, once the
// proposals were timed: kept in a file, so that the next process computes the same
// product in the same way, to the bit, and need not time it again.
//
//   STOWAGE_ASSIGN_OR_RETURN(
//       ProductAlgorithms algorithms,
//       ProductAlgorithms::Open(folder, "NVIDIA H100 80GB HBM3", "cuBLASLt 130100"));
//   if (!algorithms.Find(key)) {
//     STOWAGE_ASSIGN_OR_RETURN(const size_t fastest, ChooseFastest(8, seconds));
//     STOWAGE_ASSIGN_OR_RETURN(ProductAlgorithm kept,
//                              algorithms.Keep(key, proposals[fastest]));
//   }
//
// The file is text, a product a line, of one device and one version of the library,
// which are in its name: an algorithm means nothing to others. Many processes may add
// to it at once; of two that timed one product at the same time, both take what the
// first wrote. A line that a killed process left half written is cut off.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stowage::gpu {

/// What the choice depends on: types, sizes, strides, epilogue, alignments and scratch.
using ProductKey = std::array<int64_t, 19>;
/// An algorithm as the library describes it to itself.
using ProductAlgorithm = std::array<uint64_t, 8>;

class ProductAlgorithms {
 public:
  /// Reads what is kept of this device and library in `folder`, which need not be
  /// there. Errors: kIo; kInvalidArgument for a file that is damaged, which is never
  /// taken for an empty one, since other algorithms give other bits.
  static Result<ProductAlgorithms> Open(const std::string& folder,
                                        std::string_view device,
                                        std::string_view library);

  std::optional<ProductAlgorithm> Find(const ProductKey& key) const;

  /// Adds a product to the file, and returns what is kept of it there: `algorithm`,
  /// or what another process kept before. Errors: kIo; those of Open.
  Result<ProductAlgorithm> Keep(const ProductKey& key,
                                const ProductAlgorithm& algorithm);

  const std::string& path() const { return path_; }

 private:
  // Takes in the file's lines; returns the bytes that whole lines take.
  Result<size_t> Read(std::string_view text);

  std::string path_;
  std::map<ProductKey, ProductAlgorithm> kept_;
};

/// The index of the fastest of `count` candidates. `seconds(i)` runs the i-th and says
/// how long it took: once for nothing, then all in turn for a few rounds, of which the
/// shortest time of each counts. One that fails is left out. Earlier candidates are
/// preferred by 2 %, which is more than the same work differs by. Error: that of the
/// first candidate, when all fail. Precondition: count > 0.
Result<size_t> ChooseFastest(
    size_t count, const std::function<Result<double>(size_t)>& seconds);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_PRODUCT_ALGORITHMS_H_

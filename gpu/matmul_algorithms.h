#ifndef STOWAGE_GPU_MATMUL_ALGORITHMS_H_
#define STOWAGE_GPU_MATMUL_ALGORITHMS_H_

// Caches the autotuned algorithms of the matmul library (gpu/cublas_lt.h) in a file, for one device
// model and one version of the library (runtime/autotune_cache.h).
//
//   STOWAGE_ASSIGN_OR_RETURN(
//       MatMulAlgorithms algorithms,
//       MatMulAlgorithms::Open(folder, "NVIDIA H100 80GB HBM3", "cuBLASLt 130100"));
//   if (!algorithms.Find(key)) {
//     STOWAGE_ASSIGN_OR_RETURN(const size_t fastest, ChooseFastest(8, seconds));
//     STOWAGE_ASSIGN_OR_RETURN(MatMulAlgorithm kept,
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

/// The properties that determine the choice: types, sizes, strides, epilogue, alignments and
/// workspace bytes.
using MatMulKey = std::array<int64_t, 19>;
/// The library's opaque description of an algorithm.
using MatMulAlgorithm = std::array<uint64_t, 8>;

class MatMulAlgorithms {
 public:
  /// Opens the cache in `folder`, which need not exist, for the device and the library with these
  /// names. Propagates errors of AutotuneCache::Open.
  static Result<MatMulAlgorithms> Open(const std::string& folder,
                                       std::string_view device,
                                       std::string_view library);

  std::optional<MatMulAlgorithm> Find(const MatMulKey& key) const;

  /// Stores an algorithm, and returns the algorithm that must be used: `algorithm`, or the
  /// algorithm that another process has stored before. Propagates errors of AutotuneCache::Keep.
  Result<MatMulAlgorithm> Keep(const MatMulKey& key,
                               const MatMulAlgorithm& algorithm);

  const std::string& path() const { return kept_.path(); }

 private:
  explicit MatMulAlgorithms(AutotuneCache kept) : kept_(std::move(kept)) {}

  AutotuneCache kept_;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_MATMUL_ALGORITHMS_H_

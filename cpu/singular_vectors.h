#ifndef STOWAGE_CPU_SINGULAR_VECTORS_H_
#define STOWAGE_CPU_SINGULAR_VECTORS_H_

// Computes the largest singular values of a matrix and their singular vectors, by Golub-Kahan
// bidiagonalization (1965) with full reorthogonalization.
//
//   SingularVectors top = PrincipalSingularVectors(matrix, /*rows=*/576, /*columns=*/1536, 8);
//   // matrix ~ left diag(values) right
//
// An iteration multiplies the matrix by a vector and its transpose by another, in f32. The largest
// values converge in tens to hundreds of iterations, and in at most as many as the length of the
// matrix's shorter side.

#include <cstdint>
#include <span>
#include <vector>

namespace stowage {

/// The r largest singular values, with their vectors. `values` (r) is in descending order. `left`
/// (rows, r) and `right` (r, columns) are row-major.
struct SingularVectors {
  std::vector<double> values, left, right;
};

/// Returns the `rank` largest singular values of a row-major matrix and their vectors. The
/// estimated residuals are at most 1e-6 of the largest value, without the rounding errors of the
/// f32 matmuls. The result is deterministic, but the sign of a pair of vectors is arbitrary.
/// Requires that all numbers are finite, that 1 <= rank <= min(rows, columns), and that `matrix`
/// has rows * columns elements. Iteration i takes O(rows columns + (rows + columns) i) time.
/// Convergence is checked after 2 rank + 16 iterations and then each time their number has grown by
/// a quarter. The check after iteration i takes O(i^3) time.
SingularVectors PrincipalSingularVectors(std::span<const float> matrix,
                                         int64_t rows, int64_t columns,
                                         int64_t rank);

}  // namespace stowage

#endif  // STOWAGE_CPU_SINGULAR_VECTORS_H_

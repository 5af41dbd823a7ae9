#ifndef STOWAGE_CPU_SINGULAR_VECTORS_H_
#define STOWAGE_CPU_SINGULAR_VECTORS_H_

// Computes the largest singular values of a matrix and their vectors. Uses Golub-Kahan
// bidiagonalization (1965) with full reorthogonalization.
//
//   SingularVectors top = PrincipalSingularVectors(matrix, /*rows=*/576, /*columns=*/1536, 8);
//   // matrix ~ left diag(values) right
//
// An iteration multiplies the matrix and its transpose by a vector. The largest values converge
// in tens to hundreds of iterations, and in at most as many as the length of the matrix's
// shorter side.

#include <cstdint>
#include <span>
#include <vector>

namespace stowage {

/// A decomposition of rank r. `values` (r) is in descending order. `left` (rows, r) and `right`
/// (r, columns) are row-major.
struct SingularVectors {
  std::vector<double> values, left, right;
};

/// Returns the `rank` largest singular values of a row-major matrix, with residuals of at most
/// 1e-6 of the largest value. The result is deterministic, but the sign of a pair of vectors is
/// arbitrary. Requires that all numbers are finite and that 1 <= rank <= min(rows, columns).
/// Iteration i takes O(rows columns + (rows + columns) i) time.
SingularVectors PrincipalSingularVectors(std::span<const float> matrix,
                                         int64_t rows, int64_t columns,
                                         int64_t rank);

}  // namespace stowage

#endif  // STOWAGE_CPU_SINGULAR_VECTORS_H_

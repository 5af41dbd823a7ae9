#ifndef STOWAGE_CPU_SINGULAR_VECTORS_H_
#define STOWAGE_CPU_SINGULAR_VECTORS_H_

// The largest singular values of a matrix and their vectors, by Golub-Kahan
// bidiagonalization (1965) with full reorthogonalization.
//
//   SingularVectors top = PrincipalSingularVectors(matrix, /*rows=*/576, /*columns=*/1536, 8);
//   // matrix ~ left diag(values) right
//
// An iteration multiplies the matrix and its transpose by a vector. The largest values
// converge in tens to hundreds of iterations, at most the shorter side of the matrix.

#include <cstdint>
#include <span>
#include <vector>

namespace stowage {

/// Rank r: values (r) in descending order; left (rows, r) and right (r, columns), row-major.
struct SingularVectors {
  std::vector<double> values, left, right;
};

/// The `rank` largest singular values of a row-major matrix, with residuals of at most 1e-6
/// of the largest. Deterministic; the sign of a pair of vectors is arbitrary. Preconditions:
/// all numbers are finite; 1 <= rank <= min(rows, columns). Iteration i takes
/// O(rows columns + (rows + columns) i) time.
SingularVectors PrincipalSingularVectors(std::span<const float> matrix,
                                         int64_t rows, int64_t columns,
                                         int64_t rank);

}  // namespace stowage

#endif  // STOWAGE_CPU_SINGULAR_VECTORS_H_

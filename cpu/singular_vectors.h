#ifndef STOWAGE_CPU_SINGULAR_VECTORS_H_
#define STOWAGE_CPU_SINGULAR_VECTORS_H_

// The largest singular values of a matrix with their vectors, by the bidiagonalization of
// Golub and Kahan (1965), whose vectors are all kept orthogonal.
//
//   SingularVectors top = PrincipalSingularVectors(matrix, /*rows=*/576, /*columns=*/1536, 8);
//   // matrix ~ left diag(values) right
//
// An iteration multiplies the matrix and its transpose by a vector. The largest values take
// some dozens to some hundreds of iterations to converge; with as many as the shorter side
// has elements they are exact.

#include <cstdint>
#include <span>
#include <vector>

namespace stowage {

/// Of rank r: values (r), which do not rise; left (rows, r) and right (r, columns), row-major.
struct SingularVectors {
  std::vector<double> values, left, right;
};

/// The `rank` largest of a row-major matrix, with residuals of at most 1e-6 of the largest.
/// Deterministic; the sign of a pair of vectors is arbitrary. Preconditions: all numbers are
/// finite; 1 <= rank <= rows and columns. Takes time with the matrix, and with both sides
/// times the iterations, for each iteration.
SingularVectors PrincipalSingularVectors(std::span<const float> matrix,
                                         int64_t rows, int64_t columns,
                                         int64_t rank);

}  // namespace stowage

#endif  // STOWAGE_CPU_SINGULAR_VECTORS_H_

#include "cpu/singular_vectors.h"

#include <Eigen/Core>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>

#include "base/result.h"

namespace stowage {
namespace {

using RowMajor =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Columns = Eigen::MatrixXd;  // vectors, one a column
using Vector = Eigen::VectorXd;

constexpr double kTolerance = 1e-6;

// In (-1, 1), by SplitMix64 of the place.
double ArbitraryNumber(uint64_t place) {
  uint64_t z = (place + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>(z >> 11) * 0x1p-52 - 1;
}

Vector ArbitraryVector(Eigen::Index size, Eigen::Index number) {
  Vector vector(size);
  for (Eigen::Index i = 0; i < size; ++i) {
    vector[i] = ArbitraryNumber(static_cast<uint64_t>(number * size + i));
  }
  return vector;
}

// Subtracts from `vector` its components in the first `count` columns, twice, which is enough
// (Giraud et al. 2005).
void MakeOrthogonal(const Columns& to, Eigen::Index count, Vector* vector) {
  for (int time = 0; time < 2; ++time) {
    const auto basis = to.leftCols(count);
    *vector -= basis * (basis.transpose() * *vector);
  }
}

// Makes `vector` column `at` of `basis`, orthogonal to the columns before it and of length 1.
// Returns its length; 0 if only rounding errors of `scale` were left, and the column is then
// arbitrary.
double Append(Vector vector, Eigen::Index at, double scale, Columns* basis) {
  constexpr double kRounding = 1e-12;
  MakeOrthogonal(*basis, at, &vector);
  const double length = vector.norm();
  if (length > kRounding * scale) {
    basis->col(at) = vector / length;
    return length;
  }
  vector = ArbitraryVector(vector.size(), at);
  MakeOrthogonal(*basis, at, &vector);
  basis->col(at) = vector.normalized();
  return 0;
}

// Products of a tall matrix, and of its transpose, with a vector, in memory order.
struct TallMatrix {
  Eigen::Map<const RowMajor> matrix;
  bool is_transposed = false;

  Eigen::Index rows() const {
    return is_transposed ? matrix.cols() : matrix.rows();
  }
  Eigen::Index columns() const {
    return is_transposed ? matrix.rows() : matrix.cols();
  }
  Vector Times(const Vector& x, bool transposed) const {
    const Eigen::VectorXf narrow = x.cast<float>();
    if (transposed != is_transposed) {
      return (matrix.transpose() * narrow).cast<double>();
    }
    return (matrix * narrow).cast<double>();
  }
};

// A V = U B and A^T U = V B^T + beta v e^T, with B upper bidiagonal.
class Bidiagonalization {
 public:
  explicit Bidiagonalization(const TallMatrix& a)
      : a_(a),
        scale_(a.matrix.cast<double>().norm()),
        left_(a.rows(), 0),
        right_(a.columns(), 1) {
    Append(ArbitraryVector(a.columns(), 0), 0, 0, &right_);
  }

  Eigen::Index size() const { return left_.cols(); }

  /// Iterates until U and V have `size` columns, at most as many as the matrix.
  void ExtendTo(Eigen::Index size) {
    const Eigen::Index before = this->size();
    const Eigen::Index last = a_.columns();
    left_.conservativeResize(Eigen::NoChange, size);
    right_.conservativeResize(Eigen::NoChange, std::min(size + 1, last));
    alphas_.conservativeResize(size);
    betas_.conservativeResize(size);
    for (Eigen::Index j = before; j < size; ++j) {
      alphas_[j] = Append(a_.Times(right_.col(j), false), j, scale_, &left_);
      betas_[j] = j + 1 == last ? 0
                                : Append(a_.Times(left_.col(j), true), j + 1,
                                         scale_, &right_);
    }
  }

  /// The principal ones, if they have converged.
  bool Find(Eigen::Index rank, SingularVectors* found, bool transposed) const {
    const Eigen::Index k = size();
    Columns b = Columns::Zero(k, k);
    b.diagonal() = alphas_;
    b.diagonal(1) = betas_.head(k - 1);
    const Eigen::BDCSVD<Columns> svd(b,
                                     Eigen::ComputeThinU | Eigen::ComputeThinV);
    const auto& values = svd.singularValues();
    const double residual =
        betas_[k - 1] *
        svd.matrixU().row(k - 1).head(rank).cwiseAbs().maxCoeff();
    if (residual > kTolerance * values[0]) return false;
    const Columns left = left_ * svd.matrixU().leftCols(rank);
    const Columns right = right_.leftCols(k) * svd.matrixV().leftCols(rank);
    Put(transposed ? right : left, transposed ? left : right, found);
    found->values.assign(values.data(), values.data() + rank);
    return true;
  }

 private:
  static void Put(const Columns& left, const Columns& right,
                  SingularVectors* found) {
    for (Eigen::Index row = 0; row < left.rows(); ++row) {
      for (Eigen::Index i = 0; i < left.cols(); ++i) {
        found->left.push_back(left(row, i));
      }
    }
    found->right.assign(right.data(), right.data() + right.size());
  }

  const TallMatrix& a_;
  const double scale_;  // the matrix's norm
  Columns left_, right_;
  Vector alphas_, betas_;
};

}  // namespace

SingularVectors PrincipalSingularVectors(std::span<const float> matrix,
                                         int64_t rows, int64_t columns,
                                         int64_t rank) {
  STOWAGE_CHECK(rank >= 1 && rank <= std::min(rows, columns));
  STOWAGE_CHECK(std::ssize(matrix) == rows * columns);
  const TallMatrix tall{{matrix.data(), rows, columns},
                        /*is_transposed=*/rows < columns};
  Bidiagonalization bidiagonal(tall);
  SingularVectors found;
  for (Eigen::Index size = 2 * rank + 16;; size += size / 4) {
    bidiagonal.ExtendTo(std::min(size, tall.columns()));
    if (bidiagonal.Find(rank, &found, tall.is_transposed)) return found;
    // Then betas end with 0.
    STOWAGE_CHECK(bidiagonal.size() < tall.columns());
  }
}

}  // namespace stowage

// Principal singular values and vectors of matrices whose decomposition is known.

#include "cpu/singular_vectors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace stowage {
namespace {

using Numbers = std::vector<double>;

// `count` orthonormal rows of `size` numbers, by Gram and Schmidt.
std::vector<Numbers> OrthonormalRows(int64_t count, int64_t size,
                                     unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Numbers> rows;
  while (std::ssize(rows) < count) {
    Numbers row;
    for (int64_t i = 0; i < size; ++i) {
      row.push_back(static_cast<double>(random() % 2001) / 1000 - 1);
    }
    for (int time = 0; time < 2; ++time) {
      for (const Numbers& other : rows) {
        double product = 0;
        for (size_t i = 0; i < row.size(); ++i) product += row[i] * other[i];
        for (size_t i = 0; i < row.size(); ++i) row[i] -= product * other[i];
      }
    }
    double squares = 0;
    for (const double x : row) squares += x * x;
    for (double& x : row) x /= std::sqrt(squares);
    rows.push_back(row);
  }
  return rows;
}

struct Known {
  int64_t rows = 0, columns = 0;
  Numbers values;
  std::vector<Numbers> left, right;  // a vector each
  std::vector<float> matrix;
};
Known Matrix(int64_t rows, int64_t columns, const Numbers& values) {
  const auto count = static_cast<int64_t>(values.size());
  Known known{rows,
              columns,
              values,
              OrthonormalRows(count, rows, 1),
              OrthonormalRows(count, columns, 2),
              {}};
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    for (size_t j = 0; j < static_cast<size_t>(columns); ++j) {
      double sum = 0;
      for (size_t k = 0; k < values.size(); ++k) {
        sum += known.left[k][i] * values[k] * known.right[k][j];
      }
      known.matrix.push_back(static_cast<float>(sum));
    }
  }
  return known;
}

// The largest difference of left diag(values) right from that of the known vectors, over the
// largest value.
double Difference(const Known& known, const SingularVectors& found) {
  const size_t rank = found.values.size();
  double worst = 0;
  for (size_t i = 0; i < static_cast<size_t>(known.rows); ++i) {
    for (size_t j = 0; j < static_cast<size_t>(known.columns); ++j) {
      double sum = 0;
      for (size_t k = 0; k < rank; ++k) {
        sum += known.left[k][i] * known.values[k] * known.right[k][j];
        sum -= found.left[i * rank + k] * found.values[k] *
               found.right[k * static_cast<size_t>(known.columns) + j];
      }
      worst = std::max(worst, std::abs(sum));
    }
  }
  return worst / known.values[0];
}

TEST_CASE("the principal vectors of tall, wide and square matrices") {
  for (const auto& sides :
       {std::pair<int64_t, int64_t>{60, 24}, {24, 60}, {40, 40}, {8, 8}}) {
    const int64_t rows = sides.first, columns = sides.second;
    CAPTURE(rows);
    CAPTURE(columns);
    Numbers values;
    for (int i = 0; i < 8; ++i) values.push_back(10.0 / (1 + i));
    const Known known = Matrix(rows, columns, values);
    for (const int64_t rank : {1, 3, 8}) {
      CAPTURE(rank);
      const SingularVectors found =
          PrincipalSingularVectors(known.matrix, rows, columns, rank);
      REQUIRE(std::ssize(found.values) == rank);
      REQUIRE(std::ssize(found.left) == rows * rank);
      REQUIRE(std::ssize(found.right) == columns * rank);
      for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
        CHECK(found.values[i] == doctest::Approx(values[i]).epsilon(1e-6));
      }
      CHECK(Difference(known, found) < 1e-6);
    }
  }
}

TEST_CASE("values that fall slowly need more iterations than the first try") {
  Numbers values;
  for (int i = 0; i < 200; ++i) values.push_back(1 - 0.002 * i);
  const Known known = Matrix(260, 220, values);
  const SingularVectors found =
      PrincipalSingularVectors(known.matrix, 260, 220, 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(found.values[i] == doctest::Approx(values[i]).epsilon(1e-6));
  }
  CHECK(Difference(known, found) < 1e-4);  // gaps are 0.002
}

TEST_CASE("values beyond the rank of a matrix are zero") {
  const Known known = Matrix(20, 12, {3, 2});
  const SingularVectors found =
      PrincipalSingularVectors(known.matrix, 20, 12, 4);
  CHECK(found.values[1] == doctest::Approx(2).epsilon(1e-6));
  CHECK(found.values[2] < 1e-6);
  CHECK(found.values[3] < 1e-6);
  for (const double x : found.left) CHECK(std::isfinite(x));
  const std::vector<float> zeros(20 * 12);
  const SingularVectors none = PrincipalSingularVectors(zeros, 20, 12, 2);
  CHECK(none.values == Numbers{0, 0});
  for (const double x : none.right) CHECK(std::isfinite(x));
}

TEST_CASE("vectors are orthonormal, and equal each time") {
  const Known known = Matrix(30, 50, {5, 5, 4, 1, 1, 1});
  const SingularVectors found =
      PrincipalSingularVectors(known.matrix, 30, 50, 6);
  for (size_t a = 0; a < 6; ++a) {
    for (size_t b = 0; b < 6; ++b) {
      double left = 0, right = 0;
      for (size_t i = 0; i < 30; ++i) {
        left += found.left[i * 6 + a] * found.left[i * 6 + b];
      }
      for (size_t i = 0; i < 50; ++i) {
        right += found.right[a * 50 + i] * found.right[b * 50 + i];
      }
      CHECK(left == doctest::Approx(a == b ? 1 : 0).epsilon(1e-9));
      CHECK(right == doctest::Approx(a == b ? 1 : 0).epsilon(1e-9));
    }
  }
  const SingularVectors again =
      PrincipalSingularVectors(known.matrix, 30, 50, 6);
  CHECK(again.left == found.left);
  CHECK(again.right == found.right);
}

}  // namespace
}  // namespace stowage

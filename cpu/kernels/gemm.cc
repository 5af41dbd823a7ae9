#include "cpu/kernels/gemm.h"

namespace stowage::cpu {
namespace {

// The element at (p, j) as it is wanted, one by one.
template <typename T>
void PackEach(int64_t k, int64_t n, Strided<T> b, T* packed, int64_t row) {
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) {
      packed[p * row + j] = b.data[p * b.row + j * b.column];
    }
  }
}

// Columns of b are contiguous: transposes squares of a register's size.
template <typename T>
void PackColumns(int64_t k, int64_t n, Strided<T> b, T* packed, int64_t row) {
  constexpr int kLanes = Vec<T>::kLanes;
  const int64_t whole_k = k - k % kLanes;
  const int64_t whole_n = n - n % kLanes;
  for (int64_t j = 0; j < whole_n; j += kLanes) {
    for (int64_t p = 0; p < whole_k; p += kLanes) {
      TransposeSquare(b.data + p + j * b.column, b.column, packed + p * row + j,
                      row);
    }
  }
  PackEach(k - whole_k, whole_n, b.At(whole_k, 0), packed + whole_k * row, row);
  PackEach(k, n - whole_n, b.At(0, whole_n), packed + whole_n, row);
}

}  // namespace

template <typename T>
void Pack(int64_t k, int64_t n, Strided<T> b, T* packed, int64_t row) {
  if (b.column == 1) {
    for (int64_t p = 0; p < k; ++p) {
      ForEachVec<T>(n, [&](auto at) {
        Vec<T> values = at.Load(b.data + p * b.row);
        values.Store(packed + p * row + at.index);
      });
    }
    return;
  }
  const int64_t used =
      n + (Vec<T>::kLanes - n % Vec<T>::kLanes) % Vec<T>::kLanes;
  for (int64_t p = 0; p < k; ++p) {
    std::fill(packed + p * row + n, packed + p * row + used, T(0));
  }
  if (b.row == 1) {
    PackColumns(k, n, b, packed, row);
  } else {
    PackEach(k, n, b, packed, row);
  }
}

template void Pack(int64_t, int64_t, Strided<float>, float*, int64_t);
template void Pack(int64_t, int64_t, Strided<double>, double*, int64_t);

}  // namespace stowage::cpu

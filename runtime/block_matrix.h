#ifndef STOWAGE_RUNTIME_BLOCK_MATRIX_H_
#define STOWAGE_RUNTIME_BLOCK_MATRIX_H_

// A matrix in its file's layout, in rows of blocks (ir/weight_type.h), as kernels see it.
//
//   const BlockMatrix w(launch.inputs[1], *launch.attrs);
//   w.data + row * w.row_bytes

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "ir/attrs.h"
#include "ir/weight_type.h"
#include "runtime/kernel.h"

namespace stowage {

struct BlockMatrix {
  /// `bytes` is u8(rows, bytes of a row), and the attribute "blocks" a type.
  BlockMatrix(const TensorView& bytes, const Attrs& attrs)
      : type(static_cast<WeightType>(attrs.Int("blocks"))),
        rows(bytes.shape()[0]),
        columns(*NumbersOf(type, bytes.shape()[1])),
        row_bytes(bytes.shape()[1]),
        data(bytes.data) {}

  WeightType type;
  int64_t rows, columns;  // in elements
  Bytes row_bytes;
  const std::byte* data;
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_BLOCK_MATRIX_H_

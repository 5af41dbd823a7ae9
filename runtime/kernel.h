#ifndef STOWAGE_RUNTIME_KERNEL_H_
#define STOWAGE_RUNTIME_KERNEL_H_

// A kernel's view of its launch: resolved addresses, types, strides and its workspace. A
// kernel is a pure function of its launch: it allocates nothing, takes no locks, throws
// nothing and reads no globals.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "ir/attrs.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"

namespace stowage {

/// The outcome of a step. Runner::Explain describes all but kOk.
enum class StepCode : uint8_t {
  kOk,
  kIndexOutOfRange,  // a label or an index outside [0, size)
  kInputsMissing,  // an input, param or state never written, or an input lost to another
                   // program's step
  kNonFinite,  // a result holds NaN or infinity; only if the check is requested
  kDeviceFault,  // the device failed, and will fail again
  kStepUnknown,  // never started, or too many have been started since
  kRankLost,     // another rank of the step, or its link, is lost
};

/// A tensor in the arena or in host memory (ir/graph.h states which). `data` is its first
/// element; strides are in elements.
struct TensorView {
  std::byte* data = nullptr;
  TensorType type;
  Strides strides;

  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
  int64_t size() const { return type.shape.num_elements(); }
  bool contiguous() const { return IsContiguous(type.shape, strides); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

class ControlFlow;  // runtime/control_flow.h

/// One kernel call. The spans point into the Program that owns it.
struct Launch {
  OpKind op = OpKind::kCopy;
  NodeId node = kNoNode;
  const Attrs* attrs = nullptr;
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  std::span<std::byte> workspace;  // as many bytes as the backend requested
  ControlFlow* control = nullptr;  // for a loop or a cond: its bodies
};

// A matrix in its file's layout, in rows of blocks (ir/weight_type.h), as kernels see it.
//
//   const BlockMatrix w(launch.inputs[1], *launch.attrs);
//   w.data + row * w.row_bytes

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

#endif  // STOWAGE_RUNTIME_KERNEL_H_

#ifndef STOWAGE_RUNTIME_KERNEL_H_
#define STOWAGE_RUNTIME_KERNEL_H_

// Defines Launch, the arguments of a kernel: resolved addresses, types, strides and workspace. A
// kernel is a pure function of its launch. It must not allocate memory, take locks, throw
// exceptions or read globals.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "ir/attrs.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"

namespace stowage {

/// The outcome of a step. Runner::Explain describes all codes except kOk.
enum class StepCode : uint8_t {
  kOk,
  kIndexOutOfRange,  // A label or an index is outside [0, size).
  // An input, param or state was never written, or an input or cache was lost
  // (runtime/session.h).
  kInputsMissing,
  // A result holds NaN or infinity. Returned only if the check is requested.
  kNonFinite,
  // The device has failed. Later steps will fail, too.
  kDeviceFault,
  // The step was never started, or too many steps have been started since.
  kStepUnknown,
  // Another rank of the step, or the link to it, is lost.
  kRankLost,
};

/// A tensor in the arena or, if ValueInfo::on_host is set for the value (ir/graph.h), in host
/// memory. `data` is the address of the first element. Strides are in elements.
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

/// One kernel call. The spans point into the Program that owns the launch.
struct Launch {
  OpKind op = OpKind::kCopy;
  NodeId node = kNoNode;
  const Attrs* attrs = nullptr;
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  // Has at least the size that Backend::Workspace returned for the node.
  std::span<std::byte> workspace;
  // The bodies of a loop or a cond, or null.
  ControlFlow* control = nullptr;
};

// BlockMatrix is a view of a quantized matrix, as kernels read it. The matrix has the layout of its
// file, in which rows consist of blocks (ir/weight_type.h).
//
//   const BlockMatrix w(launch.inputs[1], *launch.attrs);
//   w.data + row * w.row_bytes

struct BlockMatrix {
  /// Creates a view of `bytes`, which must have the type u8(rows, bytes of a row). The attribute
  /// "blocks" in `attrs` must be a WeightType.
  BlockMatrix(const TensorView& bytes, const Attrs& attrs)
      : type(static_cast<WeightType>(attrs.Int("blocks"))),
        rows(bytes.shape()[0]),
        columns(*NumbersOf(type, bytes.shape()[1])),
        row_bytes(bytes.shape()[1]),
        data(bytes.data) {}

  WeightType type;
  int64_t rows, columns;  // In elements.
  Bytes row_bytes;
  const std::byte* data;
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_KERNEL_H_

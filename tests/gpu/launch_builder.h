#ifndef STOWAGE_TESTS_GPU_LAUNCH_BUILDER_H_
#define STOWAGE_TESTS_GPU_LAUNCH_BUILDER_H_

// Builds kernel launches without a graph, for tests that graphs cannot express: results at any
// address, several launches in one call, or operands shared by two backends. Every operand has
// guards on both sides.
//
//   LaunchBuilder add(OpKind::kAdd);
//   add.Input(DType::kF32, {3}, {1, 2, 3});
//   add.Input(DType::kF32, {3}, {4, 5, 6});
//   add.Output(DType::kF32, {3});
//   gpu::GetKernel(OpKind::kAdd).enqueue(add.launch(), queue);
//   add.output(0);  // 5, 7, 9

#include <cstddef>
#include <deque>
#include <vector>

#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"
#include "tests/support/elements.h"

namespace stowage {

class LaunchBuilder {
 public:
  explicit LaunchBuilder(OpKind op, Attrs attrs = {})
      : op_(op), attrs_(std::move(attrs)) {}
  LaunchBuilder(const LaunchBuilder&) = delete;
  LaunchBuilder& operator=(const LaunchBuilder&) = delete;

  /// Adds a contiguous operand with these elements, rounded to `dtype`. It
  /// starts `shift` elements after an aligned address.
  void Input(DType dtype, const Shape& shape,
             const std::vector<double>& elements, size_t shift = 0) {
    TensorView view = Place(dtype, shape, shift);
    for (size_t i = 0; i < elements.size(); ++i) {
      EncodeElement(dtype, elements[i],
                    view.data + static_cast<Bytes>(i) * SizeOf(dtype));
    }
    inputs_.push_back(view);
  }
  /// Adds an operand that is shared with another launch.
  void Input(const TensorView& view) { inputs_.push_back(view); }
  /// Adds a result with its own memory.
  void Output(DType dtype, const Shape& shape, size_t shift = 0) {
    outputs_.push_back(Place(dtype, shape, shift));
  }
  /// Adds a result that overwrites operand `i`.
  void OutputOver(size_t i) { outputs_.push_back(inputs_[i]); }

  Launch launch() const {
    return {op_, kNoNode, &attrs_, inputs_, outputs_, {}};
  }
  const TensorView& input(size_t i) const { return inputs_[i]; }

  /// Returns the elements of result `i` in row-major order.
  std::vector<double> output(size_t i) const {
    const TensorView& view = outputs_[i];
    std::vector<double> elements;
    for (int64_t k = 0; k < view.size(); ++k) {
      elements.push_back(
          DecodeElement(view.dtype(), view.data + k * SizeOf(view.dtype())));
    }
    return elements;
  }
  /// Returns the bytes of result `i`.
  std::vector<std::byte> bytes(size_t i) const {
    const TensorView& view = outputs_[i];
    return {view.data, view.data + view.type.bytes()};
  }
  /// Returns whether no guard of an operand or result was overwritten.
  bool intact() const {
    for (const GuardedBuffer& buffer : buffers_) {
      if (!buffer.intact()) return false;
    }
    return true;
  }

 private:
  TensorView Place(DType dtype, const Shape& shape, size_t shift) {
    const TensorType type{dtype, shape};
    buffers_.emplace_back(type.bytes(), 256,
                          shift * static_cast<size_t>(SizeOf(dtype)));
    return {buffers_.back().data(), type, ContiguousStrides(shape)};
  }

  OpKind op_;
  Attrs attrs_;
  std::deque<GuardedBuffer> buffers_;  // a deque, as views point into them
  std::vector<TensorView> inputs_, outputs_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_LAUNCH_BUILDER_H_

#ifndef STOWAGE_PYTHON_ARRAYS_H_
#define STOWAGE_PYTHON_ARRAYS_H_

// Arrays of the caller's, in and out. What comes in is looked at where it lies, by the
// buffer protocol (NumPy, array, bytes) or by DLPack (PyTorch, JAX), and not copied
// here, unless i32 is wanted where NumPy and PyTorch make integers i64, or the other way;
// what goes out is an array of NumPy's.
//
//   const ArrayView x(object, "x");
//   x.CheckIs(TensorType{DType::kF32, {64, 10}});
//   runner.WriteBytes("x", x.type().dtype, x.data());

#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ir/tensor_type.h"
#include "python/dlpack.h"

namespace stowage::python {

/// The bytes of an array, held until this is gone.
class ArrayView {
 public:
  /// Raises, naming `what` it is for: TypeError for what is no array; WrongDType for
  /// elements that Stowage does not have; InvalidArgument for elements that do not lie
  /// row by row, one after the other, for an array on another device, and for what its own
  /// library does not give away.
  ArrayView(pybind11::handle object, std::string what);
  ArrayView(ArrayView&& other) noexcept;
  ArrayView& operator=(ArrayView&&) = delete;
  ~ArrayView();

  const TensorType& type() const { return type_; }
  std::span<const std::byte> data() const { return data_; }

  /// Raises WrongDType or InvalidArgument unless the array is of that type.
  void CheckIs(const TensorType& expected) const;
  /// The elements in the type that is wanted: where they lie, or, of i32 where i64 is
  /// wanted and the other way, in `converted`. Raises as CheckIs does, and
  /// InvalidArgument for a number that does not fit, with its place.
  std::span<const std::byte> As(const TensorType& wanted,
                                std::vector<std::byte>* converted) const;

 private:
  /// Fills buffer_; false where the object refuses, as for elements that no buffer can
  /// tell of, and offers DLPack, too.
  bool GetBuffer(pybind11::handle object);
  void TakeBuffer();
  void TakeDlpack(pybind11::handle object);
  /// What `f`, which asks the array's own library, returns. Raises InvalidArgument with the
  /// words in which that library refuses.
  template <typename F>
  auto Given(F&& f) const;
  std::string MessageOfOther(const TensorType& expected) const;
  void CheckIsPacked(std::span<const int64_t> strides, int64_t unit) const;

  std::string what_;
  TensorType type_;
  std::span<const std::byte> data_ = {};
  Py_buffer buffer_ = {};  // where obj is set
  dlpack::ManagedTensor* managed_ = nullptr;
};

/// The letter by which the buffer protocol calls a type. Raises Unsupported for bf16, which
/// has none.
char FormatOf(DType dtype);

/// The elements of `data` as a new array; those of bf16 widened to float32. By what NumPy
/// offers to Python: how its arrays lie in C differs between its versions.
pybind11::object ToNumpy(const TensorType& type,
                         std::span<const std::byte> data);

/// The way back: elements of float32 as bf16, each rounded to the nearest.
std::vector<std::byte> RoundToBF16(std::span<const std::byte> floats);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_ARRAYS_H_

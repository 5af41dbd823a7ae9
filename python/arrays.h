#ifndef STOWAGE_PYTHON_ARRAYS_H_
#define STOWAGE_PYTHON_ARRAYS_H_

// Passes arrays from and to Python. ArrayView views an array from Python in place, through the
// buffer protocol (NumPy, array, bytes) or DLPack (PyTorch, JAX). The elements are copied only to
// convert between i32 and i64. ToNumpy returns elements to Python as a NumPy array.
//
//   const ArrayView x(object, "x");
//   x.CheckIs(TensorType{DType::kF32, {64, 10}});
//   runner.WriteBytes("x", x.type().dtype, x.data());

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/tensor_type.h"

// DLPack's C structures, version 0, for capsules called "dltensor"
// (https://dmlc.github.io/dlpack/latest/c_api.html), with only the constants that are used here.
namespace stowage::python::dlpack {

inline constexpr int32_t kCpu = 1;

inline constexpr uint8_t kInt = 0;
inline constexpr uint8_t kUInt = 1;
inline constexpr uint8_t kFloat = 2;
inline constexpr uint8_t kBfloat = 4;
inline constexpr uint8_t kBool = 6;

struct Device {
  int32_t type;
  int32_t id;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null means row-major
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};

}  // namespace stowage::python::dlpack

namespace stowage::python {

/// A view of a Python array. The view keeps the array alive. All functions require the GIL, except
/// for type and data.
class ArrayView {
 public:
  /// Views `object`. `what` names it in errors. Raises TypeError, as pybind11::type_error instead
  /// of pybind11::error_already_set, if the object is not an array. Raises WrongDType for an
  /// unsupported element type. Raises InvalidArgument if the array is not contiguous, has more than
  /// kMaxRank dimensions or is not in host memory, or if its library refuses to export it.
  ArrayView(pybind11::handle object, std::string what);
  ArrayView(ArrayView&& other) noexcept;
  ArrayView& operator=(ArrayView&&) = delete;
  ~ArrayView();

  const TensorType& type() const { return type_; }
  std::span<const std::byte> data() const { return data_; }

  /// Raises WrongDType if the array has another element type than `expected`, and InvalidArgument
  /// if it has another shape.
  void CheckIs(const TensorType& expected) const;
  /// Checks the type as CheckIs does, but also accepts float32 if bf16 is expected, since ToNumpy
  /// returns bf16 as float32. Returns true if the array is such a float32 array, which the caller
  /// must round (RoundToBF16).
  bool CheckIsWeight(const TensorType& expected) const;
  /// Returns the elements with type `wanted`. If the array is i64 and `wanted` is i32, or the
  /// reverse, the elements are converted into `*converted`. Otherwise they are returned in place.
  /// Raises the exceptions of CheckIs. Raises InvalidArgument, with the position, for a number that
  /// does not fit.
  std::span<const std::byte> As(const TensorType& wanted,
                                std::vector<std::byte>* converted) const;

 private:
  /// Fills buffer_ and returns true. Returns false if the object refuses, for example because
  /// buffers do not support its element type, and the object supports DLPack.
  bool GetBuffer(pybind11::handle object);
  void TakeBuffer();
  void TakeDlpack(pybind11::handle object);
  /// Returns the result of `f`, which calls the array's library. If it throws, raises
  /// InvalidArgument with the library's message.
  template <typename F>
  auto Given(F&& f) const;
  std::string MessageOfOther(const TensorType& expected) const;
  void CheckIsPacked(std::span<const int64_t> strides, int64_t unit) const;

  std::string what_;
  TensorType type_;
  std::span<const std::byte> data_ = {};
  Py_buffer buffer_ = {};  // valid if its obj is set
  dlpack::ManagedTensor* managed_ = nullptr;
};

/// Returns the format character of a type in the buffer protocol. Raises Unsupported for bf16,
/// which has none.
char FormatOf(DType dtype);

/// Returns a new NumPy array of the elements. bf16 is widened to float32. Uses NumPy's Python API,
/// since NumPy's C structures differ between versions.
pybind11::object ToNumpy(const TensorType& type,
                         std::span<const std::byte> data);

/// Returns the bf16 elements to which the float32 elements `floats` round to nearest.
std::vector<std::byte> RoundToBF16(std::span<const std::byte> floats);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_ARRAYS_H_

#include "python/arrays.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "math/small_floats.h"
#include "python/errors.h"

namespace stowage::python {
namespace {

namespace py = pybind11;

// Format characters of the struct module, with native sizes.
std::optional<DType> DTypeOfFormat(std::string_view format, Py_ssize_t size) {
  if (!format.empty() && (format[0] == '@' || format[0] == '=' ||
                          format[0] == '<' || format[0] == '|')) {
    format.remove_prefix(1);
  }
  if (format.size() != 1) return {};
  switch (format[0]) {
    case '?':
      return DType::kBool;
    case 'B':
      return DType::kU8;
    case 'h':
      return DType::kI16;
    case 'e':
      return DType::kF16;
    case 'f':
      return DType::kF32;
    case 'd':
      return DType::kF64;
    case 'i':
    case 'l':
    case 'q':
      if (size == 4) return DType::kI32;
      if (size == 8) return DType::kI64;
      return {};
    default:
      return {};
  }
}

struct Misfit {
  size_t place;
  int64_t number;
};

// Converts integers; returns the index of the first that does not fit, if any.
template <typename From, typename To>
std::optional<Misfit> Convert(std::span<const std::byte> from,
                              std::span<std::byte> to) {
  for (size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From number;
    std::memcpy(&number, &from[i * sizeof(From)], sizeof(From));
    if (!std::in_range<To>(number)) return Misfit{i, number};
    const auto fitting = static_cast<To>(number);
    std::memcpy(&to[i * sizeof(To)], &fitting, sizeof(To));
  }
  return {};
}

std::optional<DType> DTypeOfDlpack(dlpack::DataType type) {
  if (type.lanes != 1) return {};
  switch (type.code << 8 | type.bits) {
    case dlpack::kFloat << 8 | 16:
      return DType::kF16;
    case dlpack::kFloat << 8 | 32:
      return DType::kF32;
    case dlpack::kFloat << 8 | 64:
      return DType::kF64;
    case dlpack::kBfloat << 8 | 16:
      return DType::kBF16;
    case dlpack::kInt << 8 | 16:
      return DType::kI16;
    case dlpack::kInt << 8 | 32:
      return DType::kI32;
    case dlpack::kInt << 8 | 64:
      return DType::kI64;
    case dlpack::kUInt << 8 | 8:
      return DType::kU8;
    case dlpack::kBool << 8 | 8:
      return DType::kBool;
    default:
      return {};
  }
}

Shape ShapeOf(const std::string& what, std::span<const int64_t> dims) {
  if (dims.size() <= kMaxRank) return Shape(dims);
  Raise("InvalidArgument",
        StrCat("[array] ", Quoted(what), " has ", dims.size(),
               " dimensions; expected at most ", kMaxRank));
}

}  // namespace

ArrayView::ArrayView(py::handle object, std::string what)
    : what_(std::move(what)) {
  if (PyObject_CheckBuffer(object.ptr()) && GetBuffer(object)) {
    TakeBuffer();
  } else if (py::hasattr(object, "__dlpack__")) {
    TakeDlpack(object);
  } else {
    throw py::type_error(StrCat(
        "[array] ", Quoted(what_), " is a ", Py_TYPE(object.ptr())->tp_name,
        ", which is no array; expected one of NumPy's, or what has a "
        "__dlpack__"));
  }
}

ArrayView::ArrayView(ArrayView&& other) noexcept
    : what_(std::move(other.what_)),
      type_(other.type_),
      data_(other.data_),
      buffer_(std::exchange(other.buffer_, {})),
      managed_(std::exchange(other.managed_, nullptr)) {}

ArrayView::~ArrayView() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  if (managed_ != nullptr && managed_->deleter != nullptr) {
    managed_->deleter(managed_);
  }
}

bool ArrayView::GetBuffer(py::handle object) {
  if (PyObject_GetBuffer(object.ptr(), &buffer_,
                         PyBUF_STRIDES | PyBUF_FORMAT) == 0) {
    return true;
  }
  buffer_.obj = nullptr;
  if (!PyErr_ExceptionMatches(PyExc_Exception)) throw py::error_already_set();
  const py::error_already_set raised;
  if (py::hasattr(object, "__dlpack__")) return false;
  Raise("InvalidArgument",
        StrCat("[array] ", Quoted(what_), " cannot be had by its buffer: ",
               std::string(py::str(raised.value()))));
}

void ArrayView::TakeBuffer() {
  // If this throws, the destructor does not run.
  try {
    const char* const format = buffer_.format ? buffer_.format : "B";
    const std::optional<DType> dtype = DTypeOfFormat(format, buffer_.itemsize);
    if (!dtype) {
      Raise("WrongDType",
            StrCat("[array] ", Quoted(what_), " has elements of the format ",
                   Quoted(format), ", which Stowage does not have; expected ",
                   "float64, float32, float16, int64, int32, int16, uint8 or "
                   "bool in this machine's byte order"));
    }
    const std::vector<int64_t> dims(buffer_.shape,
                                    buffer_.shape + buffer_.ndim);
    type_ = {*dtype, ShapeOf(what_, dims)};
    const std::vector<int64_t> strides(buffer_.strides,
                                       buffer_.strides + buffer_.ndim);
    CheckIsPacked(strides, buffer_.itemsize);
  } catch (...) {
    PyBuffer_Release(&buffer_);
    throw;
  }
  data_ = {static_cast<const std::byte*>(buffer_.buf),
           static_cast<size_t>(buffer_.len)};
}

// Refusals of the array's library, as for GPU tensors or ones that require gradients, are
// raised with its message. Exceptions other than Exception, such as an interrupt, propagate.
template <typename F>
auto ArrayView::Given(F&& f) const {
  std::string words;
  try {
    return f();
  } catch (py::error_already_set& raised) {
    if (!raised.matches(PyExc_Exception)) throw;
    words = py::str(raised.value());
  } catch (const std::runtime_error& failed) {  // pybind11's own
    words = failed.what();
  }
  Raise("InvalidArgument",
        StrCat("[array] ", Quoted(what_), " cannot be had by DLPack: ", words));
}

void ArrayView::TakeDlpack(py::handle object) {
  const int kind = Given([&] {
    return object.attr("__dlpack_device__")().cast<std::pair<int, int>>().first;
  });
  if (kind != dlpack::kCpu) {
    Raise("InvalidArgument",
          StrCat("[array] ", Quoted(what_),
                 " lies on a device of DLPack's kind ", kind,
                 "; expected the host's memory, kind 1; copy it there first "
                 "(.cpu())"));
  }
  const py::object capsule = Given([&]() -> py::object {
    py::object given = object.attr("__dlpack__")();
    if (PyCapsule_IsValid(given.ptr(), "dltensor")) return given;
    throw py::type_error(StrCat("its __dlpack__ gives a ",
                                Py_TYPE(given.ptr())->tp_name,
                                " that is no dltensor, or was used before"));
  });
  auto* const managed = static_cast<dlpack::ManagedTensor*>(
      PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  const dlpack::Tensor& tensor = managed->tensor;
  const std::optional<DType> dtype = DTypeOfDlpack(tensor.dtype);
  // The capsule owns the tensor until it is renamed.
  if (!dtype) {
    Raise("WrongDType",
          StrCat("[array] ", Quoted(what_), " has elements of DLPack's code ",
                 static_cast<int>(tensor.dtype.code), " and ",
                 static_cast<int>(tensor.dtype.bits),
                 " bits, which Stowage does not have"));
  }
  type_ = {*dtype,
           ShapeOf(what_, {tensor.shape, static_cast<size_t>(tensor.ndim)})};
  if (tensor.strides != nullptr) {
    CheckIsPacked({tensor.strides, static_cast<size_t>(tensor.ndim)}, 1);
  }
  if (PyCapsule_SetName(capsule.ptr(), "used_dltensor") != 0) {
    throw py::error_already_set();
  }
  managed_ = managed;
  data_ = {static_cast<const std::byte*>(tensor.data) + tensor.byte_offset,
           static_cast<size_t>(type_.bytes())};
}

void ArrayView::CheckIsPacked(std::span<const int64_t> strides,
                              int64_t unit) const {
  int64_t expected = unit;
  for (int i = type_.shape.rank() - 1; i >= 0; --i) {
    const int64_t dim = type_.shape[i];
    if (dim != 1 && strides[static_cast<size_t>(i)] != expected) {
      Raise("InvalidArgument",
            StrCat("[array] ", Quoted(what_), ", ", type_.ToString(),
                   ", does not lie row by row: elements along axis ", i,
                   " are ", strides[static_cast<size_t>(i)] / unit,
                   " apart, expected ", expected / unit,
                   "; give a copy that does (numpy.ascontiguousarray, "
                   ".contiguous())"));
    }
    expected *= dim;
  }
}

std::string ArrayView::MessageOfOther(const TensorType& expected) const {
  return StrCat("[array] ", Quoted(what_), " is ", type_.ToString(),
                "; expected ", expected.ToString());
}

void ArrayView::CheckIs(const TensorType& expected) const {
  if (type_ == expected) return;
  const std::string words = MessageOfOther(expected);
  if (type_.dtype != expected.dtype) {
    Raise("WrongDType", StrCat(words, "; convert it first (.astype, .to)"));
  }
  Raise("InvalidArgument", words);
}

bool ArrayView::CheckIsWeight(const TensorType& expected) const {
  const bool is_widened =
      expected.dtype == DType::kBF16 && type_.dtype == DType::kF32;
  CheckIs(is_widened ? TensorType{DType::kF32, expected.shape} : expected);
  return is_widened;
}

std::span<const std::byte> ArrayView::As(
    const TensorType& wanted, std::vector<std::byte>* converted) const {
  const bool narrows =
      type_.dtype == DType::kI64 && wanted.dtype == DType::kI32;
  const bool widens = type_.dtype == DType::kI32 && wanted.dtype == DType::kI64;
  if (!narrows && !widens) {
    CheckIs(wanted);
    return data_;
  }
  if (type_.shape != wanted.shape) {
    Raise("InvalidArgument", MessageOfOther(wanted));
  }
  converted->resize(static_cast<size_t>(wanted.bytes()));
  const std::optional<Misfit> misfit =
      widens ? Convert<int32_t, int64_t>(data_, *converted)
             : Convert<int64_t, int32_t>(data_, *converted);
  if (misfit) {
    Raise("InvalidArgument",
          StrCat("[array] ", Quoted(what_), " is ", type_.ToString(),
                 "; expected ", wanted.ToString(), ", where element ",
                 misfit->place, ", ", misfit->number, ", does not fit"));
  }
  return *converted;
}

char FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 'f';
    case DType::kF64:
      return 'd';
    case DType::kF16:
      return 'e';
    case DType::kI16:
      return 'h';
    case DType::kI32:
      return 'i';
    case DType::kI64:
      return 'q';
    case DType::kU8:
      return 'B';
    case DType::kBool:
      return '?';
    case DType::kBF16:
      break;
  }
  Raise("Unsupported",
        "[array] NumPy has no elements of bf16; a copy of them is in float32 "
        "(read, state_dict)");
}

py::object ToNumpy(const TensorType& type, std::span<const std::byte> data) {
  if (type.dtype == DType::kBF16) {
    std::vector<float> wide(data.size() / 2);
    for (size_t i = 0; i < wide.size(); ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, data.data() + 2 * i, 2);
      wide[i] = math::BFloat16ToFloat(bits);
    }
    return ToNumpy({DType::kF32, type.shape},
                   std::as_bytes(std::span<const float>(wide)));
  }
  py::list dims;
  for (const int64_t dim : type.shape) dims.append(dim);
  py::object array = py::module_::import("numpy").attr("empty")(
      dims, std::string(1, FormatOf(type.dtype)));
  Py_buffer buffer;
  if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_CONTIG) != 0) {
    throw py::error_already_set();
  }
  std::ranges::copy(data, static_cast<std::byte*>(buffer.buf));
  PyBuffer_Release(&buffer);
  return array;
}

std::vector<std::byte> RoundToBF16(std::span<const std::byte> floats) {
  std::vector<std::byte> rounded(floats.size() / 2);
  for (size_t i = 0; i < rounded.size(); i += 2) {
    float wide = 0;
    std::memcpy(&wide, floats.data() + 2 * i, 4);
    const uint16_t bits = math::FloatToBFloat16(wide);
    std::memcpy(rounded.data() + i, &bits, 2);
  }
  return rounded;
}

}  // namespace stowage::python

#ifndef STOWAGE_PYTHON_DLPACK_H_
#define STOWAGE_PYTHON_DLPACK_H_

// The structures by which libraries of Python hand each other tensors without copying,
// as DLPack's version 0 has them, in a capsule called "dltensor"
// (https://dmlc.github.io/dlpack/latest/c_api.html). Only what is read here is named.

#include <cstdint>

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
  int64_t* strides;  // in elements; null: as rows lie
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};

}  // namespace stowage::python::dlpack

#endif  // STOWAGE_PYTHON_DLPACK_H_

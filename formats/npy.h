#ifndef STOWAGE_FORMATS_NPY_H_
#define STOWAGE_FORMATS_NPY_H_

// Files of arrays: NumPy's NPY, one array (NEP 1), and NPZ, a ZIP archive of NPY files,
// stored (numpy.savez) or deflated (numpy.savez_compressed, which requires zlib); and IDX,
// the format of MNIST (yann.lecun.com/exdb/mnist).
//
//   Result<Array> x = ParseNpy(bytes, "x.npy");
//   Result<std::string> back = NpyBytes(*x);
//   Result<std::vector<NamedArray>> arrays = ParseNpz(bytes, "batches.npz");
//   Result<Array> labels = ParseIdx(bytes, "train-labels-idx1-ubyte");
//
// `origin` names the file in errors, which are kInvalidArgument unless stated.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/tensor_type.h"

namespace stowage {

/// The header of an NPY file.
struct NpyHeader {
  std::string type;  // as NumPy writes it: "<f4", "|u1"
  bool by_columns = false;
  Shape shape;
  size_t begin = 0;  // of the elements, in bytes
};

/// Parses the header at the start of `bytes`, which may end after it. Errors: not an NPY
/// file, an unknown version, a truncated header or one with other keys.
Result<NpyHeader> ReadNpyHeader(std::string_view bytes,
                                std::string_view origin);

/// The array in a file of version 1, 2 or 3: little-endian f16, f32, f64, i16, i32, i64, u8
/// or bool. An array in Fortran order is transposed to row-major.
Result<Array> ParseNpy(std::string_view bytes, std::string_view origin);

/// A file of version 1.0, as NumPy writes it. Error kUnsupported for bf16, which NumPy
/// lacks.
Result<std::string> NpyBytes(const Array& array);

/// The array in an IDX file, which may be compressed by gzip. Errors: not an IDX file, a
/// signed 8-bit type, no elements or too many, a size that does not match the dimensions;
/// those of Gunzip.
Result<Array> ParseIdx(std::string_view bytes, std::string_view origin);

/// The arrays of an NPZ file, in order, by their names without ".npy". Errors: not a ZIP
/// archive, one that is truncated, inconsistent or not supported (several disks, ZIP64,
/// encrypted), a duplicate name, a wrong checksum; those of ParseNpy and Inflate.
Result<std::vector<NamedArray>> ParseNpz(std::string_view bytes,
                                         std::string_view origin);

/// An NPZ file, stored, as numpy.savez writes it. Errors: a duplicate name or one longer
/// than 65,531 bytes, more than 65,534 arrays, 4 GiB or more; those of NpyBytes.
Result<std::string> NpzBytes(std::span<const NamedArray> arrays);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_NPY_H_

#ifndef STOWAGE_FORMATS_NPY_H_
#define STOWAGE_FORMATS_NPY_H_

// Reads and writes files of arrays. NPY is NumPy's format for one array (NEP 1). NPZ is a ZIP
// archive of NPY files, which are stored (numpy.savez) or deflated (numpy.savez_compressed).
// Reading deflated files requires zlib. IDX, which is only read, is the format of MNIST
// (yann.lecun.com/exdb/mnist).
//
//   Result<Array> x = ParseNpy(bytes, "x.npy");
//   Result<std::string> back = NpyBytes(*x);
//   Result<std::vector<NamedArray>> arrays = ParseNpz(bytes, "batches.npz");
//   Result<Array> labels = ParseIdx(bytes, "train-labels-idx1-ubyte");
//
// `origin` names the file in errors. Errors are kInvalidArgument unless stated otherwise.

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
  std::string type;         // in NumPy's notation: "<f4", "|u1"
  bool by_columns = false;  // Fortran order
  Shape shape;
  size_t begin = 0;  // offset of the first element in bytes
};

/// Parses the header at the start of `bytes`, which may end directly after it. Returns an error if
/// the bytes are not an NPY file, the version is unknown, or the header is truncated or has other
/// keys.
Result<NpyHeader> ReadNpyHeader(std::string_view bytes,
                                std::string_view origin);

/// Returns the array in an NPY file of version 1, 2 or 3. The elements must be little-endian f16,
/// f32, f64, i16, i32 or i64, or u8 or bool, and there must be at least one. An array in Fortran
/// order is converted to row-major order. Propagates errors of ReadNpyHeader. Also returns an error
/// if the data does not have the size of the shape.
Result<Array> ParseNpy(std::string_view bytes, std::string_view origin);

/// Returns the bytes of an NPY file of version 1.0, as NumPy writes it. Returns kUnsupported for
/// bf16, which NumPy does not have.
Result<std::string> NpyBytes(const Array& array);

/// Returns the array in an IDX file, which may be compressed with gzip. Returns an error if the
/// bytes are not an IDX file, the elements are signed 8-bit integers, the array has no elements or
/// too many, or its size does not match its dimensions. Propagates errors of Gunzip.
Result<Array> ParseIdx(std::string_view bytes, std::string_view origin);

/// Returns the arrays of an NPZ file, in the order of the file. The names omit the suffix ".npy".
/// Returns an error if the bytes are not a ZIP archive, or if the archive is truncated, is
/// inconsistent, uses an unsupported feature (several disks, ZIP64, encryption), contains another
/// kind of file, or has a repeated name or a wrong checksum. Propagates errors of ParseNpy and
/// Inflate.
Result<std::vector<NamedArray>> ParseNpz(std::string_view bytes,
                                         std::string_view origin);

/// Returns the bytes of an uncompressed NPZ file, as numpy.savez writes it. Returns an error if a
/// name is repeated or is longer than 65,531 bytes, or if there are more than 65,534 arrays or 4
/// GiB or more of data. Propagates errors of NpyBytes.
Result<std::string> NpzBytes(std::span<const NamedArray> arrays);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_NPY_H_

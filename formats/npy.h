#ifndef STOWAGE_FORMATS_NPY_H_
#define STOWAGE_FORMATS_NPY_H_

// NPY, NumPy's file of one array (NEP 1): a magic, a version, a header that is a
// Python dictionary, and the elements.
//
//   Result<Array> x = ParseNpy(bytes, "x.npy");
//   Result<std::string> back = NpyBytes(*x);

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/tensor_type.h"

namespace stowage {

/// What a file says of its elements, which begin at byte `begin`.
struct NpyHeader {
  std::string type;  // as NumPy writes it: "<f4", "|u1"
  bool by_columns = false;
  Shape shape;
  size_t begin = 0;
};

/// The header at the start of `bytes`, which may end behind it. `origin` names the file in
/// errors, kInvalidArgument: no NPY file, of another version, or a header that is cut or
/// has other keys.
Result<NpyHeader> ReadNpyHeader(std::string_view bytes,
                                std::string_view origin);

/// The array in `bytes`, of version 1, 2 or 3: little-endian f16, f32, f64, i16,
/// i32, i64, u8 or bool. An array in Fortran's order is put into rows. `origin`
/// names the file in errors, kInvalidArgument, with what is there and what was
/// expected.
Result<Array> ParseNpy(std::string_view bytes, std::string_view origin);

/// A file of version 1.0 as NumPy writes it. Error kUnsupported for bf16, for which
/// NumPy has no type.
Result<std::string> NpyBytes(const Array& array);

// IDX, the format of MNIST and its relatives (yann.lecun.com/exdb/mnist): two
// zero bytes, a byte for the type, one for the rank, dimensions as big-endian
// 32-bit numbers, and the elements.
//
//   Result<Array> labels = ParseIdx(bytes, "train-labels-idx1-ubyte");

/// The array in `bytes`, which a .gz may have compressed. `origin` names the file
/// in errors, kInvalidArgument, with what is there and what was expected: it is no
/// IDX file, its type has none here (8-bit integers with sign), it has no element
/// or too many, or its size is not what its dimensions say. Gunzip's too.
Result<Array> ParseIdx(std::string_view bytes, std::string_view origin);

// NPZ, NumPy's file of several arrays: a ZIP archive of NPY files, stored
// (numpy.savez) or deflated (numpy.savez_compressed, which takes zlib).
//
//   Result<std::vector<NamedArray>> arrays = ParseNpz(bytes, "batches.npz");

/// The arrays in `bytes`, in the order of the archive, by their names without
/// ".npy". `origin` names the file in errors, kInvalidArgument: no archive, one
/// that ends early, contradicts itself or is of a kind that is not read (several
/// disks, ZIP64, encrypted), a name that comes twice, a checksum that differs; and
/// those of ParseNpy and Inflate.
Result<std::vector<NamedArray>> ParseNpz(std::string_view bytes,
                                         std::string_view origin);

/// An archive as numpy.savez writes it, stored. Errors: a name that comes twice
/// or is longer than 65,531 bytes, more than 65,534 arrays, 4 GiB or more, and
/// NpyBytes'.
Result<std::string> NpzBytes(std::span<const NamedArray> arrays);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_NPY_H_

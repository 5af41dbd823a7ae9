#ifndef STOWAGE_FORMATS_NPY_H_
#define STOWAGE_FORMATS_NPY_H_

// NPY, NumPy's file of one array (NEP 1): a magic, a version, a header that is a
// Python dictionary, and the elements.
//
//   Result<Array> x = ParseNpy(bytes, "x.npy");
//   Result<std::string> back = NpyBytes(*x);

#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/array.h"

namespace stowage {

/// The array in `bytes`, of version 1, 2 or 3: little-endian f16, f32, f64, i16,
/// i32, i64, u8 or bool. An array in Fortran's order is put into rows. `origin`
/// names the file in errors, kInvalidArgument, with what is there and what was
/// expected.
Result<Array> ParseNpy(std::string_view bytes, std::string_view origin);

/// A file of version 1.0 as NumPy writes it. Error kUnsupported for bf16, for which
/// NumPy has no type.
Result<std::string> NpyBytes(const Array& array);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_NPY_H_

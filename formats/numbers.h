#ifndef STOWAGE_FORMATS_NUMBERS_H_
#define STOWAGE_FORMATS_NUMBERS_H_

// An array's elements as numbers, whatever their type is, and numbers as an array.
//
//   const std::vector<int64_t> dims = IntsOf(array);
//   const Array wide = ArrayOf(DType::kF64, array.type.shape, RealsOf(array));
//   Status usable = CheckFinite(array, DType::kF32, "d.npz:x");

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/tensor_type.h"

namespace stowage {

/// The elements as 64-bit integers, which hold all integers exactly. Reals are rounded
/// towards zero, to the outermost integer beyond 63 bits; NaN is 0.
std::vector<int64_t> IntsOf(const Array& array);

/// The elements as doubles, which hold all reals exactly, and integers up to 2^53.
std::vector<double> RealsOf(const Array& array);

/// An array of numbers in row-major order, each rounded to the dtype: reals to the
/// nearest, integers to their lowest bits, anything but 0 to true. Precondition: as many
/// as the shape has.
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<int64_t>& ints);
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<double>& reals);

/// That all elements are finite as elements of `dtype`, a type of reals. Error
/// kInvalidArgument, naming `origin`, which the array is of, the first place and what is
/// there. Whole numbers are finite.
Status CheckFinite(const Array& array, DType dtype, const std::string& origin);

/// That all elements, whole numbers, are from 0 up to `end`, which is none of them. Error
/// as above.
Status CheckRange(const Array& array, int64_t end, const std::string& origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_NUMBERS_H_

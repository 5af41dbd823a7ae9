#ifndef STOWAGE_FORMATS_IDX_H_
#define STOWAGE_FORMATS_IDX_H_

// IDX, the format of MNIST and its relatives (yann.lecun.com/exdb/mnist): two
// zero bytes, a byte for the type, one for the rank, dimensions as big-endian
// 32-bit numbers, and the elements.
//
//   Result<Array> labels = ParseIdx(bytes, "train-labels-idx1-ubyte");

#include <string_view>

#include "base/result.h"
#include "formats/array.h"

namespace stowage {

/// The array in `bytes`, which a .gz may have compressed. `origin` names the file
/// in errors, kInvalidArgument, with what is there and what was expected: it is no
/// IDX file, its type has none here (8-bit integers with sign), it has no element
/// or too many, or its size is not what its dimensions say. Gunzip's too.
Result<Array> ParseIdx(std::string_view bytes, std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_IDX_H_

#ifndef STOWAGE_FORMATS_SAFETENSORS_H_
#define STOWAGE_FORMATS_SAFETENSORS_H_

// The header of a safetensors file: JSON that names every tensor's type, shape
// and byte range in the data that follows it. This reader is strict, as the
// format asks: ranges must cover the data exactly, without gaps or overlaps. A tensor
// of a type that there is not here is in the way of nobody who does not ask for it.
//
//   {"__metadata__":{"step":"300"},"w":{"dtype":"F32","shape":[2,3],
//    "data_offsets":[0,24]}}

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/shape.h"

namespace stowage {

struct SafeTensor {
  std::string name;
  TensorType type;
  Bytes begin = 0;  // in the data, half-open
  Bytes end = 0;
  /// What the file says it is, "F8_E4M3(2, 3)", where no type here can be that: of
  /// another dtype, of no elements, of too many dimensions. Else empty; `type` is
  /// meant only then.
  std::string foreign = {};
};

struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<SafeTensor> tensors;  // in the order of their bytes

  /// The metadata under `key`, or null.
  const std::string* Find(std::string_view key) const;
};

/// The header's JSON, padded with spaces to a multiple of 8 bytes. Precondition: no
/// tensor is foreign.
std::string FormatSafetensorsHeader(const SafetensorsHeader& header);

/// What a file begins with, before its data: the header's length, and the header.
std::string SafetensorsPrefix(const SafetensorsHeader& header);

/// Parses and checks a header for `data_bytes` bytes of data, in n log n of its
/// length. Errors name the position in the header, or the tensor whose range is
/// wrong.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text,
                                                 Bytes data_bytes);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_SAFETENSORS_H_

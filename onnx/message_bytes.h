#ifndef STOWAGE_ONNX_MESSAGE_BYTES_H_
#define STOWAGE_ONNX_MESSAGE_BYTES_H_

// What protobuf would allocate for a file, told before it does: an empty node is two
// bytes of a file, and a hundred and fifty of memory.
//
//   const std::optional<Bytes> taken = BytesOfMessages(file);
//   if (!taken || *taken > limit) ...  // do not parse it

#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace stowage::onnx {

/// The most that the messages, texts and lists of `model`, a ModelProto as bytes, take
/// of the heap while they are parsed; absent where a field in it is not whole, as in a
/// file that ends early. Linear in the number of fields.
std::optional<Bytes> BytesOfMessages(std::string_view model);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_MESSAGE_BYTES_H_

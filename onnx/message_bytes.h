#ifndef STOWAGE_ONNX_MESSAGE_BYTES_H_
#define STOWAGE_ONNX_MESSAGE_BYTES_H_

// What protobuf would allocate for the messages of a file, told before it does: an empty
// node is two bytes of a file, and two hundred of memory.
//
//   if (BytesOfMessages(file) > limit) ...  // do not parse it

#include <string_view>

#include "base/bytes.h"

namespace stowage::onnx {

/// The bytes of all messages and of all texts in lists that `model`, a ModelProto as
/// bytes, holds, their contents aside: those are no more than the file's. Bytes that are no
/// ModelProto are counted as far as they can be read. Linear in the messages' number.
Bytes BytesOfMessages(std::string_view model);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_MESSAGE_BYTES_H_

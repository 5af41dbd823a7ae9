#ifndef STOWAGE_ONNX_PARSE_MODEL_H_
#define STOWAGE_ONNX_PARSE_MODEL_H_

// Parses the bytes of an ONNX file within bounded memory. A message of no fields takes two
// bytes of a file and a hundred and fifty of memory, so the memory that the messages take
// is read from their arena while they are parsed, and parsing stops at the limit.
//
//   google::protobuf::Arena arena;
//   Result<pb::ModelProto*> model = ParseModel(file, path, &arena);

#include <google/protobuf/arena.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// The model, a message of `arena`, which must be new; `path` names the file in errors.
/// kInvalidArgument: `bytes` are no ModelProto, end early, or hold more messages than the
/// models of any exporter: they may take 32 times the file and 1 MiB of memory, 1 GiB at
/// most, beside texts and weights, which take their size in the file.
Result<pb::ModelProto*> ParseModel(std::string_view bytes,
                                   const std::string& path,
                                   google::protobuf::Arena* arena);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_PARSE_MODEL_H_

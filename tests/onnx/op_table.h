#ifndef STOWAGE_TESTS_ONNX_OP_TABLE_H_
#define STOWAGE_TESTS_ONNX_OP_TABLE_H_

// docs/reference/onnx_ops.md, made from the table of the ops that are imported.

#include <string>

namespace stowage {

std::string OnnxOpTable();

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_OP_TABLE_H_

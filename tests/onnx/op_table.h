#ifndef STOWAGE_TESTS_ONNX_OP_TABLE_H_
#define STOWAGE_TESTS_ONNX_OP_TABLE_H_

// Generates docs/reference/onnx_ops.md from the table of supported ONNX ops.

#include <string>

namespace stowage {

std::string OnnxOpTable();

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_OP_TABLE_H_

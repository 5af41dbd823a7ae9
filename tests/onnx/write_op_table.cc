// Prints docs/reference/onnx_ops.md.

#include <iostream>

#include "tests/onnx/op_table.h"

int main() { std::cout << stowage::OnnxOpTable(); }

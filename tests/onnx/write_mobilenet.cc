// Writes the MobileNetV2 of tests/compile/mobilenet_test.cc to a file: write_mobilenet FILE.onnx

#include <fstream>
#include <iostream>

#include "tests/onnx/mobilenet.h"

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "write_mobilenet: expected the path of a file\n";
    return 2;
  }
  std::ofstream file(arguments[1], std::ios::binary);
  file << stowage::testing::MobileNetV2({.width = 0.35, .side = 96});
  return file.flush() ? 0 : 1;
}

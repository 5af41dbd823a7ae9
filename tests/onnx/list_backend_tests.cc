// Prints the backend tests that fail, and why, as tests/onnx/not_taken.txt holds them:
//
//   bazel run //tests/onnx:list_backend_tests > tests/onnx/not_taken.txt

#include <iostream>
#include <string>

#include "tests/onnx/backend_tests.h"

int main() {
  for (const char* const kind :
       {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    for (const std::string& name : stowage::BackendTests(kind)) {
      const std::string wrong = stowage::RunBackendTest(kind, name);
      if (!wrong.empty()) {
        std::cout << kind << "/" << name << ": " << wrong << std::endl;
      }
    }
  }
}

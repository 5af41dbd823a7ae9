#ifndef STOWAGE_TESTS_ONNX_BACKEND_TESTS_H_
#define STOWAGE_TESTS_ONNX_BACKEND_TESTS_H_

// ONNX's own tests of what reads its files: a model of a node or a few, inputs, and the
// outputs that they give (Debian's libonnx-testdata).
//
//   for (const std::string& name : BackendTests("node")) {
//     const std::string wrong = RunBackendTest("node", name);
//   }

#include <string>
#include <vector>

namespace stowage {

/// Names of the tests of a kind: "node", "simple", "pytorch-converted",
/// "pytorch-operator"; none where the package is not installed.
std::vector<std::string> BackendTests(const std::string& kind);

/// Why the test fails, in a word or two that stand for many tests; "" where it passes.
/// An input that a plan must know is given as a constant.
std::string RunBackendTest(const std::string& kind, const std::string& name);

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_BACKEND_TESTS_H_

#ifndef STOWAGE_TESTS_ONNX_BACKEND_TESTS_H_
#define STOWAGE_TESTS_ONNX_BACKEND_TESTS_H_

// Runs ONNX's backend tests, which Debian's package libonnx-testdata contains. A test has a model
// with one or a few nodes, inputs, and the expected outputs.
//
//   for (const std::string& name : BackendTests("node")) {
//     const std::string wrong = RunBackendTest("node", name);
//   }

#include <string>
#include <vector>

namespace stowage {

/// Returns the names of the tests of a kind, which is "node", "simple", "pytorch-converted" or
/// "pytorch-operator". Returns none if the package is not installed.
std::vector<std::string> BackendTests(const std::string& kind);

/// Runs a test. Returns "" if it passes, and otherwise the reason in a few words, which are the
/// same for similar tests. An input whose value the plan needs is passed as a constant.
std::string RunBackendTest(const std::string& kind, const std::string& name);

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_BACKEND_TESTS_H_

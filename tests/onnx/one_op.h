#ifndef STOWAGE_TESTS_ONNX_ONE_OP_H_
#define STOWAGE_TESTS_ONNX_ONE_OP_H_

// Builds an ONNX model with one node and runs it once.
//
//   const auto y = Run({.op = "Resize", .operands = {"x", "", "scales"},
//                       .inputs = {{"x", Floats({1, 1, 4}, {1, 2, 3, 4})}},
//                       .constants = {{"scales", Floats({3}, {1, 1, 2})}}});

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.pb.h"

namespace stowage {

struct OneOp {
  std::string op;
  int64_t version = 21;                    // version of the operator set
  std::vector<std::string> operands;       // names; "" omits an operand
  std::vector<NamedArray> inputs = {};     // written before the step
  std::vector<NamedArray> constants = {};  // known when the graph is built
  std::function<void(onnx::pb::NodeProto&)> attributes = {};
  int results = 1;
  int64_t seed = 1, step = 1;  // for ops that draw random numbers
};

/// Returns the results of the node. Propagates errors of the import, of planning and of the step.
Result<std::vector<Array>> Run(const OneOp& op);

Array Floats(const Shape& shape, const std::vector<float>& numbers);
Array Ints(const Shape& shape, const std::vector<int64_t>& numbers);

void SetInt(onnx::pb::NodeProto& node, const std::string& name, int64_t value);
void SetFloat(onnx::pb::NodeProto& node, const std::string& name, float value);
void SetText(onnx::pb::NodeProto& node, const std::string& name,
             const std::string& value);
void SetInts(onnx::pb::NodeProto& node, const std::string& name,
             const std::vector<int64_t>& values);

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_ONE_OP_H_

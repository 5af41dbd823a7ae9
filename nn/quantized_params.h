#ifndef STOWAGE_NN_QUANTIZED_PARAMS_H_
#define STOWAGE_NN_QUANTIZED_PARAMS_H_

// Converts graphs to read quantized frozen matrices. Some params of a floating-point graph become
// u8 tensors with rows of quantized blocks (ir/weight_type.h), as in the file of the model. The
// nodes that read these params dequantize them. The base model of adapters (nn/lora.h) then uses no
// more memory than its file.
//
//   Result<Graph> graph = WithQuantizedParams(
//       *adapted, {{"model.embed_tokens.weight", WeightType::kQ8_0}, ...});
//
// The names of params and values are unchanged.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/weight_type.h"

namespace stowage {

/// The block types of params, by name.
using WeightTypes = std::map<std::string, WeightType, std::less<>>;

/// Returns whether operand `i` of `node` may be a quantized param. This is the case for the second
/// operand of a matmul if the first is not transposed, the table of a gather, the weight of a
/// linear_cross_entropy, and the matrices of a grouped_matmul. The matrices of a grouped_matmul are
/// dequantized before the op into a value of the plan, which its backward pass reads or recomputes.
bool ReadsBlocks(const Node& node, size_t i);

/// Returns the names of the params that are matrices or stacks of experts' matrices, and that are
/// read only as operands for which ReadsBlocks is true. The order is the order of the graph. Linear
/// in the size of the graph.
std::vector<std::string> ReadableInBlocks(const Graph& graph);

/// Returns `graph` with the params of `types` in blocks. Returns kInvalidArgument, naming the
/// param, if there is no param of a name, if it is not a matrix or a stack of matrices, if its row
/// size is not a multiple of the block size, or if a node, such as an update, reads it as an
/// operand for which ReadsBlocks is false.
Result<Graph> WithQuantizedParams(const Graph& graph, const WeightTypes& types);

}  // namespace stowage

#endif  // STOWAGE_NN_QUANTIZED_PARAMS_H_

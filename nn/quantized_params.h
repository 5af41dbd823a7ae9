#ifndef STOWAGE_NN_QUANTIZED_PARAMS_H_
#define STOWAGE_NN_QUANTIZED_PARAMS_H_

// Converts graphs to read quantized frozen matrices. Some params of a floating-point graph become
// bytes in rows of blocks (ir/weight_type.h), as in their file, and the nodes that read them
// dequantize them. The base model of adapters then uses no more memory than its file.
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

/// Returns whether a node can read blocks as its operand `i`. This is the case for the second
/// operand of a matmul if the first is not transposed, the table of a gather, the weight of a
/// linear_cross_entropy, and the matrices of a grouped_matmul. The matrices of a grouped_matmul are
/// dequantized before the op into a value of the plan, which its backward pass reads or recomputes.
bool ReadsBlocks(const Node& node, size_t i);

/// Returns the names of the matrices, and of stacks of experts' matrices, that are read only as
/// such operands, in order. Linear in the size of the graph.
std::vector<std::string> ReadableInBlocks(const Graph& graph);

/// Returns `graph` with the params of `types` in blocks. Returns kInvalidArgument, naming the
/// param, if there is no such param, it is not a matrix or a stack of matrices, its rows are not a
/// multiple of the block, or a node, such as an update, reads it as an operand that does not
/// support blocks.
Result<Graph> WithQuantizedParams(const Graph& graph, const WeightTypes& types);

}  // namespace stowage

#endif  // STOWAGE_NN_QUANTIZED_PARAMS_H_

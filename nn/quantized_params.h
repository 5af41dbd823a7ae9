#ifndef STOWAGE_NN_QUANTIZED_PARAMS_H_
#define STOWAGE_NN_QUANTIZED_PARAMS_H_

// Graphs with quantized frozen matrices: some params of a float graph become bytes in rows of
// blocks (ir/weight_type.h), as in their file, and their readers dequantize. The base model
// of adapters then takes no more memory than its file.
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

/// Block types by param name.
using WeightTypes = std::map<std::string, WeightType, std::less<>>;

/// Returns whether a node supports blocks for its operand `i`: a matmul's second one if the
/// first is not transposed, a gather's table, a linear_cross_entropy's weight, a
/// grouped_matmul's matrices. The latter are dequantized before the op into a value of the
/// plan, which its backward reads or recomputes.
bool ReadsBlocks(const Node& node, size_t i);

/// The names of the matrices, and stacks of matrices, that are read only as such operands, in
/// order. Linear.
std::vector<std::string> ReadableInBlocks(const Graph& graph);

/// `graph` with the params of `types` in blocks. Errors, naming the param: no such param; not a
/// matrix; rows that are not whole blocks; an operand that does not support blocks, such as
/// of an update.
Result<Graph> WithQuantizedParams(const Graph& graph, const WeightTypes& types);

}  // namespace stowage

#endif  // STOWAGE_NN_QUANTIZED_PARAMS_H_

#ifndef STOWAGE_NN_QUANTIZED_PARAMS_H_
#define STOWAGE_NN_QUANTIZED_PARAMS_H_

// Graphs whose frozen matrices lie as their file has them: some of the params of a graph
// of floats become bytes in rows of blocks (ir/weight_type.h), and what reads them reads
// blocks. So a base that others learn beside takes what its file takes, and never more.
//
//   Result<Graph> graph = WithQuantizedParams(
//       *adapted, {{"model.embed_tokens.weight", WeightType::kQ8_0}, ...});
//
// Names of params and of all other values stay.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/weight_type.h"

namespace stowage {

/// By name.
using WeightTypes = std::map<std::string, WeightType, std::less<>>;

/// Whether a node reads its operand `i` in blocks, if asked to: a matmul's second one
/// where the first is not transposed, a gather's table, a linear_cross_entropy's weight, a
/// grouped_matmul's matrices. These are decoded before each such op into a value of the
/// plan, which its backward reads, too, or recomputes.
bool ReadsBlocks(const Node& node, size_t i);

/// The names of the matrices, and of the stacks of them, that nothing but such operands reads,
/// in order. Linear.
std::vector<std::string> ReadableInBlocks(const Graph& graph);

/// `graph` with the params of `types` in blocks. Errors, naming the param: none of that
/// name; not a matrix; rows that are not whole blocks; an operand of anything else that
/// does not read blocks, as an update.
Result<Graph> WithQuantizedParams(const Graph& graph, const WeightTypes& types);

}  // namespace stowage

#endif  // STOWAGE_NN_QUANTIZED_PARAMS_H_

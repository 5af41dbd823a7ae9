#ifndef STOWAGE_ONNX_CONTROL_FLOW_COMMON_H_
#define STOWAGE_ONNX_CONTROL_FLOW_COMMON_H_

// What branches and loops of a file have in common: their graphs, what these hand back,
// and the nodes that hold them once all of their own nodes are there.
//
//   Branch branch{std::make_unique<Body>("then", node.context())};
//   ...  // nodes, and branch.results
//   branch.body->Leave();
//   Result<Values> results = EmitCond(node, index, branches);

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "onnx/node.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

using Operands = std::vector<Operand>;

/// The graph that the node has under that name.
Result<const pb::GraphProto*> GraphOf(const ImportedNode& node,
                                      std::string_view name);
/// That a graph of the node has as many inputs, and no fewer outputs.
Status CheckGraph(const ImportedNode& node, const pb::GraphProto& graph,
                  size_t inputs, size_t least_outputs);
/// That what has been built so far is in order; else its error, naming the node.
Status CheckBuilt(const ImportedNode& node);
/// That a value which iterations hand on, called `name`, keeps its type.
Status CheckCarried(const ImportedNode& node, const std::string& name,
                    const TensorType& before, const TensorType& after);

Operand AsOperand(Value value);
/// A scalar that is known: a number, i64, or true.
Operand KnownNumber(int64_t number);
Operand KnownTrue();
/// Whether a condition holds, where that is known. Error: it is no bool.
Result<std::optional<bool>> KnownCondition(ImportedNode& node,
                                           Operand& operand);
/// `operand`, called `name` in the file, as a value that a body may hand back.
Result<Value> HandedBack(ImportedNode& node, const std::string& name,
                         Operand& operand);

/// A body of a cond, once its nodes are there, and what it hands back.
struct Branch {
  std::unique_ptr<Body> body;
  Values results = {};
};
/// The cond of these branches, the first for false or 0, all of which have been left and
/// hand back values of the same types: its results.
Result<Values> EmitCond(ImportedNode& node, Value index,
                        const std::vector<Branch>& branches);

/// What a loop is handed, each with its leaf, and what its body hands back. What else the
/// body reads is whole.
struct Handed {
  Values carried = {}, carried_leaves = {}, next = {};
  Values sliced = {}, sliced_leaves = {};
  Values stacked = {};
};
/// The loop of a body that has been left: what is carried, then what is stacked.
Result<Values> EmitLoop(ImportedNode& node, Body& body, int64_t iterations,
                        bool reverse, const Handed& handed);
/// Whether something in the body reads its leaf.
bool IsRead(Body& body, Value leaf);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_CONTROL_FLOW_COMMON_H_

#ifndef STOWAGE_ONNX_CONTROL_FLOW_H_
#define STOWAGE_ONNX_CONTROL_FLOW_H_

// Converts If, Loop and Scan, which are the nodes with subgraphs, to conds and loops of the graph
// (ir/control_flow.h), or unrolls them.
//
//   If    If the condition is constant, only the selected branch is imported. Otherwise the node
//         becomes a cond.
//   Loop  Becomes a loop with a fixed trip count. If it also has a computed condition, its body is
//         a cond that returns the carries unchanged once the condition is false. The loop is
//         unrolled if one body does not fit all iterations, because sizes depend on the iteration,
//         a carry grows, or the trip count is unknown.
//   Scan  Becomes a loop over slices of its scan inputs. In operator set 8, an outer loop over the
//         batch is added.
//
//   if (node.op() == "If") return ImportIf(node, scope, importer);
//
// A Scope contains the names that are visible at a node. They are defined in the node's graph or in
// an enclosing graph.
//
//   Scope inner{.outer = &scope, .opsets = scope.opsets, .body = &body};
//   Operand* x = inner.Find("x");  // an operand of `body`, captured if defined outside of it

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "onnx/node.h"
#include "onnx/onnx.pb.h"
#include "onnx/parse_model.h"

namespace stowage::onnx {

struct Scope {
  const Scope* outer = nullptr;
  const Opsets* opsets = nullptr;
  bool is_model = false;  // whether it is the scope of the model's own graph
  /// The body whose names this scope contains, or null if this is not the scope of a body.
  Body* body = nullptr;
  std::unordered_map<std::string, Operand*> names = {};

  /// Returns the operand called `name`, or null if the name is not defined. An operand from outside
  /// of a body is captured by the body (Body::Capture).
  Operand* Find(const std::string& name) const {
    const auto found = names.find(name);
    if (found != names.end()) return found->second;
    Operand* const outside = outer ? outer->Find(name) : nullptr;
    return outside && body ? body->Capture(outside) : outside;
  }
};

/// The interface of NodeImporter (onnx/node_importer.h) that converts subgraphs.
class GraphImporter {
 public:
  virtual ~GraphImporter() = default;

  /// Converts all nodes of `graph`, a subgraph of a node in `scope`, and adds them to `body`, which
  /// must be the body that was entered last, or to the current graph if `body` is null. `inputs`
  /// are the operands for the subgraph's inputs, of which there must be at least as many. Returns
  /// the operands of the subgraph's outputs.
  virtual Result<std::vector<Operand*>> AddGraph(const pb::GraphProto& graph,
                                                 const Scope& scope,
                                                 std::vector<Operand> inputs,
                                                 Body* body) = 0;
  /// Returns an upper bound of the number of nodes of `graph` after functions are inlined, at most
  /// 1,000,000.
  virtual int64_t CountNodes(const pb::GraphProto& graph) const = 0;
};

/// The following functions convert a node and return its results. Results that no node reads may be
/// inert. Errors name the node. The functions propagate errors of `importer`. They return
/// kInvalidArgument if a subgraph is missing or its numbers of inputs or outputs do not match the
/// node. They return kUnsupported if a result has no elements, if the type of a result differs
/// between branches, if the type of a carry differs between iterations of a loop that cannot be
/// unrolled, or if a Loop with a computed condition has no maximum trip count or has scan outputs.
Result<std::vector<Operand>> ImportIf(ImportedNode& node, const Scope& scope,
                                      GraphImporter& importer);
Result<std::vector<Operand>> ImportLoop(ImportedNode& node, const Scope& scope,
                                        GraphImporter& importer);
Result<std::vector<Operand>> ImportScan(ImportedNode& node, const Scope& scope,
                                        GraphImporter& importer);

// Helpers for conds and loops.
//
//   Branch branch{std::make_unique<Body>("then", node.context())};
//   ...  // nodes, and branch.results
//   branch.body->Leave();
//   Result<Values> results = EmitCond(node, index, branches);

using Operands = std::vector<Operand>;

/// Returns the subgraph in the node's attribute `name`, or kInvalidArgument if there is none.
Result<const pb::GraphProto*> GraphOf(const ImportedNode& node,
                                      std::string_view name);
/// Returns kInvalidArgument unless the subgraph has `inputs` inputs and at least `least_outputs`
/// outputs.
Status CheckGraph(const ImportedNode& node, const pb::GraphProto& graph,
                  size_t inputs, size_t least_outputs);
/// Returns the error that the current graph has recorded, if any, with the node's name.
Status CheckBuilt(const ImportedNode& node);
/// Returns kUnsupported if the types of the carry `name` before and after an iteration differ.
Status CheckCarried(const ImportedNode& node, const std::string& name,
                    const TensorType& before, const TensorType& after);

Operand AsOperand(Value value);
/// KnownNumber returns a constant i64 scalar, and KnownTrue returns the constant bool true.
Operand KnownNumber(int64_t number);
Operand KnownTrue();
/// Returns the value of a condition, or nullopt if it is not constant. Returns kInvalidArgument if
/// the condition is not a single bool. Propagates errors of reading it.
Result<std::optional<bool>> KnownCondition(ImportedNode& node,
                                           Operand& operand);
/// Returns the value of `operand`, called `name` in the file, as a result of a body. A constant is
/// copied because it cannot be a result. Returns kUnsupported for a sequence and for a value
/// without elements.
Result<Value> HandedBack(ImportedNode& node, const std::string& name,
                         Operand& operand);

/// A body of a cond and the body's results.
struct Branch {
  std::unique_ptr<Body> body;
  Values results = {};
};
/// Adds a cond with these branches to the current graph and returns its results. `index` false or 0
/// selects the first branch. All bodies must have been left, and their results must have the same
/// types. Returns the error of the graph, if any, with the node's name.
Result<Values> EmitCond(ImportedNode& node, Value index,
                        const std::vector<Branch>& branches);

/// The operands of a loop, the corresponding leaves (inputs) of its body, and the body's results.
/// `carried` are the initial carries, and `next` are the carries that the body returns. `sliced`
/// are the scan inputs, and `stacked` are the scan outputs.
struct Handed {
  Values carried = {}, carried_leaves = {}, next = {};
  Values sliced = {}, sliced_leaves = {};
  Values stacked = {};
};
/// Adds a loop of `iterations` iterations of `body` to the current graph, in reverse order of the
/// slices if `reverse`. `body` must have been left. Returns the final carries, followed by the scan
/// outputs, or the error of the graph with the node's name.
Result<Values> EmitLoop(ImportedNode& node, Body& body, int64_t iterations,
                        bool reverse, const Handed& handed);
/// Returns whether a node of `body` reads `leaf`.
bool IsRead(Body& body, Value leaf);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_CONTROL_FLOW_H_

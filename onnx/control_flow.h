#ifndef STOWAGE_ONNX_CONTROL_FLOW_H_
#define STOWAGE_ONNX_CONTROL_FLOW_H_

// Imports nodes with subgraphs, which are If, Loop and Scan, as conds and loops of the graph
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
// A Scope contains the names that are visible at a node, which are defined in its graph or in an
// enclosing graph.
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
  /// The body that begins with this scope, or null.
  Body* body = nullptr;
  std::unordered_map<std::string, Operand*> names = {};

  /// Returns the operand called `name`, or null if it is not defined yet.
  Operand* Find(const std::string& name) const {
    const auto found = names.find(name);
    if (found != names.end()) return found->second;
    Operand* const outside = outer ? outer->Find(name) : nullptr;
    return outside && body ? body->Capture(outside) : outside;
  }
};

/// Interface of the model's importer for the conversion of subgraphs.
class GraphImporter {
 public:
  virtual ~GraphImporter() = default;

  /// Converts all nodes of `graph`, a subgraph within `scope`, into `body`, which must be the body
  /// that was entered last. If `body` is null, converts them into the enclosing graph. Binds
  /// `inputs` to the inputs of the subgraph. Returns the operands of its outputs.
  virtual Result<std::vector<Operand*>> AddGraph(const pb::GraphProto& graph,
                                                 const Scope& scope,
                                                 std::vector<Operand> inputs,
                                                 Body* body) = 0;
  /// Returns an upper bound of the number of nodes, with functions inlined.
  virtual int64_t CountNodes(const pb::GraphProto& graph) const = 0;
};

/// Returns the results of a node with subgraphs. Errors name the node. Returns an error if a
/// subgraph is missing or its numbers of inputs or outputs do not match the node, if the type of a
/// result differs between branches or iterations, if the trip count is unknown, or if a result has
/// no elements.
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

/// Returns the subgraph in the attribute `name`. Returns kInvalidArgument if there is none.
Result<const pb::GraphProto*> GraphOf(const ImportedNode& node,
                                      std::string_view name);
/// Checks the numbers of inputs and outputs of a subgraph.
Status CheckGraph(const ImportedNode& node, const pb::GraphProto& graph,
                  size_t inputs, size_t least_outputs);
/// Returns the error of the graph built so far, if any, with the node's name.
Status CheckBuilt(const ImportedNode& node);
/// Checks that the carry called `name` keeps its type.
Status CheckCarried(const ImportedNode& node, const std::string& name,
                    const TensorType& before, const TensorType& after);

Operand AsOperand(Value value);
/// Returns a constant scalar: an i64 number, or true.
Operand KnownNumber(int64_t number);
Operand KnownTrue();
/// Returns the value of a condition, or nullopt if it is not constant. Returns kInvalidArgument if
/// it is not a single bool.
Result<std::optional<bool>> KnownCondition(ImportedNode& node,
                                           Operand& operand);
/// Returns `operand`, called `name` in the file, as a value that a body can return. A constant is
/// copied. Returns kUnsupported for a sequence, and for a value without elements.
Result<Value> HandedBack(ImportedNode& node, const std::string& name,
                         Operand& operand);

/// A complete body of a cond, and its results.
struct Branch {
  std::unique_ptr<Body> body;
  Values results = {};
};
/// Emits the cond of these branches and returns its results. The first branch is selected by false
/// or 0. All bodies must have been left, and must return values of the same types.
Result<Values> EmitCond(ImportedNode& node, Value index,
                        const std::vector<Branch>& branches);

/// The operands of a loop, the corresponding leaves (inputs) of its body, and the results of the
/// body. `carried` and `next` are carries before and after an iteration, `sliced` are scan inputs,
/// and `stacked` are scan outputs.
struct Handed {
  Values carried = {}, carried_leaves = {}, next = {};
  Values sliced = {}, sliced_leaves = {};
  Values stacked = {};
};
/// Emits the loop of a body, which must have been left. Returns the carries, then the scan outputs.
Result<Values> EmitLoop(ImportedNode& node, Body& body, int64_t iterations,
                        bool reverse, const Handed& handed);
/// Returns whether the body reads the leaf.
bool IsRead(Body& body, Value leaf);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_CONTROL_FLOW_H_

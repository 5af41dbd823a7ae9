#ifndef STOWAGE_ONNX_CONTROL_FLOW_H_
#define STOWAGE_ONNX_CONTROL_FLOW_H_

// Nodes with subgraphs: If, Loop and Scan, imported as conds and loops of the graph
// (ir/control_flow.h), or unrolled.
//
//   If    the taken branch, if the condition is constant; else a cond
//   Loop  a loop with a fixed number of iterations. If it also has a computed condition,
//         its body is a cond that passes the carries on once the condition is false. It is
//         unrolled if no one body fits all iterations: sizes that depend on the iteration,
//         carries that grow, an unknown number of iterations
//   Scan  a loop over slices; operator set 8 has one more loop, over the batch
//
//   if (node.op() == "If") return ImportIf(node, scope, importer);
//
// A Scope has the names visible at a node: those of its graph and of the enclosing graphs.
//
//   Scope inner{.outer = &scope, .opsets = scope.opsets, .body = &body};
//   Operand* x = inner.Find("x");  // of `body`, captured if it is from outside

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
  bool is_model = false;  // of the model's own graph
  /// The body that begins with this scope, if any.
  Body* body = nullptr;
  std::unordered_map<std::string, Operand*> names = {};

  /// The operand of that name; null if it is not defined yet.
  Operand* Find(const std::string& name) const {
    const auto found = names.find(name);
    if (found != names.end()) return found->second;
    Operand* const outside = outer ? outer->Find(name) : nullptr;
    return outside && body ? body->Capture(outside) : outside;
  }
};

/// The importer of the model, which converts subgraphs.
class GraphImporter {
 public:
  virtual ~GraphImporter() = default;

  /// Converts all nodes of `graph`, a subgraph within `scope`, into `body`, which must be
  /// the one entered last, or, if it is null, into the enclosing graph. `inputs` are bound
  /// to its inputs. Returns the operands of its outputs.
  virtual Result<std::vector<Operand*>> AddGraph(const pb::GraphProto& graph,
                                                 const Scope& scope,
                                                 std::vector<Operand> inputs,
                                                 Body* body) = 0;
  /// An upper bound of the number of nodes, with functions inlined.
  virtual int64_t CountNodes(const pb::GraphProto& graph) const = 0;
};

/// The results of such a node. Errors, naming it: a subgraph that is missing or has other
/// inputs or outputs than the node; results whose types differ between branches or
/// iterations; an unknown number of iterations; results without elements.
Result<std::vector<Operand>> ImportIf(ImportedNode& node, const Scope& scope,
                                      GraphImporter& importer);
Result<std::vector<Operand>> ImportLoop(ImportedNode& node, const Scope& scope,
                                        GraphImporter& importer);
Result<std::vector<Operand>> ImportScan(ImportedNode& node, const Scope& scope,
                                        GraphImporter& importer);

// Shared by conds and loops.
//
//   Branch branch{std::make_unique<Body>("then", node.context())};
//   ...  // nodes, and branch.results
//   branch.body->Leave();
//   Result<Values> results = EmitCond(node, index, branches);

using Operands = std::vector<Operand>;

/// The subgraph in the attribute of that name.
Result<const pb::GraphProto*> GraphOf(const ImportedNode& node,
                                      std::string_view name);
/// Checks the numbers of inputs and outputs of a subgraph.
Status CheckGraph(const ImportedNode& node, const pb::GraphProto& graph,
                  size_t inputs, size_t least_outputs);
/// The error of the graph built so far, if any, naming the node.
Status CheckBuilt(const ImportedNode& node);
/// Checks that the carry called `name` keeps its type.
Status CheckCarried(const ImportedNode& node, const std::string& name,
                    const TensorType& before, const TensorType& after);

Operand AsOperand(Value value);
/// A constant scalar: a number, i64, or true.
Operand KnownNumber(int64_t number);
Operand KnownTrue();
/// The value of a condition, if it is constant. Error: it is not a bool.
Result<std::optional<bool>> KnownCondition(ImportedNode& node,
                                           Operand& operand);
/// `operand`, called `name` in the file, as a value that a body may return.
Result<Value> HandedBack(ImportedNode& node, const std::string& name,
                         Operand& operand);

/// A complete body of a cond, and its results.
struct Branch {
  std::unique_ptr<Body> body;
  Values results = {};
};
/// Emits the cond of these branches, the first for false or 0, and returns its results. All
/// bodies have been left, and return values of the same types.
Result<Values> EmitCond(ImportedNode& node, Value index,
                        const std::vector<Branch>& branches);

/// The operands of a loop, with their leaves in the body, and the body's results: carries,
/// scan inputs (sliced) and scan outputs (stacked).
struct Handed {
  Values carried = {}, carried_leaves = {}, next = {};
  Values sliced = {}, sliced_leaves = {};
  Values stacked = {};
};
/// Emits the loop of a body that has been left. Returns the carries, then the scan outputs.
Result<Values> EmitLoop(ImportedNode& node, Body& body, int64_t iterations,
                        bool reverse, const Handed& handed);
/// Returns whether the body reads the leaf.
bool IsRead(Body& body, Value leaf);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_CONTROL_FLOW_H_

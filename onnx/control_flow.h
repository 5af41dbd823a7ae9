#ifndef STOWAGE_ONNX_CONTROL_FLOW_H_
#define STOWAGE_ONNX_CONTROL_FLOW_H_

// Nodes that hold graphs: If, Loop and Scan, as branches and loops of the graph
// (ir/control_flow.h), or written out where a plan knows what they do.
//
//   If    the branch, where the condition is known; else a cond
//   Loop  a loop with a fixed number of iterations. While a condition is computed, its body
//         is a cond that passes on what is carried once the condition has ended it. It
//         is written out where its body cannot be one graph for all iterations: sizes that
//         depend on the iteration, carried values that grow, no count of iterations at all
//   Scan  a loop over slices; operator set 8 has one more loop, over the batch
//
//   if (node.op() == "If") return ImportIf(node, scope, importer);

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "onnx/node.h"
#include "onnx/onnx.pb.h"
#include "onnx/scope.h"

namespace stowage::onnx {

/// What converts the nodes of a graph: the importer of the model.
class GraphImporter {
 public:
  virtual ~GraphImporter() = default;

  /// Converts all nodes of `graph`, which stands within `scope`, to where nodes go now:
  /// into `body`, which must be what has been entered last, or, where that is null,
  /// among the nodes around. `inputs` stand for its inputs. What its outputs stand for.
  virtual Result<std::vector<Operand*>> AddGraph(const pb::GraphProto& graph,
                                                 const Scope& scope,
                                                 std::vector<Operand> inputs,
                                                 Body* body) = 0;
  /// How many nodes that is at most, functions written out.
  virtual int64_t CountNodes(const pb::GraphProto& graph) const = 0;
};

/// The results of such a node. Errors, naming it: a graph that is missing, or has other
/// inputs or outputs than the node; results whose types differ between branches or
/// between iterations; a number of iterations that is not known; results without elements.
Result<std::vector<Operand>> ImportIf(ImportedNode& node, const Scope& scope,
                                      GraphImporter& importer);
Result<std::vector<Operand>> ImportLoop(ImportedNode& node, const Scope& scope,
                                        GraphImporter& importer);
Result<std::vector<Operand>> ImportScan(ImportedNode& node, const Scope& scope,
                                        GraphImporter& importer);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_CONTROL_FLOW_H_

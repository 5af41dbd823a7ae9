#ifndef STOWAGE_REPORT_PLAN_JSON_H_
#define STOWAGE_REPORT_PLAN_JSON_H_

// Plan files: a plan and its graph in one self-contained JSON object. Offsets, sizes and
// lifetimes are exact integers. The graph is in its text form (ir/text.h), and once more
// as numbers, so that a verifier need not know the ops: which values are views and their
// layout, which operands a node may overwrite. tools/judge_plan.py is such a verifier.
//
//   {"format": "stowage-plan", "version": 4, "graph": "stowage-ir 1\n...",
//    "fingerprint": "9d1b...", "alignment": 256,
//    "budget_bytes": 65536, "optimizations": "micro_batches 1\nrecompute auto\n...",
//    "device": "cpu, 2 threads",
//    "regions": {"weights": 512, ...},
//    "buffers": [{"name": "h", "region": "activations", "offset": 0,
//                 "size": 256, "lower": 1, "upper": 4}, ...],
//    "buffer_of": [0, 1, ...], "workspace_of": [-1, ...], ...,
//    "values": [{"name": "h", "dtype": "f32", "shape": [4, 8], "bytes": 128,
//                "role": "activation", "on_host": false,
//                "root": 3, "offset": 0, "strides": [8, 1]}, ...],
//    "nodes": [{"op": "add", "inputs": [0, 1], "results": [3], "view": false,
//               "updates": 0, "may_overwrite": [0, 1]}, ...],
//    "outputs": [3],
//    "bodies": [{"node": 4, "second_of": [-1], "plan": {"buffers": ...}}],
//    "sources": {"files": ["nn/models/images.cc"], "file_of": [0, 0, ...],
//                "line_of": [12, 14, ...]}}
//
// A value is in the bytes of its root, from "offset" bytes on, with its elements
// "strides" elements apart; one that owns bytes is its own root. A view runs nothing. The
// first "updates" results of a node are the new contents of its first operands. A buffer
// of a body within the bytes of an operand that has died, or of a result that is not
// written yet, names it: {..., "region": "outside", ..., "within": 1}. "bodies", which
// only plans of graphs with loops or branches have, are the plans of these, with the same
// fields, in the order of nodes and, within a node, of its bodies. A node with bodies has
// their number, and a loop the inputs of its body (ir/bodies.h): {"op": "loop", ...,
// "bodies": 1, "loop": {"iterations": 3, "carried": 1, "sliced": 1, "summed": 0,
// "reverse": false}}. "workspace_of" has the buffer of each node's workspace;
// "host_workspace_of", which only exists if bodies offload values, that of its host
// memory. "sources" has the line of the user's program that made each value; it is
// optional, and so is "device".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// The request to the planner.
struct PlanRequest {
  std::optional<Bytes> budget = {};
  // As text (planner/fit/memory_optimizations.h); empty: unknown.
  std::string optimizations = {};
  std::string device = {};  // whose workspace is planned; empty: unknown
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

struct PlanFile {
  Graph graph;
  Plan plan;
  PlanRequest request = {};
};

/// The file's contents. Loading them gives an equal plan.
std::string PlanToJson(const Plan& plan, const Graph& graph,
                       const PlanRequest& request = {});

/// Reads the output of PlanToJson. Checks that every field exists, has its type and is in
/// range, that all indices and sums are valid, that the plan is for the graph beside it,
/// and that the properties of values and nodes are right; errors name the problem.
/// ViolationsOf checks whether the plan breaks a law. Errors: kInvalidArgument.
Result<PlanFile> PlanFromJson(std::string_view text);

/// The violations of a plan that was read: those of ValidatePlan
/// (planner/validate_plan.h); figures that its slots do not give (the bytes without reuse
/// are only checked for a step that was not fitted to a budget); an arena above the
/// budget. Empty for a valid plan.
std::vector<std::string> ViolationsOf(const PlanFile& file);

}  // namespace stowage

#endif  // STOWAGE_REPORT_PLAN_JSON_H_

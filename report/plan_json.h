#ifndef STOWAGE_REPORT_PLAN_JSON_H_
#define STOWAGE_REPORT_PLAN_JSON_H_

// Reads and writes plan files. A plan file contains a plan (planner/plan.h) and its graph in one
// self-contained JSON object. Offsets, sizes and lifetimes are exact integers. The graph is
// stored in its text form (ir/text.h). The file also lists the layout of each value, and the
// operands that each node may overwrite. A program that verifies the plan therefore needs no
// knowledge of the ops. tools/judge_plan.py is such a program.
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
// A value is stored in the bytes of its "root", from the byte "offset" on, with "strides", which
// are in elements. The root of a value that owns bytes is the value itself. A view launches no
// kernel. The first "updates" results of a node are the new contents of its first operands.
//
// "workspace_of" contains the buffer of each node's workspace, or -1. "host_workspace_of" contains
// the buffer in which the bodies of each node store offloaded values, or -1. It exists only if
// bodies offload values. "sources" contains the line of the user's program that created each value.
// "sources" and "device" are optional.
//
// Only plans of graphs with loops or branches have "bodies". This list contains the plans of the
// bodies, in the order of nodes and, within a node, in the order of its bodies. The plan of a body
// has the same fields as the file, except the graph's text, the sources, and the request to the
// planner ("budget_bytes", "optimizations" and "device"). An entry of "nodes" has the field
// "bodies", the number of bodies, if the node has bodies. For a loop, the field "loop" describes
// the inputs of the body (ir/bodies.h): {"op": "loop", ..., "bodies": 1, "loop": {"iterations": 3,
// "carried": 1, "sliced": 1, "summed": 0, "reverse": false}}. If a buffer of a body is placed
// within the bytes of an operand that has died, or of a result that is not written yet, "within" is
// the index of the buffer of this operand or result: {..., "region": "outside", ..., "within": 1}.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// The request that led to a plan.
struct PlanRequest {
  std::optional<Bytes> budget = {};
  /// The result of ToText for MemoryOptimizations (planner/fit/memory_optimizations.h). Empty for a
  /// graph that is planned as it is.
  std::string optimizations = {};
  /// The device for whose kernels workspace is planned (DeviceNeeds::device). Empty if unknown.
  std::string device = {};
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

struct PlanFile {
  Graph graph;
  Plan plan;
  PlanRequest request = {};
};

/// Returns the contents of a plan file. `plan` must be for `graph`. Parsing the contents returns an
/// equal plan.
std::string PlanToJson(const Plan& plan, const Graph& graph,
                       const PlanRequest& request = {});

/// Parses the output of PlanToJson. Checks that every required field exists, has its type and is in
/// range, that all indices and sums are valid, that the plan is for the graph in the file,
/// and that the properties of values and nodes are correct. Returns kInvalidArgument,
/// naming the problem, if a check fails. Does not verify the plan itself (see ViolationsOf).
Result<PlanFile> PlanFromJson(std::string_view text);

/// Returns the violations of a plan that was read, or an empty list for a valid plan. These are the
/// violations of ValidatePlan (planner/validate_plan.h) or, if there are none, figures that do not
/// follow from the slots, and in both cases an arena that exceeds the budget. If
/// PlanRequest::optimizations allows an optimization, the size without reuse is only checked to be
/// at least the arena. For a plan with bodies whose arena is above the lower bound, Plan::optimal
/// is not checked.
std::vector<std::string> ViolationsOf(const PlanFile& file);

}  // namespace stowage

#endif  // STOWAGE_REPORT_PLAN_JSON_H_

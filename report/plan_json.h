#ifndef STOWAGE_REPORT_PLAN_JSON_H_
#define STOWAGE_REPORT_PLAN_JSON_H_

// Plan files: a plan and the graph it is for, in one JSON object that needs
// nothing else. Offsets, sizes and lifetimes are exact integers; the graph is
// in its text form (ir/text.h), and once more as numbers, so that a judge need not
// know our ops: which values are views and how they lie, which operands a node may
// overwrite. tools/judge_plan.py is such a judge.
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
// A value lies in the bytes of its root, from "offset" bytes on, its elements
// "strides" elements apart; one that owns bytes is its own root. A view runs nothing.
// The first "updates" results of a node are the new contents of its first operands.
// A buffer of a body that lies in the bytes of an operand which has died, or of a result
// that is not there yet, says in which: {..., "region": "outside", ..., "within": 1}.
// "bodies", which only plans of graphs with loops or branches have, are the plans of
// these, with the same fields, in the order of nodes and, of one node, of its bodies. A
// node that has some says how many, and a loop what it hands to its body (ir/bodies.h):
// {"op": "loop", ..., "bodies": 1, "loop": {"iterations": 3, "carried": 1, "sliced": 1,
// "summed": 0, "reverse": false}}. "workspace_of" says per node in which buffer its scratch
// is, and "host_workspace_of", which only plans have whose bodies keep something in the
// host's memory, in which that is.
// "sources" says per value which line of the user's program made it; a file need
// not have it, nor "device".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// What was asked of the planner.
struct PlanRequest {
  std::optional<Bytes> budget = {};
  std::string optimizations =
      {};  // in words (planner/fit/memory_optimizations.h); empty: not said
  std::string device =
      {};  // whose scratch is planned, in words; empty: not said
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

struct PlanFile {
  Graph graph;
  Plan plan;
  PlanRequest request = {};
};

/// The file's contents. What is written loads back equal.
std::string PlanToJson(const Plan& plan, const Graph& graph,
                       const PlanRequest& request = {});

/// Reads what PlanToJson wrote. Checks that every field is there, of its type and in
/// its range, that all indices and sums are sound, that the plan is for the graph
/// beside it, and that what is said of values and nodes is so; what is wrong is
/// named. Whether the plan breaks a law is another question: ViolationsOf answers it.
/// Errors: kInvalidArgument.
Result<PlanFile> PlanFromJson(std::string_view text);

/// What is wrong with a plan that was read: what ValidatePlan (planner/validate_plan.h)
/// finds; figures that its slots do not give, of which the bytes without reuse are known
/// of a step that was not made to fit a budget alone; an arena above the budget. Empty of
/// a sound plan.
std::vector<std::string> ViolationsOf(const PlanFile& file);

}  // namespace stowage

#endif  // STOWAGE_REPORT_PLAN_JSON_H_

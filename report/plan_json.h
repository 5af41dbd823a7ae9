#ifndef STOWAGE_REPORT_PLAN_JSON_H_
#define STOWAGE_REPORT_PLAN_JSON_H_

// Plan files: a plan and the graph it is for, in one JSON object that needs
// nothing else. Offsets, sizes and lifetimes are exact integers; the graph is
// in its text form (ir/text.h).
//
//   {"format": "stowage-plan", "version": 1, "graph": "stowage-ir 1\n...",
//    "fingerprint": "9d1b...", "alignment": 256,
//    "regions": {"weights": 512, ...},
//    "buffers": [{"name": "h", "region": "activations", "offset": 0,
//                 "size": 256, "lower": 1, "upper": 4}, ...],
//    "buffer_of": [0, 1, ...], "workspace_of": [-1, ...], ...,
//    "sources": {"files": ["nn/models/mlp.cc"], "file_of": [0, 0, ...],
//                "line_of": [12, 14, ...]}}
//
// "sources" says per value which line of the user's program made it; a file need
// not have it.

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

struct PlanFile {
  Graph graph;
  Plan plan;
};

/// The file's contents. What is written loads back equal.
std::string PlanToJson(const Plan& plan, const Graph& graph);

/// Reads what PlanToJson wrote. Checks that every field is there, of its type
/// and in its range, that all indices and sums are sound, and that the plan is
/// for the graph beside it; what is wrong is named. Whether the plan breaks a
/// law is another question: ValidatePlan answers it. Errors: kInvalidArgument.
Result<PlanFile> PlanFromJson(std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_REPORT_PLAN_JSON_H_

#ifndef STOWAGE_PLANNER_FIT_PLAN_PROGRAM_H_
#define STOWAGE_PLANNER_FIT_PLAN_PROGRAM_H_

// How a graph becomes a program, one way for all: training steps, evaluation, generation,
// the graph of a file.
//
//   epilogues   what follows a product is done by it, where the device can
//   levers      of a training step alone (planner/fit/fit.h)
//   plan        a place for every byte (planner/plan_memory.h)
//   fuse        several nodes run as one, where that needs no larger arena
//
// A step takes it by StepFitter, and what has no levers by PlanProgram, which plans what
// a StepFitter without levers would. PlanMemory alone plans a graph as it stands.
//
//   PlanOptions options{.weights = WeightLayout::FromForward(step, *step_plan),
//                       .device = cpu->Needs()};
//   Result<PlannedGraph> eval = PlanProgram(model, options);
//   Session::Create({{"train", step, *step_plan}, {"eval", eval->graph, eval->plan}},
//                   *cpu);

#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage {

/// A graph to run, and where every byte of it lies.
struct PlannedGraph {
  Graph graph;
  Plan plan;  // for `graph`
};

/// `graph` with what `options.device` does in one node made one node (docs/fusion.md),
/// and its plan. Inputs, params, states, caches and outputs keep their names, types and
/// order; what lies between may be gone. Which epilogues there are does not depend on the
/// plan, and what else is fused shows in no bit: so a graph computes the same in every
/// budget and layout. Errors: those of PlanMemory; a budget is held against the fused
/// graph. Deterministic.
Result<PlannedGraph> PlanProgram(const Graph& graph,
                                 const PlanOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_PLANNER_FIT_PLAN_PROGRAM_H_

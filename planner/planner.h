#ifndef STOWAGE_PLANNER_PLANNER_H_
#define STOWAGE_PLANNER_PLANNER_H_

// The umbrella header of the package. The package plans the memory of a graph, lets programs share
// one copy of the weights, and verifies plans.

#include "planner/certificate.h"    // IWYU pragma: export
#include "planner/lifetimes.h"      // IWYU pragma: export
#include "planner/placement.h"      // IWYU pragma: export
#include "planner/plan.h"           // IWYU pragma: export
#include "planner/plan_memory.h"    // IWYU pragma: export
#include "planner/stream.h"         // IWYU pragma: export
#include "planner/validate_plan.h"  // IWYU pragma: export

#endif  // STOWAGE_PLANNER_PLANNER_H_

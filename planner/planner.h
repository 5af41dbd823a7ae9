#ifndef STOWAGE_PLANNER_PLANNER_H_
#define STOWAGE_PLANNER_PLANNER_H_

// The package's umbrella header: plan a graph, share its weights among programs, verify a
// plan.

#include "planner/certificate.h"    // IWYU pragma: export
#include "planner/lifetimes.h"      // IWYU pragma: export
#include "planner/placement.h"      // IWYU pragma: export
#include "planner/plan.h"           // IWYU pragma: export
#include "planner/plan_memory.h"    // IWYU pragma: export
#include "planner/stream.h"         // IWYU pragma: export
#include "planner/validate_plan.h"  // IWYU pragma: export

#endif  // STOWAGE_PLANNER_PLANNER_H_

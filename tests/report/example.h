#ifndef STOWAGE_TESTS_REPORT_EXAMPLE_H_
#define STOWAGE_TESTS_REPORT_EXAMPLE_H_

// Provides a graph of three nodes and a plan for it. Both are written by hand, so that every number
// in a report can be checked by hand.
//
//   address  time 0  1  2        64-byte span above 32 reserved bytes
//     64              .  .  S    S  workspace of "loss"  16 bytes [2, 3)
//     48              .  r  r    r  16 bytes [1, 3)
//     32              h  h  l    h  16 bytes [0, 2), l "loss" 4 bytes [2, 3)
//     16              x  x  x    x  input, 16 bytes
//      0              w  w  w    w  param, 16 bytes

#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage::testing {

Graph ExampleGraph();
Plan ExamplePlan();

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_REPORT_EXAMPLE_H_

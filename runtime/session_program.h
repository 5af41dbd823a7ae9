#ifndef STOWAGE_RUNTIME_SESSION_PROGRAM_H_
#define STOWAGE_RUNTIME_SESSION_PROGRAM_H_

// A program as an argument of a session.
//
//   SessionProgram{"train", step, plan}

#include <string>

#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

struct SessionProgram {
  std::string name;
  Graph graph;
  Plan plan;
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_SESSION_PROGRAM_H_

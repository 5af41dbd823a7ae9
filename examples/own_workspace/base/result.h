#ifndef OWN_WORKSPACE_BASE_RESULT_H_
#define OWN_WORKSPACE_BASE_RESULT_H_

// What came of a training run.

namespace own {

struct Result {
  int steps = 0;
  float loss = 0;
};

}  // namespace own

#endif  // OWN_WORKSPACE_BASE_RESULT_H_

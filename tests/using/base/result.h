#ifndef TESTS_USING_STOWAGE_BASE_RESULT_H_
#define TESTS_USING_STOWAGE_BASE_RESULT_H_

// A user's own header, at a path that Stowage has too.

namespace own {

struct Result {
  int goals = 0;
};

}  // namespace own

#endif  // TESTS_USING_STOWAGE_BASE_RESULT_H_

#ifndef TESTS_USING_STOWAGE_BASE_RESULT_H_
#define TESTS_USING_STOWAGE_BASE_RESULT_H_

// A header of a user's program. Stowage has a header with the same path.

namespace own {

struct Result {
  int goals = 0;
};

}  // namespace own

#endif  // TESTS_USING_STOWAGE_BASE_RESULT_H_

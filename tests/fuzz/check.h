#ifndef STOWAGE_TESTS_FUZZ_CHECK_H_
#define STOWAGE_TESTS_FUZZ_CHECK_H_

// What a fuzz target holds to be true of whatever was parsed. It is a finding when
// it is not.
//
//   Check(ParseGraph(GraphText(*graph)).ok());

#include <cstdlib>

namespace stowage::testing {

inline void Check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_FUZZ_CHECK_H_

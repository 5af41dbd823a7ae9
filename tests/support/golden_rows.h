#ifndef STOWAGE_TESTS_SUPPORT_GOLDEN_ROWS_H_
#define STOWAGE_TESTS_SUPPORT_GOLDEN_ROWS_H_

// Files of tests/goldens/ with rows case,what,index,value.

#include <string>
#include <vector>

namespace stowage {

struct OpGolden {
  std::string name, what, index;
  double value;
};

/// The rows; requires (doctest) that the file is there and has this form.
std::vector<OpGolden> ReadOpGoldens(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_GOLDEN_ROWS_H_

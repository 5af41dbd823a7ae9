#ifndef STOWAGE_TESTS_SUPPORT_GOLDEN_ROWS_H_
#define STOWAGE_TESTS_SUPPORT_GOLDEN_ROWS_H_

// Reads the files of tests/goldens/, which hold rows of comma-separated fields below a header
// line.
//
//   for (const OpGolden& golden : ReadOpGoldens("tests/goldens/lstm.csv")) { ... }

#include <string>
#include <vector>

namespace stowage {

/// Returns the fields of each row. Fails the running doctest case if the file cannot be read, if
/// its first line is not `header`, or if a row and `header` differ in their numbers of fields.
std::vector<std::vector<std::string>> ReadGoldenRows(const std::string& path,
                                                     const std::string& header);

struct OpGolden {
  std::string name, what, index;
  double value;
};

/// Returns the rows of a file with the header "case,what,index,value".
std::vector<OpGolden> ReadOpGoldens(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_GOLDEN_ROWS_H_

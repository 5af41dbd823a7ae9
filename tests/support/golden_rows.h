#ifndef STOWAGE_TESTS_SUPPORT_GOLDEN_ROWS_H_
#define STOWAGE_TESTS_SUPPORT_GOLDEN_ROWS_H_

// Files of tests/goldens/: rows of comma-separated fields below a header line.
//
//   for (const OpGolden& golden : ReadOpGoldens("tests/goldens/lstm.csv")) { ... }

#include <string>
#include <vector>

namespace stowage {

/// The fields of each row. Requires (doctest) that the file exists, that `header` is its first
/// line, and that every row has as many fields.
std::vector<std::vector<std::string>> ReadGoldenRows(const std::string& path,
                                                     const std::string& header);

struct OpGolden {
  std::string name, what, index;
  double value;
};

/// The rows of a file with the header case,what,index,value.
std::vector<OpGolden> ReadOpGoldens(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_GOLDEN_ROWS_H_
